"""Environment variables: lists of those that matter and why, digests of their values, and lookups on PATH.

Part of the hot path.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.nvcc_lookup import is_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Variables for colours affect diagnostics only with one of these options, since no tool runs on a terminal.
_COLOUR_OPTIONS = ("-fdiagnostics-color", "-fcolor-diagnostics", "-fdiagnostics-urls", "-fansi-escape-codes")
# They contain arguments for nvcc; see invocation.py.
OF_ARGUMENTS = ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")
LIBRARY_PATH, TUNABLES = "LD_LIBRARY_PATH", "GLIBC_TUNABLES"
# The dynamic loader of every tool reads them. They affect which libraries it loads, and which features of the
# processor the libraries use.
OF_LOADER = (
    *(LIBRARY_PATH, TUNABLES, "LD_ASSUME_KERNEL", "LD_AUDIT", "LD_DYNAMIC_WEAK", "LD_HWCAP_MASK"),
    *("LD_ORIGIN_PATH", "LD_PRELOAD"),
)
# Each makes a tool write further files, which bypasses the cache.
OF_SIDE_OUTPUTS = tuple(
    """
    DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES GCC_COMPARE_DEBUG CC_LOG_DIAGNOSTICS CC_PRINT_HEADERS
    CC_PRINT_INTERNAL_STAT CC_PRINT_OPTIONS CC_PRINT_PROC_STAT CCC_OVERRIDE_OPTIONS DUMP_KNOBS_TO_FILE
    """.split()
)
# The C library reads them in every program, without calls of functions that the observer replaces.
OF_LIBC = tuple(
    """
    CHARSET GCONV_PATH LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME LOCPATH
    NLSPATH OUTPUT_CHARSET POSIXLY_CORRECT
    """.split()
)

WHOLE = "*"  # means all variables except ignored ones; `BASH_*` means those with the prefix
_UNSET = "-"
# No product depends on these: shells and make set them for their children, or they name temporary
# directories.
OF_OTHERS = frozenset(
    """
    _ OLDPWD SHLVL MAKEFLAGS MAKELEVEL MAKE_TERMERR MAKE_TERMOUT MFLAGS TEMP TEMPDIR TMP TMPDIR
    """.split()
)
OWN = ("NVCCACHE_", "_NVCCACHE_")


def requests_colours(argv: Iterable[str]) -> bool:
    """Whether diagnostics may contain colours or links even without a terminal."""
    return any(argument.startswith(_COLOUR_OPTIONS) for argument in argv)


def is_ignored(name: str) -> bool:
    """Whether no product depends on a variable, unless a program other than a compiler reads it by name."""
    return name in OF_OTHERS or name.startswith(OWN)


def digest_of(name: str, environ: Mapping[str, str]) -> str:
    """The digest of a variable's value; if `name` is `PREFIX*`, of all variables with this prefix."""
    if name[-1:] == WHOLE:
        start = name[:-1]
        pairs = sorted(
            [pair for pair in environ.items() if pair[0].startswith(start) and not is_ignored(pair[0])]
        )
        return keys.digest_bytes(os.fsencode("\0".join(["=".join(pair) for pair in pairs])))
    value = environ.get(name)
    return _UNSET if value is None else keys.digest_bytes(os.fsencode(value))


def is_set(digest: str) -> bool:
    """Whether a digest of `digest_of` is that of a variable that was set."""
    return digest not in ("", _UNSET)


def found_on(search_path: str, name: str) -> str:
    """The path of a program on a search path, or empty."""
    for directory in search_path.split(":"):
        path = os.path.join(directory or ".", name)
        if os.access(path, os.X_OK) and is_program(path):  # access is fast if nothing is there
            return path
    return ""

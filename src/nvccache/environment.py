"""The environment: lists of its variables, and the values of those that were read.

That is variables by name, all of it, and programs on PATH.

Part of the hot path.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.real_nvcc import is_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# They reach diagnostics only where an option asks for colours, since no tool that is run has a terminal.
_COLOUR_OPTIONS = (
    "-fdiagnostics-color",
    "-fcolor-diagnostics",
    "-fdiagnostics-urls",
    "-fansi-escape-codes",
)
# Their words are arguments; see invocation.py.
OF_ARGUMENTS = ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")
# What the dynamic loader of every tool heeds: which libraries it loads, and what they see of the processor.
OF_LOADER = tuple(
    """
    GLIBC_TUNABLES LD_ASSUME_KERNEL LD_AUDIT LD_DYNAMIC_WEAK LD_HWCAP_MASK LD_LIBRARY_PATH
    LD_ORIGIN_PATH LD_PRELOAD
    """.split()
)
# Each makes a tool write further files, which bypasses the cache.
OF_SIDE_OUTPUTS = tuple(
    """
    DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES GCC_COMPARE_DEBUG CC_LOG_DIAGNOSTICS CC_PRINT_HEADERS
    CC_PRINT_INTERNAL_STAT CC_PRINT_OPTIONS CC_PRINT_PROC_STAT CCC_OVERRIDE_OPTIONS DUMP_KNOBS_TO_FILE
    """.split()
)
# What the C library of every program heeds without asking by the functions that are observed.
OF_LIBC = tuple(
    """
    CHARSET GCONV_PATH LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME LOCPATH
    NLSPATH OUTPUT_CHARSET POSIXLY_CORRECT
    """.split()
)
OF_DATES = ("TZ", "TZDIR")  # where a date is written, such as by `ls -l`

WHOLE = "*"  # stands for all variables but those that nothing can depend on; `BASH_*` for those that begin so
_UNSET = "-"
# How shells and make talk to those that they start; the names of temporary directories reach nothing.
OF_OTHERS = frozenset(
    """
    _ OLDPWD SHLVL MAKEFLAGS MAKELEVEL MAKE_TERMERR MAKE_TERMOUT MFLAGS TEMP TEMPDIR TMP TMPDIR
    """.split()
)
OWN = ("NVCCACHE_", "_NVCCACHE_")
_GIVEN_BY_US = ("TMPDIR",)


def asks_for_colours(argv: Iterable[str]) -> bool:
    """Whether diagnostics may be coloured or linked though nobody looks at a terminal."""
    return any(word.startswith(_COLOUR_OPTIONS) for word in argv)


def is_ignored(name: str) -> bool:
    """Whether no product can depend on a variable, unless something names it that is no compiler."""
    return name in OF_OTHERS or name.startswith(OWN)


def is_hidden(name: str) -> bool:
    """Whether no tool sees the value that a variable has for the caller."""
    return name in _GIVEN_BY_US or name.startswith(OWN)


def digest_of(name: str, environ: Mapping[str, str]) -> str:
    """The digest of a variable's value, or of all variables that begin as a name with `*` does."""
    if name[-1:] == WHOLE:
        start = name[:-1]
        pairs = sorted(
            [pair for pair in environ.items() if pair[0].startswith(start) and not is_ignored(pair[0])]
        )
        return keys.digest_bytes(os.fsencode("\0".join(["=".join(pair) for pair in pairs])))
    value = environ.get(name)
    return _UNSET if value is None else keys.digest_bytes(os.fsencode(value))


def is_set(digest: str) -> bool:
    """Whether `digest_of` says that the variable was there."""
    return digest not in ("", _UNSET)


def found_on(search_path: str, name: str) -> str:
    """The program that a name stands for on a search path, or empty."""
    for directory in search_path.split(":"):
        path = os.path.join(directory or ".", name)
        if is_program(path):
            return path
    return ""

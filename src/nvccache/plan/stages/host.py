"""The host compiler. It runs the preprocessor for each pass; compiles the output of cudafe++ or nvlink, or a
source without device code; and links.

It can have any name, so its commands are recognized by the macros that nvcc defines in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.commandline.host_options import is_link, side_files, writes_beside_object
from nvccache.plan.stages import line_options
from nvccache.plan.stages.tool import Grammar, Tool, never

# Sources of the toolkit, which include the output of nvlink and fatbinary.
_STUBS_OF_LINKS = ("/crt/link.stub", "/crt/prelink.stub")
_DEVICE_PASS = "-D__CUDA_ARCH__="
_PASS_MACROS = ("-D__CUDA_ARCH__=", "-D__CUDA_ARCH_LIST__=", "-D__CUDACC__", "-D__NVCC__")
_PREFIX_MAPS = ("-ffile-prefix-map=", "-fdebug-prefix-map=")
# Replaces the path of the scratch directory in debug information, since each call has a new one.
DEBUG_DIRECTORY = "/tmp/nvccache"
# Options that load code which is not in the key, or that write the whole command line into the object.
_UNCACHED = tuple(
    """
    -B -fplugin -wrapper -specs --specs --config -Xclang -load @
    -frecord-gcc-switches -frecord-command-line -grecord-command-line
    """.split()
)


def grammar_of(argv: Sequence[str]) -> Grammar | None:
    """The grammar of a command with which nvcc runs a host compiler on CUDA code; None for any other."""
    if is_link(argv):
        return Grammar(kind="host_link", names={"-o": "program"}, is_cached=False, stays_in_order=True)
    if "-c" in argv and any(token.endswith(_STUBS_OF_LINKS) for token in argv):
        return _compile(argv, sees_names=has_debug_info(argv), reads_source=False)
    if not any(token.startswith(_PASS_MACROS) for token in argv):
        return None
    if "-E" in argv:
        is_device = any(token.startswith(_DEVICE_PASS) for token in argv)
        kind = "device_preprocess" if is_device else "host_preprocess"
        return Grammar(
            kind=kind,
            writes={"-o": "ii"},
            # gcc shows a system header's relative or real path, the shorter one (-fcanonical-system-headers).
            sees_directory=True,
            is_cached=not any(token.startswith(_UNCACHED) for token in argv[1:]),
            may_include=True,
        )
    if "-c" in argv:
        is_made = any(token.endswith(".cudafe1.cpp") for token in argv)
        return _compile(argv, sees_names=True, reads_source=not is_made)  # the object contains the file name
    return None


def _compile(argv: Sequence[str], sees_names: bool, reads_source: bool) -> Grammar:
    # If the compiler writes further files next to the object, it must write the object to its destination.
    writes_beside = bool(side_files(argv[1:], argv[-1]))
    has_side_outputs = writes_beside_object(argv[1:]) and not writes_beside
    return Grammar(
        kind="host_compile",
        writes={} if has_side_outputs else {"-o": "object"},
        names={"-o": "program"} if has_side_outputs else {},
        sees_directory=has_debug_info(argv) or reads_source,  # compiling a source includes preprocessing
        sees_names=sees_names and not has_side_outputs,
        is_cached=not has_side_outputs and not any(token.startswith(_UNCACHED) for token in argv[1:]),
        may_include=True,
        writes_beside=writes_beside,
        reads_source=reads_source,
        stays_in_order=has_side_outputs or reads_source,  # a source may include products of earlier stages
    )


def has_debug_info(argv: Sequence[str]) -> bool:
    """Whether the object contains the working directory and the names of intermediates."""
    levels = [token for token in argv if token.startswith("-g") and not token.startswith("-gno-")]
    return bool(levels) and levels[-1] != "-g0"


def _names_directory(argv: Sequence[str], cwd: str, pwd: str) -> bool:
    """Whether debug information may contain the path of the checkout."""
    if not has_debug_info(argv):
        return False
    maps = [token.partition("=")[2].partition("=")[0] for token in argv if token.startswith(_PREFIX_MAPS)]
    is_mapped = any(old and (cwd + "/").startswith(old.rstrip("/") + "/") for old in maps)
    return not is_mapped or pwd != cwd


def _without_scratch(argv: Sequence[str], scratch: str) -> tuple[str, ...]:
    return (f"-fdebug-prefix-map={scratch}={DEBUG_DIRECTORY}",) if has_debug_info(argv) else ()


PREPROCESS = Tool(
    kind="host_preprocess",
    grammar_of=grammar_of,
    is_preprocessor=True,
    priority=30,
    memory_factor=1,
    lines_matter=never,
    reports_user_errors=True,
)
DEVICE_PREPROCESS = Tool(
    kind="device_preprocess",
    grammar_of=grammar_of,
    is_preprocessor=True,
    priority=9,
    memory_factor=1,
    lines_matter=never,
    reports_user_errors=True,
)
COMPILE = Tool(
    kind="host_compile",
    grammar_of=grammar_of,
    is_host_compiler=True,
    waits_for_passes=True,
    memory_factor=48,
    is_heavy=True,
    lines_matter=line_options.matter_to_host_compiler,
    shows_lines=True,
    names_directory=_names_directory,
    added_options=_without_scratch,
    unlinks_output=True,
)
LINK = Tool(
    kind="host_link", grammar_of=grammar_of, is_counted=False, lines_matter=never, reports_user_errors=True
)

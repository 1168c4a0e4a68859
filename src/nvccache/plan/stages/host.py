"""The host compiler: preprocessing for each pass, compiling what cudafe++ or nvlink wrote, and the link.

It can have any name, so its commands are known by the macros that nvcc defines for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.commandline.host_options import is_link, writes_beside_object
from nvccache.plan.stages import line_options
from nvccache.plan.stages.tool import Grammar, Tool, never

# nvcc's own sources, which include what nvlink and fatbinary wrote.
_STUBS_OF_LINKS = ("/crt/link.stub", "/crt/prelink.stub")
_DEVICE_PASS = "-D__CUDA_ARCH__="
_PASS_MACROS = ("-D__CUDA_ARCH__=", "-D__CUDA_ARCH_LIST__=", "-D__CUDACC__", "-D__NVCC__")
_PREFIX_MAPS = ("-ffile-prefix-map=", "-fdebug-prefix-map=")
# What objects with debug information say in the place of the scratch directory, whose name is never
# the same twice.
DEBUG_DIRECTORY = "/tmp/nvccache"
# These load programs that no digest of ours would notice, or write the whole command into the object.
_UNCACHED = (
    "-B",
    "-fplugin",
    "-wrapper",
    "-specs",
    "--specs",
    "--config",
    "-Xclang",
    "-load",
    "@",
    "-frecord-gcc-switches",
    "-frecord-command-line",
    "-grecord-command-line",
)


def grammar_of(argv: Sequence[str]) -> Grammar | None:
    """None for what is none of the commands that nvcc gives to a host compiler for CUDA code."""
    if is_link(argv):
        return Grammar(kind="host_link", names={"-o": "program"}, is_cached=False, stays_in_order=True)
    if "-c" in argv and any(word.endswith(_STUBS_OF_LINKS) for word in argv):
        return _compile(argv, sees_names=asks_for_debug_info(argv))
    if not any(word.startswith(_PASS_MACROS) for word in argv):
        return None
    if "-E" in argv:
        is_device = any(word.startswith(_DEVICE_PASS) for word in argv)
        kind = "device_preprocess" if is_device else "host_preprocess"
        return Grammar(
            kind=kind,
            writes={"-o": "ii"},
            sees_directory=asks_for_debug_info(argv),  # gcc then writes a marker with its name
            is_cached=not any(word.startswith(_UNCACHED) for word in argv[1:]),
            may_include=True,
        )
    if "-c" in argv and any(word.endswith(".cudafe1.cpp") for word in argv):
        return _compile(argv, sees_names=True)  # the symbol table names the file compiled
    return None


def _compile(argv: Sequence[str], sees_names: bool) -> Grammar:
    is_beside = writes_beside_object(argv[1:])  # which it does where the object is to lie
    return Grammar(
        kind="host_compile",
        writes={} if is_beside else {"-o": "object"},
        names={"-o": "program"} if is_beside else {},
        sees_directory=asks_for_debug_info(argv),
        sees_names=sees_names and not is_beside,
        is_cached=not is_beside and not any(word.startswith(_UNCACHED) for word in argv[1:]),
        may_include=True,
        stays_in_order=is_beside,
    )


def asks_for_debug_info(argv: Sequence[str]) -> bool:
    """Whether the object holds the working directory and the names of intermediate files."""
    levels = [word for word in argv if word.startswith("-g") and not word.startswith("-gno-")]
    return bool(levels) and levels[-1] != "-g0"


def _names_directory(argv: Sequence[str], cwd: str, pwd: str) -> bool:
    """Whether debug information, if there is any, may tell where the checkout is."""
    if not asks_for_debug_info(argv):
        return False
    maps = [word.partition("=")[2].partition("=")[0] for word in argv if word.startswith(_PREFIX_MAPS)]
    is_mapped = any(old and (cwd + "/").startswith(old.rstrip("/") + "/") for old in maps)
    return not is_mapped or pwd != cwd


def _without_scratch(argv: Sequence[str], scratch: str) -> tuple[str, ...]:
    return (f"-fdebug-prefix-map={scratch}={DEBUG_DIRECTORY}",) if asks_for_debug_info(argv) else ()


PREPROCESS = Tool(
    kind="host_preprocess",
    grammar_of=grammar_of,
    is_preprocessor=True,
    priority=30,
    memory_factor=1,
    lines_matter=never,
    complains=True,
)
DEVICE_PREPROCESS = Tool(
    kind="device_preprocess",
    grammar_of=grammar_of,
    is_preprocessor=True,
    priority=9,
    memory_factor=1,
    lines_matter=never,
    complains=True,
)
COMPILE = Tool(
    kind="host_compile",
    grammar_of=grammar_of,
    is_host_compiler=True,
    waits_for_passes=True,
    own_roles=("object",),
    memory_factor=48,
    is_heavy=True,
    lines_matter=line_options.matter_to_host_compiler,
    shows_lines=True,
    names_directory=_names_directory,
    added_options=_without_scratch,
    unlinks_output=True,
)
LINK = Tool(
    kind="host_link",
    grammar_of=grammar_of,
    is_counted=False,
    links_program=True,
    lines_matter=never,
    complains=True,
)

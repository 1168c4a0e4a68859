"""Which options that nvcc forwards to its tools make a call uncacheable.

Owns the lists of options with which host compilers and device tools write further files, read files that no
line marker names, or leave out line markers. The lists come from the manuals of GCC 14 and Clang 19. An
option that is not listed is assumed to affect only the product and the diagnostics.
"""

from __future__ import annotations

from nvccache.commandline.tokens import UnknownOption, split_quoted, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvccache.commandline.tokens import Argument

_LINK_MARK = "-Wl,--start-group"  # nvcc writes it into every command that links
# Prefixes: -M covers -MD, -MF and Clang's -MJ; -d covers -dumpdir, -dumpbase and -da. The long options from
# -dependencies on are listed without their first dash.
_WRITES = tuple(
    """
    -M -o -d -aux-info -save-temps -fdump -fopt-info -fdiagnostics-format -fdiagnostics-add-output
    -fdiagnostics-set-output -fdiagnostics-log-file -fsave-optimization-record -fcrash-diagnostics
    -fcompare-debug -ftime-trace -fproc-stat-report -index-store-path -serialize-diagnostics
    -dependencies -user-dependencies -write-dependencies -write-user-dependencies
    -print-missing-file-dependencies -output -dump -emit -analyze
    """.split()
)
# With one of these options, compiling writes files next to the object, but preprocessing does not. Options
# that begin with -fprofile may also read files.
_WRITES_BESIDE_OBJECT = (
    "-coverage",
    "-ftest-coverage",
    "-fprofile",  # writes .gcno files, and names .gcda files in the object
    "-gsplit-dwarf",
    "-fstack-usage",
    "-fcallgraph-info",
)
# Options whose files have the object's name, with another suffix.
_SIDE_FILES = {
    "-gsplit-dwarf": ".dwo",
    "--coverage": ".gcno",
    "-coverage": ".gcno",
    "-ftest-coverage": ".gcno",
    "-fprofile-arcs": "",
    "-fstack-usage": ".su",
}
_OBJECT_SUFFIX = ".o"
_READS = tuple(
    """
    @ -specs -wrapper -B -prefix -fplugin -fpass-plugin -load -fauto-profile -fbranch-probabilities
    -fsanitize-blacklist -fsanitize-ignorelist -fmodule -include-pch -fthinlto-index -config
    -no-integrated-cpp -gen-reproducer -mllvm -via-file-asm
    """.split()
)
_TIMES = ("-ftime-report", "-time", "-fmem-report")
_HIDES = ("-P", "-no-line-commands")
_ASSEMBLER_WRITES = ("-a", "-MD", "-o", "-listing")
_DEVICE_TOOLS = tuple(
    """
    cicc-options cudafe-options fatbin-options nvlink-options ptxas-options tileiras-options
    """.split()
)
_DEVICE_FILES = tuple(
    """
    controls dump file input-as keep list output pch remarks save trace xref
    """.split()
)
# Characters that make a shell do more than split words: unquoted, and within each kind of quotes.
_SHELL_SPECIAL = {"": "$`\n\\;&|<>()*?[]{}~#", '"': "$`\n\\", "'": "\n"}
_DEVICE_SHORT = ("-ias", "-olto", "-optf", "-X", "-L", "-o", "-V", "-h")


def host_argv(arguments: Sequence[Argument], forwarded: Sequence[str]) -> tuple[str, ...] | None:
    """The user's options in the host compiler's argv; None if the shell would expand one.

    nvcc copies the elements of -Xcompiler, then forwarded tokens, into the shell command as they are.
    """
    elements = values(arguments, "compiler-options")
    if isinstance(elements, UnknownOption):
        return None
    found: list[str] = []
    for element in [*elements, *forwarded]:
        argv = split_quoted(element, " \t", _SHELL_SPECIAL)
        if argv is None:
            return None
        found += argv
    return tuple(found)


def uncacheable_host_option(argv: Sequence[str]) -> tuple[str, str] | None:
    """Why a call with these host compiler arguments is not cached, and the option that causes it."""
    via = ""
    for option in argv:
        if via or option in ("-Xassembler", "-Xpreprocessor"):
            reason = _reason(option, via == "-Xassembler") if via else None
            via = "" if via else option
        elif option.startswith("-Wl,"):
            continue  # affects only the host link
        elif option.startswith(("-Wp,", "-Wa,")):
            checked = (_reason(part, option[2] == "a") for part in option[4:].split(","))
            reason = next((reason for reason in checked if reason), None)
        else:
            reason = _reason(option, assembler=False)
        if reason:
            return reason, option
    return None


def writes_beside_object(argv: Iterable[str]) -> bool:
    """Whether the host compiler writes further files named after the object."""
    return any(
        ("-" + option.lstrip("-")).startswith(_WRITES_BESIDE_OBJECT) for option in argv if option[:1] == "-"
    )


def side_files(argv: Iterable[str], product: str) -> list[str]:
    """The files that the host compiler writes beside an object; empty if not all of their names are known."""
    options = [option for option in argv if writes_beside_object([option])]
    if not product.endswith(_OBJECT_SUFFIX) or not _SIDE_FILES.keys() >= set(options):
        return []
    suffixes = dict.fromkeys(filter(None, map(_SIDE_FILES.get, options)))
    return [product.removesuffix(_OBJECT_SUFFIX) + suffix for suffix in suffixes]


def is_link(argv: Iterable[str]) -> bool:
    """Whether a host compiler command of nvcc links a program or a shared library."""
    return _LINK_MARK in argv


def _reason(option: str, assembler: bool) -> str | None:
    option = option.removeprefix("-") if option.startswith("--") else option
    if assembler:
        if option.startswith("@"):
            return "host_hidden_inputs"
        return "host_side_output" if option.startswith(_ASSEMBLER_WRITES) else None
    if option in _HIDES:
        return "host_hides_sources"
    if option == "-Q" or option.startswith(_TIMES):
        return "time_report"
    if option.startswith(_READS):
        return "host_hidden_inputs"
    return "host_side_output" if option.startswith(_WRITES) else None


def uncacheable_device_option(arguments: Sequence[Argument]) -> str | None:
    """The first option that names a file for a device tool, or makes it print facts about itself; or None."""
    for name in _DEVICE_TOOLS:
        elements = values(arguments, name)
        if isinstance(elements, UnknownOption):
            return elements.token
        for option in " ".join(elements).split():
            key = option.strip("\"'").partition("=")[0]
            short = key.startswith(_DEVICE_SHORT) and not key.startswith("-opt-")
            if short or key.startswith("@") or any(part in key for part in _DEVICE_FILES):
                return option
    return None

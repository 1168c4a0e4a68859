"""Which options handed through nvcc to its tools keep a call from being cached.

Owns the lists of host compiler and device tool options that write files of their own, read files that no
line marker names, or take the line markers away, and the word by which a link is known. Learnt from the
manuals of GCC 14 and Clang 19; what is not listed is taken to touch nothing but the product and the
diagnostics.
"""

from __future__ import annotations

from nvccache.commandline.tokens import UnknownOption, split_words, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvccache.commandline.tokens import Argument

_STARTS_LINK = "-Wl,--start-group"  # which nvcc itself writes
# Beginnings: -M of -MD, -MF and of Clang's -MJ, -d of -dumpdir, -dumpbase and -da. The long spellings, from
# -dependencies on, have lost one dash.
_WRITES = tuple(
    """
    -M -o -d -aux-info -save-temps -fdump -fopt-info -fdiagnostics-format -fdiagnostics-add-output
    -fdiagnostics-set-output -fdiagnostics-log-file -fsave-optimization-record -fcrash-diagnostics
    -fcompare-debug -ftime-trace -fproc-stat-report -index-store-path -serialize-diagnostics
    -dependencies -user-dependencies -write-dependencies -write-user-dependencies
    -print-missing-file-dependencies -output -dump -emit -analyze
    """.split()
)
# These write their files beside the object, and none when preprocessing; of profiles, they also read some.
_WRITES_BESIDE_OBJECT = (
    "-coverage",
    "-ftest-coverage",
    "-fprofile",  # .gcno files, and the names of .gcda files
    "-gsplit-dwarf",
    "-fstack-usage",
    "-fcallgraph-info",
)
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
# What makes a shell do more than split words: unquoted, and between each kind of quotes.
_MORE_THAN_WORDS = {"": "$`\n\\;&|<>()*?[]{}~#", '"': "$`\n\\", "'": "\n"}
_DEVICE_SHORT = ("-ias", "-olto", "-optf", "-X", "-L", "-o", "-V", "-h")


def flatten(arguments: Sequence[Argument], forwarded: Sequence[str]) -> tuple[str, ...] | None:
    """The host compiler's words as its shell command will hold them; None if only a shell could tell.

    nvcc writes the elements of -Xcompiler, then the forwarded words, into the command as they are.
    """
    elements = values(arguments, "compiler-options")
    if isinstance(elements, UnknownOption):
        return None
    found: list[str] = []
    for element in [*elements, *forwarded]:
        argv = split_words(element, " \t", _MORE_THAN_WORDS)
        if argv is None:
            return None
        found += argv
    return tuple(found)


def uncacheable_host_option(argv: Sequence[str]) -> tuple[str, str] | None:
    """The reason, and the word, for which a call with these host compiler words is not cached."""
    via = ""
    for word in argv:
        if via or word in ("-Xassembler", "-Xpreprocessor"):
            reason = _reason(word, via == "-Xassembler") if via else None
            via = "" if via else word
        elif word.startswith("-Wl,"):
            continue  # for the host link only
        elif word.startswith(("-Wp,", "-Wa,")):
            checked = (_reason(part, word[2] == "a") for part in word[4:].split(","))
            reason = next((reason for reason in checked if reason), None)
        else:
            reason = _reason(word, assembler=False)
        if reason:
            return reason, word
    return None


def writes_beside_object(argv: Iterable[str]) -> bool:
    """Whether the host compile writes further files, which are called after the object."""
    return any(("-" + word.lstrip("-")).startswith(_WRITES_BESIDE_OBJECT) for word in argv if word[:1] == "-")


def is_link(argv: Iterable[str]) -> bool:
    """Whether a command of nvcc's to the host compiler links a program or a shared library."""
    return _STARTS_LINK in argv


def _reason(word: str, assembler: bool) -> str | None:
    word = word.removeprefix("-") if word.startswith("--") else word
    if assembler:
        if word.startswith("@"):
            return "host_hidden_inputs"
        return "host_side_output" if word.startswith(_ASSEMBLER_WRITES) else None
    if word in _HIDES:
        return "host_hides_sources"
    if word == "-Q" or word.startswith(_TIMES):
        return "time_report"
    if word.startswith(_READS):
        return "host_hidden_inputs"
    return "host_side_output" if word.startswith(_WRITES) else None


def uncacheable_device_option(arguments: Sequence[Argument]) -> str | None:
    """The option of a device tool, if any, that names a file or asks the tool about itself."""
    for name in _DEVICE_TOOLS:
        elements = values(arguments, name)
        if isinstance(elements, UnknownOption):
            return elements.word
        for word in " ".join(elements).split():
            key = word.strip("\"'").partition("=")[0]
            short = key.startswith(_DEVICE_SHORT) and not key.startswith("-opt-")
            if short or key.startswith("@") or any(part in key for part in _DEVICE_FILES):
                return word
    return None

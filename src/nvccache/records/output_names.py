"""What the files are called that a call makes: the only ones that a record may have written.

Part of the hot path. The names follow from the command line by nvcc's rules, never from a record, which
may come from somebody hostile: it numbers the names that are found here. What is called by rules that are not
here cannot be recorded. Two ways lead to the names: from a parsed call, and, where nothing is parsed, from
words that can mean only one thing whatever stands around them.
"""

from __future__ import annotations

import os
import stat

from nvccache.commandline.invocation import ASK_FOR_DEPENDENCIES, OPTIONS_OF_QUERIES
from nvccache.commandline.options import WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvccache.commandline.invocation import Invocation

STANDARD_OUTPUT = ""  # the name of what a query writes there
EXTENSIONS = {
    "ltoir": ".ltoir",
    "optix-ir": ".optixir",
    "ptx": ".ptx",
    "cubin": ".cubin",
    "fatbin": ".fatbin",
    "device-c": ".o",
    "device-w": ".o",
    "compile": ".o",
}
# In a dependency file make would take them for more than parts of names: recipes, assignments, functions.
MEANT_FOR_MAKE = bytes([*range(9), *range(11, 32), 127]) + b"\t;=$"
DIRECTIVES = frozenset(
    b"include -include sinclude load -load define endef undefine override export unexport private vpath"
    b" ifdef ifndef ifeq ifneq else endif".split()
)
_OF_MODES = ("compile", "device-c", "device-w", "ptx", "cubin", "fatbin")
SPELLINGS_OF_MODES = {word: name for name in _OF_MODES for word in WORDS[name]}
OUTPUT = WORDS["output-file"]
DEPENDENCY_FILE = WORDS["dependency-output"]
DIRECTORY = WORDS["output-directory"]
OPTIONS_FILE = WORDS["options-file"]
DEVICE_LINK = WORDS["device-link"]
TARGET = WORDS["dependency-target-name"]
WITH_DEPENDENCIES = frozenset(word for name in ASK_FOR_DEPENDENCIES for word in WORDS[name])
QUERIES = frozenset(word for names in OPTIONS_OF_QUERIES.values() for name in names for word in WORDS[name])
# Options that take no other word as their value, whatever it is: what follows them is an option by itself.
_WITHOUT_VALUE = (
    "generate-dependency-targets debug device-debug generate-line-info disable-warnings m64 dlink-time-opt"
    " shared use_fast_math restrict extended-lambda expt-extended-lambda expt-relaxed-constexpr"
    " resource-usage Wno-deprecated-gpu-targets Wno-deprecated-declarations forward-unknown-to-host-compiler"
)
# Nor do these, of which most are no options of nvcc's, and thus values themselves.
_OF_HOST = (
    "-O0 -O1 -O2 -O3 -fPIC -fpic -fPIE -fpie -fopenmp -pthread -pipe -Wall -Wextra -Wpedantic -Wno-unused"
)
COMPLETE = WITH_DEPENDENCIES.union(
    QUERIES,
    SPELLINGS_OF_MODES,
    DEVICE_LINK,
    (word for name in _WITHOUT_VALUE.split() for word in WORDS[name]),
    _OF_HOST.split(),
)
GLUED = ("-D", "-I", "-L", "-U")


class Outputs:
    """The files that a call makes."""

    __slots__ = ("are_objects", "dependency_file", "is_known", "others", "products")

    def __init__(
        self, products: list[str], others: list[str], dependency_file: str, is_known: bool = True
    ) -> None:
        self.products = products
        self.others = others  # which it makes where nvcc finds that it has to
        self.dependency_file = dependency_file  # empty where there is none
        self.is_known = is_known  # if not, nothing at all is
        self.are_objects = False  # of gas, which unlinks an existing file first

    def are_given(self, products: Sequence[str], dependency_file: str | None) -> bool:
        """Whether these are the files that the call makes, each of them once."""
        wanted, possible = set(self.products), {*self.products, *self.others}
        return (
            self.is_known
            and len(products) == len(set(products))
            and wanted.issubset(products)
            and possible.issuperset(products)
            and (dependency_file or "") == self.dependency_file
        )


UNKNOWN = Outputs([], [], "", is_known=False)


def of_call(invocation: Invocation) -> Outputs:
    """The outputs of a parsed call."""
    dependency_file = _dependency_file(invocation)
    if dependency_file is None:
        return UNKNOWN
    others: list[str] = []
    if invocation.is_query:
        products = [invocation.output or STANDARD_OUTPUT]
    elif invocation.mode == "link":
        products = []  # the linker's, which is never given by us
        if "ltoir" in invocation.options:  # before CUDA 13 `-ltoir` names a library
            others = (
                [invocation.output]
                if invocation.output
                else [_beside(invocation, path, ".ltoir") for path in invocation.inputs]
            )
    elif invocation.output:
        products = [invocation.output]
    elif invocation.mode == "device-link":
        extension = next(
            (EXTENSIONS[name] for name in ("cubin", "fatbin") if name in invocation.options), ".o"
        )
        products = [_placed(invocation, "a_dlink" + extension)]
    elif invocation.mode in EXTENSIONS:
        products = [_beside(invocation, path, EXTENSIONS[invocation.mode]) for path in invocation.inputs]
        if invocation.mode == "ptx":  # for architectures of both kinds
            others = [_beside(invocation, path, ".ltoir") for path in invocation.inputs]
    else:
        return UNKNOWN
    if _is_any_of([*products, *others, dependency_file], _read_by(invocation)):
        return UNKNOWN
    found = Outputs(products, others, dependency_file)
    found.are_objects = EXTENSIONS.get(invocation.mode) == ".o" or (
        invocation.mode == "device-link" and invocation.options.isdisjoint(("cubin", "fatbin"))
    )
    return found


def _dependency_file(invocation: Invocation) -> str | None:
    """Its name, empty if the call asks for none; None if the name is in doubt."""
    asked = invocation.dependencies
    if not asked:
        return ""
    if asked.output:
        return asked.output
    if invocation.output:
        return beside_output(invocation.output)
    return _beside(invocation, invocation.inputs[0], ".d") if len(invocation.inputs) == 1 else None


def beside_output(output: str) -> str | None:
    """Where nvcc writes the dependency file by itself, if the name of the output leaves no doubt."""
    stem, extension = os.path.splitext(output)
    return stem + ".d" if extension and "." not in os.path.basename(stem) else None


def _beside(invocation: Invocation, source: str, extension: str) -> str:
    return _placed(invocation, _stem(source) + extension)


def _stem(source: str) -> str:
    name = os.path.basename(source)
    return name.rpartition(".")[0] if "." in name else name


def _placed(invocation: Invocation, name: str) -> str:
    return f"{invocation.output_directory}/{name}" if invocation.output_directory else name


def _read_by(invocation: Invocation) -> Iterable[str]:
    included = [
        path
        for argument in invocation.arguments
        if argument.name == "pre-include" and argument.value
        for path in argument.value.split(",")
    ]
    return (*invocation.inputs, *invocation.option_files, *included)


def are_read(paths: Iterable[str], files: Sequence[str]) -> bool:
    """Whether one of these is among the files that a record says were read."""
    return not set(files).isdisjoint(form for path in paths if path for form in (path, os.path.abspath(path)))


def _is_any_of(paths: Iterable[str], others: Iterable[str]) -> bool:
    known = {os.path.abspath(path) for path in others}
    return any(os.path.abspath(path) in known for path in paths if path)


def of_argv(arguments: Sequence[str]) -> Outputs:
    """The outputs of a call, as its words say without being parsed.

    Unknown where a word could mean anything else. The launcher does the same (launcher/outputs.c).
    """
    output, dependency_file = _value(OUTPUT, arguments), _value(DEPENDENCY_FILE, arguments)
    if output is None or dependency_file is None or any(_begins(word, DIRECTORY) for word in arguments):
        return UNKNOWN
    asks = [index for index, word in enumerate(arguments) if word in WITH_DEPENDENCIES]
    queries = [index for index, word in enumerate(arguments) if word in QUERIES]
    if queries:
        if asks or dependency_file or not all(_stands_alone(index, arguments) for index in queries):
            return UNKNOWN
        if not output:
            return Outputs([STANDARD_OUTPUT], [], "")
    output = output or _after_source(arguments)
    if not output:
        return UNKNOWN
    if not all(_stands_alone(index, arguments) for index in asks) or (dependency_file and not asks):
        return UNKNOWN
    found = (dependency_file or beside_output(output)) if asks else ""
    if found is None or any(_may_be_read(path, arguments) for path in (output, found) if path):
        return UNKNOWN
    if _has_other_names(output):
        return UNKNOWN
    return Outputs([output], [], found)


def _after_source(arguments: Sequence[str]) -> str:
    """What the product is called after the only source; empty where a word is not clear."""
    sources = [word for word in arguments if not word.startswith("-")]
    modes = [SPELLINGS_OF_MODES[word] for word in arguments if word in SPELLINGS_OF_MODES]
    is_clear = (
        len(sources) == len(modes) == 1
        and all(not word.startswith("-") or _is_complete(word) for word in arguments)
        and not any(_begins(word, OPTIONS_FILE) or word in DEVICE_LINK for word in arguments)
        and not os.environ.get("NVCC_PREPEND_FLAGS")
        and not os.environ.get("NVCC_APPEND_FLAGS")
    )
    return _stem(sources[0]) + EXTENSIONS[modes[0]] if is_clear else ""


def _value(option: tuple[str, ...], arguments: Sequence[str]) -> str | None:
    """The value of an option that stands there once, empty if it does not; None where that is in doubt."""
    places = [index for index, word in enumerate(arguments) if _begins(word, option)]
    if not places:
        return ""
    index = places[0]
    if len(places) > 1 or not _stands_alone(index, arguments):
        return None
    _, sign, value = arguments[index].partition("=")
    if not sign:
        value = arguments[index + 1] if index + 1 < len(arguments) else ""
    return value if value and not value.startswith("-") else None


def _begins(word: str, option: tuple[str, ...]) -> bool:
    return word in option or word.partition("=")[0] in option


def _stands_alone(index: int, arguments: Sequence[str]) -> bool:
    """Whether a word is an option and not the value of the one before."""
    before = arguments[index - 1] if index else ""
    return not before.startswith("-") or _is_complete(before)


def _is_complete(word: str) -> bool:
    return word in COMPLETE or bool(word.partition("=")[2]) or (word[:2] in GLUED and len(word) > 2)


def _has_other_names(path: str) -> bool:
    """Whether it matters if a file is written into or replaced, which depends on what makes it."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISLNK(found.st_mode) or found.st_nlink > 1


def _may_be_read(path: str, arguments: Sequence[str]) -> bool:
    """Whether a word that does not name an output, or the target of the rule, names this file."""
    name = os.path.basename(path)
    place = os.path.abspath(path)
    return any(
        word.endswith(name)
        and not (index and arguments[index - 1] in (*OUTPUT, *DEPENDENCY_FILE, *TARGET))
        and not _begins(word, (*OUTPUT, *DEPENDENCY_FILE, *TARGET))
        and place in map(os.path.abspath, (word, word.partition("=")[2]))
        for index, word in enumerate(arguments)
    )


def are_plain(names: Sequence[bytes], read: Iterable[str] = ()) -> bool:
    """Whether make takes these for names of files and nothing else; a record may name what it likes.

    A name with `=` in it is an assignment unless it is one of a file, and of those that the call has `read`.
    """
    text = b"".join(names)
    odd = text.translate(None, MEANT_FOR_MAKE.replace(b"=", b""))
    if b"\n" in text or len(odd) != len(text):
        return False
    return b"=" not in text or {name for name in names if b"=" in name} <= set(map(os.fsencode, read))


def is_plain_rule(text: bytes) -> bool:
    """Whether a dependency file of a record has make know dependencies and do nothing."""
    if len(text.translate(None, MEANT_FOR_MAKE)) != len(text):
        return False
    for line in text.replace(b"\\\n", b" ").split(b"\n"):
        name, colon, _ = line.partition(b":")
        name = name.strip(b" ").replace(b"\\ ", b"")
        if line.strip(b" ") and (not colon or not name or b" " in name or name in DIRECTIVES):
            return False
    return True

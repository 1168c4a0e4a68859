"""The names of a call's outputs: the only files that a record may make us write.

Part of the hot path. The names follow from the command line by nvcc's rules, never from a record, which may
be hostile: a record only holds indices into the names found here. Outputs that nvcc names by other rules
cannot be recorded. The names are found from a parsed call (`of_call`) or, without parsing, from arguments
whose meaning does not depend on their context (`of_argv`).
"""

from __future__ import annotations

import os
import stat

from nvccache.commandline.invocation import DEPENDENCY_OPTIONS, QUERY_OPTIONS
from nvccache.commandline.options import SPELLINGS_OF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvccache.commandline.invocation import Invocation

STANDARD_OUTPUT = ""  # the name that stands for it among the products of a query
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
# In a depfile make would not read these as parts of names: recipes, assignments, functions.
MEANT_FOR_MAKE = bytes([*range(9), *range(11, 32), 127]) + b"\t;=$"
DIRECTIVES = frozenset(
    b"include -include sinclude load -load define endef undefine override export unexport private vpath"
    b" ifdef ifndef ifeq ifneq else endif".split()
)
_MODES = ("compile", "device-c", "device-w", "ptx", "cubin", "fatbin")
SPELLINGS_OF_MODES = {spelling: name for name in _MODES for spelling in SPELLINGS_OF[name]}
OUTPUT = SPELLINGS_OF["output-file"]
DEPENDENCY_FILE = SPELLINGS_OF["dependency-output"]
DIRECTORY = SPELLINGS_OF["output-directory"]
OPTIONS_FILE = SPELLINGS_OF["options-file"]
DEVICE_LINK = SPELLINGS_OF["device-link"]
TARGET = SPELLINGS_OF["dependency-target-name"]
WITH_DEPENDENCIES = frozenset(spelling for name in DEPENDENCY_OPTIONS for spelling in SPELLINGS_OF[name])
QUERIES = frozenset(
    token for names in QUERY_OPTIONS.values() for name in names for token in SPELLINGS_OF[name]
)
# Options without a separate value: the argument after one is never its value.
_WITHOUT_VALUE = (
    "generate-dependency-targets debug device-debug generate-line-info disable-warnings m64 dlink-time-opt"
    " shared use_fast_math restrict extended-lambda expt-extended-lambda expt-relaxed-constexpr"
    " resource-usage Wno-deprecated-gpu-targets Wno-deprecated-declarations forward-unknown-to-host-compiler"
)
# The same; most of these are no options of nvcc, and thus arguments of their own.
_HOST_OPTIONS = (
    "-O0 -O1 -O2 -O3 -fPIC -fpic -fPIE -fpie -fopenmp -pthread -pipe -Wall -Wextra -Wpedantic -Wno-unused"
)
COMPLETE = WITH_DEPENDENCIES.union(
    QUERIES,
    SPELLINGS_OF_MODES,
    DEVICE_LINK,
    (spelling for name in _WITHOUT_VALUE.split() for spelling in SPELLINGS_OF[name]),
    _HOST_OPTIONS.split(),
)
GLUED = ("-D", "-I", "-L", "-U")


class Outputs:
    """The files that a call makes."""

    __slots__ = ("are_objects", "dependency_file", "is_known", "optional", "products")

    def __init__(
        self, products: list[str], optional: list[str], dependency_file: str, is_known: bool = True
    ) -> None:
        self.products = products
        self.optional = optional  # products that nvcc makes for some inputs only
        self.dependency_file = dependency_file  # empty if there is none
        self.is_known = is_known  # if not, no name is known
        self.are_objects = False  # written by gas, which unlinks an existing file first

    def match(self, products: Sequence[str], dependency_file: str | None) -> bool:
        """Whether these are the files that the call makes, each of them once."""
        wanted, possible = set(self.products), {*self.products, *self.optional}
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
    optional: list[str] = []
    if invocation.is_query:
        products = [invocation.output or STANDARD_OUTPUT]
    elif invocation.mode == "link":
        products = []  # the program is never restored, only linked
        if "ltoir" in invocation.options:  # before CUDA 13 `-ltoir` names a library
            optional = (
                [invocation.output]
                if invocation.output
                else [_named_after(path, ".ltoir", invocation) for path in invocation.inputs]
            )
    elif invocation.output:
        products = [invocation.output]
    elif invocation.mode == "device-link":
        extension = next(
            (EXTENSIONS[name] for name in ("cubin", "fatbin") if name in invocation.options), ".o"
        )
        products = [_in_output_directory("a_dlink" + extension, invocation)]
    elif invocation.mode in EXTENSIONS:
        products = [_named_after(path, EXTENSIONS[invocation.mode], invocation) for path in invocation.inputs]
        if invocation.mode == "ptx":  # also writes LTO-IR if there are architectures of both kinds
            optional = [_named_after(path, ".ltoir", invocation) for path in invocation.inputs]
    else:
        return UNKNOWN
    if _is_any_of([*products, *optional, dependency_file], _read_by(invocation)):
        return UNKNOWN
    found = Outputs(products, optional, dependency_file)
    found.are_objects = EXTENSIONS.get(invocation.mode) == ".o" or (
        invocation.mode == "device-link" and invocation.options.isdisjoint(("cubin", "fatbin"))
    )
    return found


def _dependency_file(invocation: Invocation) -> str | None:
    """Its name; empty if the call requests none, None if the name is ambiguous."""
    wanted = invocation.dependencies
    if not wanted:
        return ""
    if wanted.output:
        return wanted.output
    if invocation.output:
        return default_depfile(invocation.output)
    return _named_after(invocation.inputs[0], ".d", invocation) if len(invocation.inputs) == 1 else None


def default_depfile(output: str) -> str | None:
    """Where nvcc writes the depfile without -MF; None if the name of the output is ambiguous."""
    stem, extension = os.path.splitext(output)
    return stem + ".d" if extension and "." not in os.path.basename(stem) else None


def _named_after(source: str, extension: str, invocation: Invocation) -> str:
    return _in_output_directory(_stem(source) + extension, invocation)


def _stem(source: str) -> str:
    name = os.path.basename(source)
    return name.rpartition(".")[0] if "." in name else name


def _in_output_directory(name: str, invocation: Invocation) -> str:
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
    """Whether one of these is among the files read, by the names in a record."""
    return not set(files).isdisjoint(form for path in paths if path for form in (path, os.path.abspath(path)))


def _is_any_of(paths: Iterable[str], others: Iterable[str]) -> bool:
    known = {os.path.abspath(path) for path in others}
    return any(os.path.abspath(path) in known for path in paths if path)


def of_argv(arguments: Sequence[str]) -> Outputs:
    """The outputs of a call, found without parsing.

    Unknown if an argument is ambiguous. launcher/outputs.c does the same.
    """
    output, dependency_file = _value(OUTPUT, arguments), _value(DEPENDENCY_FILE, arguments)
    if output is None or dependency_file is None or any(_is_of(token, DIRECTORY) for token in arguments):
        return UNKNOWN
    dependencies = [index for index, token in enumerate(arguments) if token in WITH_DEPENDENCIES]
    queries = [index for index, token in enumerate(arguments) if token in QUERIES]
    if queries:
        if dependencies or dependency_file or not all(_is_no_value(index, arguments) for index in queries):
            return UNKNOWN
        if not output:
            return Outputs([STANDARD_OUTPUT], [], "")
    output = output or _default_product(arguments)
    if not output:
        return UNKNOWN
    if dependency_file and not dependencies:
        return UNKNOWN
    if not all(_is_no_value(index, arguments) for index in dependencies):
        return UNKNOWN
    found = (dependency_file or default_depfile(output)) if dependencies else ""
    if found is None or any(_may_be_read(path, arguments) for path in (output, found) if path):
        return UNKNOWN
    if _has_links(output):
        return UNKNOWN
    return Outputs([output], [], found)


def _default_product(arguments: Sequence[str]) -> str:
    """The product's name, made from that of the only source; empty if an argument is ambiguous."""
    sources = [token for token in arguments if not token.startswith("-")]
    modes = [SPELLINGS_OF_MODES[token] for token in arguments if token in SPELLINGS_OF_MODES]
    is_clear = (
        len(sources) == len(modes) == 1
        and all(not token.startswith("-") or _is_complete(token) for token in arguments)
        and not any(_is_of(token, OPTIONS_FILE) or token in DEVICE_LINK for token in arguments)
        and not os.environ.get("NVCC_PREPEND_FLAGS")
        and not os.environ.get("NVCC_APPEND_FLAGS")
    )
    return _stem(sources[0]) + EXTENSIONS[modes[0]] if is_clear else ""


def _value(option: tuple[str, ...], arguments: Sequence[str]) -> str | None:
    """The value of an option given once, empty if it is not given; None if that is ambiguous."""
    indices = [index for index, token in enumerate(arguments) if _is_of(token, option)]
    if not indices:
        return ""
    index = indices[0]
    if len(indices) > 1 or not _is_no_value(index, arguments):
        return None
    _, sign, value = arguments[index].partition("=")
    if not sign:
        value = arguments[index + 1] if index + 1 < len(arguments) else ""
    return value if value and not value.startswith("-") else None


def _is_of(token: str, option: tuple[str, ...]) -> bool:
    """Whether an argument is one of an option's spellings, alone or with `=VALUE`."""
    return token in option or token.partition("=")[0] in option


def _is_no_value(index: int, arguments: Sequence[str]) -> bool:
    """Whether an argument cannot be the value of the option before it."""
    before = arguments[index - 1] if index else ""
    return not before.startswith("-") or _is_complete(before)


def _is_complete(token: str) -> bool:
    return token in COMPLETE or bool(token.partition("=")[2]) or (token[:2] in GLUED and len(token) > 2)


def _has_links(path: str) -> bool:
    """Whether a file has other names: then overwriting and replacing it differ, which is up to the tool."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISLNK(found.st_mode) or found.st_nlink > 1


def _may_be_read(path: str, arguments: Sequence[str]) -> bool:
    """Whether any argument but those for outputs and the target of the rule names this file."""
    name = os.path.basename(path)
    absolute = os.path.abspath(path)
    return any(
        token.endswith(name)
        and not (index and arguments[index - 1] in (*OUTPUT, *DEPENDENCY_FILE, *TARGET))
        and not _is_of(token, (*OUTPUT, *DEPENDENCY_FILE, *TARGET))
        and absolute in map(os.path.abspath, (token, token.partition("=")[2]))
        for index, token in enumerate(arguments)
    )


def are_plain_names(names: Sequence[bytes], read: Iterable[str] = ()) -> bool:
    """Whether make takes these names from a record for file names and nothing else.

    A name with `=` is an assignment unless it is one of the files that the call has `read`.
    """
    text = b"".join(names)
    odd = text.translate(None, MEANT_FOR_MAKE.replace(b"=", b""))
    if b"\n" in text or len(odd) != len(text):
        return False
    return b"=" not in text or {name for name in names if b"=" in name} <= set(map(os.fsencode, read))


def is_plain_rule(text: bytes) -> bool:
    """Whether a depfile from a record only declares dependencies and makes make do nothing else."""
    if len(text.translate(None, MEANT_FOR_MAKE)) != len(text):
        return False
    for line in text.replace(b"\\\n", b" ").split(b"\n"):
        name, colon, _ = line.partition(b":")
        name = name.strip(b" ").replace(b"\\ ", b"")
        if line.strip(b" ") and (not colon or not name or b" " in name or name in DIRECTIVES):
            return False
    return True

"""The names of a call's outputs: the only files that a record may make us write.

Part of the hot path. The names follow from the command line by nvcc's rules, never from a record, which may
come from a remote: it only holds indices into the names found here. Outputs that nvcc names by other rules
cannot be recorded. The launcher's records, which are private, hold the names themselves; each is for one
command line, directory and environment.
"""

from __future__ import annotations

import os

from nvccache.commandline import host_options

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
        products = []  # the program is linked each time
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
    for product in tuple(products) if EXTENSIONS.get(invocation.mode) == ".o" else ():
        products += host_options.side_files(invocation.host_flags, product)
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


def are_plain_names(names: Sequence[bytes], read: Iterable[str] = ()) -> bool:
    """Whether make takes these names from a record for file names and nothing else.

    A name with `=` is an assignment unless it is one of the files that the call has `read`.
    """
    text = b"".join(names)
    odd = text.translate(None, MEANT_FOR_MAKE.replace(b"=", b""))
    if b"\n" in text or len(odd) != len(text):
        return False
    return b"=" not in text or {name for name in names if b"=" in name} <= set(map(os.fsencode, read))

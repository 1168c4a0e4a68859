"""Derives the names of a call's outputs, the only files that nvccache writes to answer it from a record.

The names follow from the command line by nvcc's rules. Records contain only indices into the list of these
names, because a record may come from a remote. A call cannot be recorded if nvcc names its outputs by rules
that are not implemented here. Replay records may contain the names themselves, because they never leave the
cache directory, and each is for one command line, working directory and environment. Direct hits load this
module, so it is part of the hot path.
"""

from __future__ import annotations

import os

from nvccache.commandline import host_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.commandline.invocation import Invocation

STANDARD_OUTPUT = ""  # the destination of the output that a query prints
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


class Outputs:
    def __init__(self, products: list[str], dependency_file: str, are_objects: bool) -> None:
        self.products = products  # in a result, the role of a product is its index in this list
        self.dependency_file = dependency_file  # empty if the call writes no depfile
        self.are_objects = are_objects  # whether gas writes the products: it unlinks existing files first

    def match(self, products: Sequence[str], dependency_file: str) -> bool:
        """Whether these are exactly the files that the call writes, without duplicates."""
        return (
            len(products) == len(set(products))
            and set(products) == set(self.products)
            and dependency_file == self.dependency_file
        )


def outputs_of(invocation: Invocation) -> Outputs | None:
    """The outputs of a parsed call; None if their names do not follow from the command line."""
    dependency_file = _dependency_file(invocation)
    if dependency_file is None:
        return None
    mode = invocation.mode
    are_objects = EXTENSIONS.get(mode) == ".o"
    if invocation.is_query:
        products = [invocation.output or STANDARD_OUTPUT]
    elif mode == "link":
        products = []  # the linked program is not recorded
    elif mode == "device-link":
        extension = next(
            (EXTENSIONS[name] for name in ("cubin", "fatbin") if name in invocation.options), ".o"
        )
        are_objects = extension == ".o"
        products = [invocation.output or _in_output_directory("a_dlink" + extension, invocation)]
    elif invocation.output:
        products = [invocation.output]
    elif mode in EXTENSIONS:
        products = _named_after_inputs(EXTENSIONS[mode], invocation)
    else:
        return None
    for product in tuple(products) if EXTENSIONS.get(mode) == ".o" else ():
        products += host_options.side_files(invocation.host_flags, product)
    return Outputs(products, dependency_file, are_objects)


def _dependency_file(invocation: Invocation) -> str | None:
    """The depfile's name; empty if the call requests no depfile, None if the name is ambiguous."""
    wanted = invocation.dependencies
    if not wanted:
        return ""
    if wanted.output:
        return wanted.output
    if invocation.output:
        return default_depfile(invocation.output)
    names = _named_after_inputs(".d", invocation)
    return names[0] if len(names) == 1 else None


def default_depfile(output: str) -> str | None:
    """The name that nvcc gives the depfile without -MF; None if the output has no extension or several."""
    stem, extension = os.path.splitext(output)
    return stem + ".d" if extension and "." not in os.path.basename(stem) else None


def _named_after_inputs(extension: str, invocation: Invocation) -> list[str]:
    names = [os.path.basename(path) for path in invocation.inputs]
    stems = [name.rpartition(".")[0] if "." in name else name for name in names]
    return [_in_output_directory(stem + extension, invocation) for stem in stems]


def _in_output_directory(name: str, invocation: Invocation) -> str:
    return f"{invocation.output_directory}/{name}" if invocation.output_directory else name

"""What the processes of a stage wrote, removed and looked up of its products: a hit does none of that."""

from __future__ import annotations

import os
from collections.abc import Iterable

from nvccache.files import signatures
from nvccache.observation.observed_process import COMPILERS, Process
from nvccache.records.input_records import UnreadableError

_HARMLESS_OUTPUTS = tuple("/dev/null /dev/zero /dev/full /dev/fd/ /dev/std /dev/tty /dev/pts/ /proc/".split())


def check_products(process: Process, scratch: str, outputs: Iterable[str] = ()) -> None:
    """Raise UnreadableError if a process wrote or removed files other than outputs: a hit would not."""
    own = _own(scratch)
    brought_back = set(map(_with_real_directory, outputs))
    updated = {path for path, shown in process.updated.items() if signatures.signature_of(path) != shown}
    for path in sorted(process.written | updated):
        if path.startswith(own) or not os.path.lexists(path):
            continue
        real_path = _with_real_directory(path)
        if not real_path.startswith(own) and real_path not in brought_back:
            raise UnreadableError(f"`{os.path.basename(process.program)}` writes `{path}`")
    for path in sorted(process.removed):
        if not path.startswith(own) and not os.path.lexists(path):
            raise UnreadableError(f"`{os.path.basename(process.program)}` removes `{path}`")


def looks_for_product(process: Process, product: str, *, existed: bool) -> bool:
    """Whether a process looked up a product's path before the product was made, and may depend on the result.

    If the product did not exist before, a lookup that finds it came later.
    """
    if process.kind in COMPILERS:
        return False
    observed = process.absent | (process.found.keys() | process.files.keys() if existed else set())
    name, path = os.path.basename(product), _with_real_directory(product)
    return any(os.path.basename(one) == name and _with_real_directory(one) == path for one in observed)


def _own(scratch: str) -> tuple[str, ...]:
    return (scratch + "/", os.path.realpath(scratch) + "/", *_HARMLESS_OUTPUTS)


def _with_real_directory(path: str) -> str:
    directory, name = os.path.split(path)
    return os.path.join(os.path.realpath(directory), name)

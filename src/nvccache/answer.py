"""An answer: everything a call gives, from products to diagnostics, and giving it.

Part of the hot path. What is given is what nvcc would have left: the dependency file first, since nvcc
writes it before it compiles, then the products.
"""

from __future__ import annotations

import os

from nvccache import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.store import Store

GIVEN, LOST, UNWRITABLE = "given", "lost", "unwritable"


class Answer:
    """`products` are (destination, digest of its content, whether an existing file is unlinked first).

    `rule` is the content of the dependency file, None where the call asks for none.
    """

    __slots__ = ("dependency_file", "products", "rule", "seconds_saved", "stderr", "stdout")

    products: list[tuple[str, str, bool]]
    dependency_file: str
    rule: bytes | None
    stdout: bytes
    stderr: bytes
    seconds_saved: float

    def __init__(self) -> None:
        self.products = []
        self.dependency_file, self.rule = "", None
        self.stdout, self.stderr = b"", b""
        self.seconds_saved = 0.0


def give(answer: Answer, cache: Store) -> str:
    """Write the products and the dependency file.

    LOST, with nothing written, if the store does not have it all; UNWRITABLE where nvcc should report why.
    """
    contents = [cache.read_blob(digest) for _, digest, _ in answer.products]
    try:
        if None in contents:
            return LOST
        if answer.rule is not None:
            _write(answer.dependency_file, answer.rule)
        for (destination, digest, unlink_first), content in zip(answer.products, contents, strict=True):
            assert content is not None
            store.restore(content, cache.path(store.BLOB, digest), destination, unlink_first)
    except (OSError, ValueError):
        return UNWRITABLE
    return GIVEN


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        store.write_all(descriptor, content)
    finally:
        os.close(descriptor)

"""An answer: everything a call gives, from products to diagnostics, and giving it.

Part of the hot path. What is given is what nvcc would have left: the dependency file first, since nvcc
writes it before it compiles, then the products.
"""

from __future__ import annotations

from nvccache.records import products
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.records.products import Product
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.store.store import Store

GIVEN, LOST, UNWRITABLE = "given", "lost", "unwritable"


class CallResult:
    """`products` are (destination, digest of its content, whether an existing file is unlinked first).

    Of a query one may be STANDARD_OUTPUT's.
    `rule` is the content of the dependency file, None where the call asks for none. Where a host's link has
    to follow (link_only.py), `intermediates` are what it reads of the scratch directory, (base name, digest).
    For the event log: `stages` are what it saves, as event_line.py writes them, `seconds_saved` what their
    tools take of a CPU, `wall_seconds` what they took of the wall clock, and `sources` the inputs as they
    were typed.
    """

    __slots__ = (
        "dependency_file",
        "intermediates",
        "products",
        "rule",
        "seconds_saved",
        "sources",
        "stages",
        "stderr",
        "stdout",
        "wall_seconds",
    )

    products: list[tuple[str, str, bool]]
    dependency_file: str
    rule: bytes | None
    stdout: bytes
    stderr: bytes
    seconds_saved: float
    intermediates: list[tuple[str, str]]
    stages: list[str]
    sources: list[str]
    wall_seconds: float

    def __init__(self) -> None:
        self.products = []
        self.dependency_file, self.rule = "", None
        self.stdout, self.stderr = b"", b""
        self.seconds_saved = self.wall_seconds = 0.0
        self.intermediates, self.stages, self.sources = [], [], []

    @property
    def is_of_query(self) -> bool:
        """Whether no stage is saved: nvcc was not asked to compile."""
        return not self.stages

    def take_intermediate(self, name: str, digest: str) -> None:
        """Take what a record says a link reads; raises ValueError."""
        if "/" in name or name in ("", ".", ".."):
            raise ValueError("no name of a file in a directory")
        self.intermediates.append((name, digest))


def give(answer: CallResult, cache: Store) -> str:
    """Write the products and the dependency file; what goes to standard output is put into the answer.

    LOST, with nothing written, if the store does not have it all; UNWRITABLE where nvcc should report why.
    """
    wanted = []
    if answer.rule is not None:
        wanted.append(Product(answer.dependency_file, answer.rule))
    contents = cache.read_blobs(digest for _, digest, _ in answer.products)
    for (destination, digest, unlink_first), content in zip(answer.products, contents, strict=True):
        if content is None:
            return LOST
        if destination == STANDARD_OUTPUT:
            answer.stdout = content
            continue
        wanted.append(Product(destination, content, cache.path(store.BLOB, digest), unlink_first))
    try:
        products.deliver(wanted)
    except (OSError, ValueError):
        return UNWRITABLE
    return GIVEN

"""The layout of a replay record, which Python writes and the launcher, a program in C, reads.

    head        struct replay_head: what it is, its sum, where all that follows begins
    strings     NUL-terminated, the first one empty; all others refer to them by where they begin
    directories strings; directories that hold the `files`
    files       struct replay_file, grouped by directory: their signatures (signatures.py)
    absent      strings; paths that must not be there
    present     struct replay_present: paths, with what must be there (presence.py)
    plain       strings; directories that must not be links
    links       pairs of strings: a path, and where it led
    identities  struct replay_identity: directories, each with the first of them that is the same one
    variables   strings, sorted: the names of the variables that decide, and of our own that are set
    prefixes    strings: no other variables that begin like these may be set
    reader      numbers: effective user and group, then the further groups in their order
    products    struct replay_product, in the order in which they are given

Sections begin at multiples of 8 bytes. Numbers are those of the machine, which alone reads it.
`src/native/generate_native_header.py` makes the C header of this. Part of the hot path of direct hits.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAGIC = b"replay10"
SUM = 16  # bytes of XXH3 in canonical form
DIGEST = 32  # bytes of BLAKE3: values are kept as digests, since some are secret
SUMMED_FROM = len(MAGIC) + SUM
# Fields of the structures: a name, and a code of `struct`. Their order leaves no gaps.
HEAD = (
    ("magic", "8s"),
    ("sum", f"{SUM}s"),  # of all that follows this field
    ("size", "Q"),  # of the whole record, bytes
    ("call", f"{DIGEST}s"),  # digest of the call as it was typed, which names the record
    (
        "environment",
        f"{DIGEST}s",
    ),  # digest of the variables that decide, each `NAME=VALUE`, or `NAME` if unset
    ("host", f"{DIGEST}s"),  # what facts.py says of it; zeros where nothing asked, as in the next
    ("caller", f"{DIGEST}s"),
    ("wall_saved", "q"),  # microseconds
    ("log_mode", "Q"),  # the permissions of a new log
    (
        "boot",
        "I",
    ),  # string: since which start of the machine it is the same one; empty where that is no matter
    ("journal", "I"),  # string: the directory in which calls are counted
    ("event", "I"),  # string of a stored length: event_line.replayed_line
    ("event_size", "I"),
    ("first", "I"),  # how many words of the command line come before nvcc's arguments
    ("rule", "I"),  # 1 if the first product is a dependency file
    ("output", "I"),  # string of a stored length: standard output, then standard error
    ("output_size", "I"),
    ("messages", "I"),
    ("messages_size", "I"),
)
FILE = (
    ("device", "Q"),
    ("inode", "Q"),
    ("size", "Q"),
    ("modified", "q"),  # nanoseconds
    ("changed", "q"),
    ("name", "I"),  # string
    ("directory", "I"),  # index
)
PRESENT = (("path", "I"), ("state", "I"))
IDENTITY = (("path", "I"), ("first", "I"))  # string, index
PRODUCT = (
    ("sum", f"{SUM}s"),  # of the content
    ("size", "Q"),  # of the content, bytes
    ("path", "I"),  # string: where it goes, as typed
    ("blob", "I"),  # string: its name in the bucket of blobs; empty where the content is a string
    ("content", "I"),  # string, of this size
    ("unlink_first", "I"),  # 1 if an existing file is replaced
)
STRUCTURES = {"head": HEAD, "file": FILE, "present": PRESENT, "identity": IDENTITY, "product": PRODUCT}
# Of each section its elements: bytes, numbers (of strings, or by themselves), pairs of them, or structures.
SECTIONS = {
    "strings": "bytes",
    "directories": "number",
    "files": "file",
    "absent": "number",
    "present": "present",
    "plain": "number",
    "links": "pair",
    "identities": "identity",
    "variables": "number",
    "prefixes": "number",
    "reader": "number",
    "products": "product",
}
_SIMPLE = {"bytes": 1, "number": 4, "pair": 8}
_TABLE = struct.Struct(f"={2 * len(SECTIONS)}I")  # of each section where it begins, and its elements
_PRODUCT_AT = list(SECTIONS).index("products")


def format_of(fields: Iterable[tuple[str, str]]) -> str:
    return "=" + "".join(code for _, code in fields)


FORMATS = {name: struct.Struct(format_of(fields)) for name, fields in STRUCTURES.items()}


def size_of(element: str) -> int:
    """Bytes of an element of a section."""
    return _SIMPLE.get(element) or FORMATS[element].size


class Strings:
    """The strings of a record; each is there once."""

    __slots__ = ("_at", "content")

    def __init__(self) -> None:
        self.content = bytearray(b"\0")
        self._at = {b"": 0}

    def add(self, text: bytes) -> int:
        """Where a string begins; one with NUL in it needs its length as well."""
        at = self._at.get(text)
        if at is None:
            at = self._at[text] = len(self.content)
            self.content += text + b"\0"
        return at

    def add_all(self, texts: Iterable[bytes]) -> bytes:
        """A section of strings."""
        found = list(map(self.add, texts))
        return struct.pack(f"={len(found)}I", *found)


def joined(head: Mapping[str, int | bytes], sections: Mapping[str, bytes]) -> bytes:
    """The whole record; `head` is given without the fields that follow from the rest."""
    from nvccache.files import keys

    at = FORMATS["head"].size + _TABLE.size
    table: list[int] = []
    body: list[bytes] = []
    for name, element in SECTIONS.items():
        content = sections[name]
        table += (at, len(content) // size_of(element))
        padded = content + bytes(-len(content) % 8)
        body.append(padded)
        at += len(padded)
    values = {**head, "magic": MAGIC, "sum": b"", "size": at}
    packed = FORMATS["head"].pack(*(values[name] for name, _ in HEAD))
    summed = packed[SUMMED_FROM:] + _TABLE.pack(*table) + b"".join(body)
    return MAGIC + keys.sum_bytes(summed) + summed


def blobs_in(record: bytes) -> list[str]:
    """The digests of what a record gives; raises ValueError for what is no whole record."""
    from nvccache.files import keys

    if (
        record[: len(MAGIC)] != MAGIC
        or keys.sum_bytes(record[SUMMED_FROM:]) != record[len(MAGIC) : SUMMED_FROM]
    ):
        raise ValueError("not such a record, or damaged")
    try:
        return _blobs_in(record)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def _blobs_in(record: bytes) -> list[str]:
    table = _TABLE.unpack_from(record, FORMATS["head"].size)
    at, count = table[2 * _PRODUCT_AT : 2 * _PRODUCT_AT + 2]
    strings = table[2 * list(SECTIONS).index("strings")]
    found = []
    for index in range(count):
        *_, blob, _, _ = FORMATS["product"].unpack_from(record, at + index * size_of("product"))
        end = record.index(b"\0", strings + blob)
        found.append(record[strings + blob : end].decode("ascii"))
    return [digest for digest in found if digest]

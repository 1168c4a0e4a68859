"""The layout of a replay record, which Python writes and the launcher, written in C, reads.

    head        struct replay_head: magic, checksum, table of sections
    call        what identifies the call, compared byte for byte; its checksum is the record's name
    strings     NUL-terminated, the first one empty; other sections refer to them by offset
    directories strings: the directories of the `files`
    files       struct replay_file, grouped by directory: stat signatures (signatures.py) of the files, and
                checksums of files that may be touched
    folders     struct replay_folder: directories in which names were looked up, with their signatures
    names       struct replay_name, in the order of the folders: the names that were looked up, and the
                states (presence.py) that they must have if the folder's signature has changed
    plain       strings: directories that must not be links
    links       pairs of strings: a path, and the path to which it must resolve
    variables   strings, sorted: names of the variables to compare, and of all NVCCACHE_ variables set
    prefixes    strings: no other variables with these prefixes may be set
    reader      numbers: effective user and group, then the supplementary groups, sorted
    products    struct replay_product, in the order in which they are restored

Sections are aligned to 8 bytes. Numbers have native byte order, because only the machine that wrote a record
reads it. `src/native/generate_native_header.py` generates the C header. Direct hits load this module to write
a record, so it is part of the hot path.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAGIC = b"replay18"
SUM = 16  # bytes of XXH3 in canonical form
SUMMED_FROM = len(MAGIC) + SUM
# Fields of the structures, in an order that needs no padding: a name, and a format code of `struct`.
HEAD = (
    ("magic", "8s"),
    ("sum", f"{SUM}s"),  # checksum of everything after this field
    ("size", "Q"),  # of the whole record, in bytes
    ("environment", f"{SUM}s"),  # checksum of the variables, each `NAME=VALUE`, or `NAME` if unset
    ("boot", "I"),  # string: the id of the boot, or empty if the call does not depend on the machine
    ("event", "I"),  # string, whose length is the next field: event_line.end_of_line
    ("event_size", "I"),
    ("is_query", "I"),  # 1 if the call compiles nothing
    ("output", "I"),  # string, whose length is the next field: standard output
    ("output_size", "I"),
    ("messages", "I"),  # string, whose length is the next field: standard error
    ("messages_size", "I"),
)
SIGNATURE = (
    ("device", "Q"),
    ("inode", "Q"),
    ("size", "Q"),
    ("modified", "q"),  # nanoseconds
    ("changed", "q"),
)
SIGNED = "".join(code for _, code in SIGNATURE)
FILE = (
    ("signature", SIGNED),
    ("sum", f"{SUM}s"),  # checksum of the content, for use if the signature has changed; zeros if unknown
    ("code", f"{SUM}s"),  # checksum without comments; zeros if comments matter
    ("name", "I"),  # string
    ("directory", "I"),  # index
)
FOLDER = (("signature", SIGNED), ("path", "I"), ("names", "I"))  # `path` is a string, `names` a number
NAME = (("name", "I"), ("state", "I"))  # `name` is a string, `state` a character
PRODUCT = (
    ("sum", f"{SUM}s"),  # checksum of the content
    ("size", "Q"),  # of the content, in bytes
    ("path", "I"),  # string: the destination, as typed
    ("blob", "I"),  # string: the digest of a blob with the content, or empty
    ("content", "I"),  # string of `size` bytes: the content, if it is not in a blob
    ("unlink_first", "I"),  # 1 if an existing file is unlinked first
)
STRUCTURES = {
    "head": HEAD,
    "signature": SIGNATURE,
    "file": FILE,
    "folder": FOLDER,
    "name": NAME,
    "product": PRODUCT,
}
FORMATS = {name: struct.Struct("=" + "".join(code for _, code in row)) for name, row in STRUCTURES.items()}
# The size of an element of each section, in bytes. An element is a byte, a number or the offset of a string
# (4 bytes), a pair of offsets, or a structure.
SECTIONS = {
    "call": 1,
    "strings": 1,
    "directories": 4,
    "files": FORMATS["file"].size,
    "folders": FORMATS["folder"].size,
    "names": FORMATS["name"].size,
    "plain": 4,
    "links": 8,
    "variables": 4,
    "prefixes": 4,
    "reader": 4,
    "products": FORMATS["product"].size,
}
_TABLE = struct.Struct(f"={2 * len(SECTIONS)}I")  # the offset and number of elements of each section


class Strings:
    """The strings of a record, without duplicates."""

    def __init__(self) -> None:
        self.content = bytearray(b"\0")
        self._at: dict[str | bytes, int] = {b"": 0, "": 0}

    def add(self, text: str | bytes) -> int:
        """Add a string, and return its offset. If the string can contain NUL, store its length, too."""
        at = self._at.get(text)
        if at is None:
            at = self._at[text] = len(self.content)
            self.content += os.fsencode(text) + b"\0"
        return at

    def add_all(self, texts: Iterable[str | bytes]) -> bytes:
        """Add strings, and return a section of their offsets."""
        found = list(map(self.add, texts))
        return struct.pack(f"={len(found)}I", *found)


def joined(head: Mapping[str, int | bytes], sections: Mapping[str, bytes]) -> bytes:
    """The whole record. `head` contains only the fields that are not computed here."""
    from nvccache.files import keys

    at = FORMATS["head"].size + _TABLE.size
    table: list[int] = []
    body: list[bytes] = []
    for name, size in SECTIONS.items():
        content = sections[name]
        table += (at, len(content) // size)
        padded = content + bytes(-len(content) % 8)
        body.append(padded)
        at += len(padded)
    values = {**head, "magic": MAGIC, "sum": b"", "size": at}
    packed = FORMATS["head"].pack(*(values[name] for name, _ in HEAD))
    summed = packed[SUMMED_FROM:] + _TABLE.pack(*table) + b"".join(body)
    return MAGIC + keys.sum_bytes(summed) + summed


def blobs_in(record: bytes) -> list[str]:
    """The digests of the blobs that a record restores; raises ValueError for a damaged record."""
    from nvccache.files import keys

    is_whole = record.startswith(MAGIC + keys.sum_bytes(record[SUMMED_FROM:]))
    if not is_whole or len(record) < FORMATS["head"].size + _TABLE.size:
        raise ValueError("not a replay record, or a damaged one")
    table = _TABLE.unpack_from(record, FORMATS["head"].size)
    places = {name: table[2 * index : 2 * index + 2] for index, name in enumerate(SECTIONS)}
    strings, (at, count) = places["strings"][0], places["products"]
    products = FORMATS["product"].iter_unpack(record[at : at + count * SECTIONS["products"]])
    found = [record[strings + blob :].partition(b"\0")[0].decode() for *_, blob, _, _ in products]
    return [digest for digest in found if digest]

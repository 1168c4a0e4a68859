"""A bundle: what other caches keep under the front key of a manifest, in one object.

A look-up of a manifest costs a local cache three files: the manifest, an input record, the stage's entry. Of
a remote that would be three round trips, one after the other; input records of one command are also much
alike, so that a dozen of them compress to little more than one. What tells of this machine alone is not in a
bundle, and is not believed of one that was received: stat signatures, and who could read the files.

    bundle-1 <key> <input record> <entry>  <key> <input record> <entry> ...     newest first

An entry is empty where there is none under the key: that of a call, or behind a redirect.
"""

from __future__ import annotations

from nvccache.records import input_records, manifest
from nvccache.store import sections, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.store.store import Store

BUCKET = "bundle-v1"  # on remotes only
_KIND = "bundle-1"
_MOST_RECORDS = 16
_MOST_BYTES = 1 << 25  # that of a unit with 1,600 headers has 300,000 for each record


class Bundle:
    """`records` maps the key of an input record to the record and the stage's entry, newest first."""

    __slots__ = ("records",)

    def __init__(self, records: dict[str, tuple[bytes, bytes]] | None = None) -> None:
        self.records = records or {}

    def encode(self) -> bytes:
        kept: list[bytes] = []
        size = 0
        for key, (record, entry) in list(self.records.items())[:_MOST_RECORDS]:
            size += len(record) + len(entry)
            if size > _MOST_BYTES and kept:
                break
            kept += (key.encode(), record, entry)
        return sections.pack(_KIND, kept)

    def behind(self, newer: Bundle) -> Bundle:
        """Both together."""
        older = {key: found for key, found in self.records.items() if key not in newer.records}
        return Bundle(newer.records | older)


def decode(encoded: bytes) -> Bundle:
    """What a remote has sent; raises ValueError."""
    parts = sections.unpack_all(_KIND, encoded)
    if len(parts) % 3 or len(parts) > 3 * _MOST_RECORDS:
        raise ValueError("a bundle is cut short")
    found = {}
    for key, record, entry in zip(*[iter(parts)] * 3, strict=True):
        found[key.decode("ascii")] = (input_records.without_hints(record), entry)
    return Bundle(found)


def of_manifest(front_key: str, cache: Store) -> Bundle:
    """What a cache has under a front key."""
    found = {}
    for key in manifest.keys_of(front_key, cache):
        record = cache.find_record(store.INPUT_RECORD, key)
        if record is not None:
            entry = cache.find_record(store.STAGE, key) or b""
            found[key] = (input_records.without_hints(record), entry)
    return Bundle(found)

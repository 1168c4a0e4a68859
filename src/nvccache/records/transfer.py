"""Exports entries of a cache to a remote or a pack, and imports them.

Only blobs and records are shared, each sealed under its bucket and key (remote/envelope.py). Nothing else is
exported, whatever a queue names, and nothing else is imported, whatever a remote or pack contains.
"""

from __future__ import annotations

import contextlib
import os
import threading

from nvccache.records import record
from nvccache.records.tiered_store import COMPRESSED, LARGEST, RAW, opened_blob
from nvccache.remote import envelope
from nvccache.store import eviction, layout, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvccache.remote.service import Service
    from nvccache.remote.uploads import Item
    from nvccache.store.store import Store

BUCKETS = (store.BLOB, store.RECORD)
_PROBE_FROM = 64 << 10  # bytes of a blob from which it is cheaper to query first whether the remote has it
_EVICT_EVERY = 64 << 20  # bytes imported
_MERGE_ATTEMPTS = 4  # for a record that others write at the same time


class Transfer:
    """Export from and import into one cache; thread-safe. Raises ServiceError."""

    def __init__(self, cache: Store, max_size: int = 0) -> None:
        self._cache = cache
        self._max_size = max_size  # bytes of the cache, 0 for no limit
        self._counting = threading.Lock()

    def items(self) -> Iterator[tuple[Item, float]]:
        """The items that may be shared, blobs before records, with the time of last use; raises OSError."""
        found: dict[str, dict[str, float]] = {bucket: {} for bucket in BUCKETS}
        for path, _, used in layout.entries(self._cache.directory):
            bucket, _, name = path.split("/")
            if bucket in found:
                found[bucket][name.removesuffix(store.COMPRESSED)] = used
        for bucket, names in found.items():
            for key, used in sorted(names.items()):
                yield (bucket, key), used

    def is_sent_last(self, item: Item) -> bool:
        """Whether an item must not be sent before the items it refers to."""
        return item[0] == store.RECORD

    def sealed(self, item: Item) -> bytes | None:
        """An item as stored elsewhere; None if it is not in the cache or must not be shared."""
        body = body_of(item, self._cache)
        return None if body is None else envelope.seal(*item, body)

    def send(self, item: Item, service: Service) -> int:
        """Send an item unless the remote has it; the bytes sent, 0 also if it is no longer in the cache."""
        body = body_of(item, self._cache)
        if body is None:
            return 0
        name = envelope.name_of(*item)
        if self.is_sent_last(item):
            return _merge(item, name, body, service)
        content = envelope.seal(*item, body)
        # One of another size is truncated or was compressed by another zstd: it is sent again.
        if len(body) > _PROBE_FROM and service.has(name, len(content)):
            return 0
        service.put(name, content)
        return len(content)

    def take_in(self, content: bytes, name: str) -> bool:
        """Import an item that was stored under this name elsewhere; whether the cache lacked it.

        Raises ValueError if the content does not match the name or must not be shared.
        """
        bucket, key = envelope.claimed_name(content)
        is_key = self._cache.name(bucket, key).endswith(f"/{key}")
        if bucket not in BUCKETS or not is_key or envelope.name_of(bucket, key) != name:
            raise ValueError("it is not what its name says")
        body = envelope.unseal(content, bucket, key, LARGEST)
        self.keep_within_limit(_EVICT_EVERY)
        if bucket == store.RECORD:
            return record.take_in(key, body, self._cache)
        return self._take_blob(key, body)

    def keep_within_limit(self, added: int = 1) -> None:
        """Once `added` bytes were imported, account for them and evict what exceeds the limit."""
        with self._counting:
            grown = self._cache.added
            if sum(grown.values()) >= added:
                self._cache.added = {}
                eviction.count_and_limit(self._cache.directory, grown, self._max_size, is_hurried=False)

    def _take_blob(self, digest: str, body: bytes) -> bool:
        content, compress = opened_blob(body, digest)
        if self._cache.has_blob(digest):
            return False
        self._cache.add_blob(digest, content, compress, is_received=True)
        return True


def body_of(item: Item, cache: Store) -> bytes | None:
    """The body of an item to be exported; None if it is no longer in the cache or must not be shared."""
    bucket, key = item
    if bucket not in BUCKETS:
        return None
    body = None
    if bucket == store.RECORD:
        stored = cache.find_record(bucket, key)
        with contextlib.suppress(ValueError):
            body = record.without_hints(stored) if stored is not None else None
    else:
        content = cache.read_blob(key)
        is_raw = os.path.exists(cache.path(bucket, key))
        body = (RAW if is_raw else COMPRESSED) + content if content is not None else None
    return None if body is None or len(body) > LARGEST else body


def _merge(item: Item, name: str, ours: bytes, service: Service) -> int:
    """Add our pairs to a remote's record and keep those of others, which may be written at the same time."""
    sent = 0
    for _ in range(_MERGE_ATTEMPTS):
        theirs = _unsealed(item, service.get(name, envelope.max_sealed_size(LARGEST)))
        together = ours
        if theirs is not None:
            with contextlib.suppress(ValueError):  # theirs is no record
                if record.has_all_of(theirs, ours):
                    break
                together = record.merged(ours, theirs)
        content = envelope.seal(*item, together)
        service.put(name, content)
        sent += len(content)
    return sent


def _unsealed(item: Item, content: bytes | None) -> bytes | None:
    """The body of an item on a remote; None if it is missing or damaged."""
    try:
        return envelope.unseal(content, *item, LARGEST) if content is not None else None
    except ValueError:
        return None

"""What of a cache may be elsewhere, how it gets to a remote or into a pack, and back.

Shared are blobs and records, each sealed under its bucket and key (remote/envelope.py).
Nothing else leaves the cache, whatever a queue says, and nothing else is taken in, whatever lies on a remote
or in a pack.
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
_ASKED_FOR = 64 << 10  # bytes of a blob from which it is cheaper to ask whether it is there
_COUNTED_EVERY = 64 << 20  # bytes
_MERGES = 4  # of a record that others write at the same time


class Transfer:
    """From and into one cache; may be used by several threads. ServiceError is left to the caller."""

    def __init__(self, cache: Store, max_size: int = 0) -> None:
        self._cache = cache
        self._max_size = max_size  # bytes of the cache, 0 for no limit
        self._counting = threading.Lock()

    def items(self) -> Iterator[tuple[Item, float]]:
        """What may be shared, and when it was used last: blobs first and records last. Raises OSError."""
        found: dict[str, dict[str, float]] = {bucket: {} for bucket in BUCKETS}
        for path, _, used in layout.entries(self._cache.directory):
            bucket, _, name = path.split("/")
            if bucket in found:
                found[bucket][name.removesuffix(store.COMPRESSED)] = used
        for bucket, names in found.items():
            for key, used in sorted(names.items()):
                yield (bucket, key), used

    def is_promise(self, item: Item) -> bool:
        """Whether others are to be there before this one is."""
        return item[0] == store.RECORD

    def sealed(self, item: Item) -> bytes | None:
        """An item as it lies elsewhere; None if it is not in the cache, or not to be shared."""
        body = body_of(item, self._cache)
        return None if body is None else envelope.seal(*item, body)

    def send(self, item: Item, service: Service) -> int:
        """Have an item on a remote; the bytes sent, 0 where it is there already, or here no more."""
        body = body_of(item, self._cache)
        if body is None:
            return 0
        name = envelope.name_of(*item)
        if self.is_promise(item):
            return _merge(item, name, body, service)
        content = envelope.seal(*item, body)
        # One of another size has been cut off, or was packed by another zstd: then it is sent once more.
        if len(body) > _ASKED_FOR and service.has(name, len(content)):
            return 0
        service.put(name, content)
        return len(content)

    def take_in(self, content: bytes, name: str) -> bool:
        """Put what lay under a name elsewhere into the cache, unless it is there; whether it was put there.

        Raises ValueError for what is not what its name says, or may not be shared.
        """
        bucket, key = envelope.echo(content)
        is_key = self._cache.name(bucket, key).endswith(f"/{key}")
        if bucket not in BUCKETS or not is_key or envelope.name_of(bucket, key) != name:
            raise ValueError("it is not what its name says")
        body = envelope.unseal(content, bucket, key, LARGEST)
        self.keep_within_limit(_COUNTED_EVERY)
        if bucket == store.RECORD:
            return record.take_in(key, body, self._cache)
        return self._take_blob(key, body)

    def keep_within_limit(self, added: int = 1) -> None:
        """Count what was taken in, once that is so many bytes, and evict what is too much."""
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
    """What is to lie elsewhere; None if this cache does not have it any more, or it is not to be shared."""
    bucket, key = item
    if bucket not in BUCKETS:
        return None
    body = None
    if bucket == store.RECORD:
        kept = cache.find_record(bucket, key)
        with contextlib.suppress(ValueError):
            body = record.without_hints(kept) if kept is not None else None
    else:
        content = cache.read_blob(key)
        is_raw = os.path.exists(cache.path(bucket, key))
        body = (RAW if is_raw else COMPRESSED) + content if content is not None else None
    return None if body is None or len(body) > LARGEST else body


def _merge(item: Item, name: str, ours: bytes, service: Service) -> int:
    """Add our pairs to a remote's record and keep those of others, who may be writing at the same time."""
    sent = 0
    for _ in range(_MERGES):
        theirs = _unsealed(item, service.get(name, envelope.most_sealed(LARGEST)))
        together = ours
        if theirs is not None:
            with contextlib.suppress(ValueError):  # theirs is none
                if record.holds_all_of(theirs, ours):
                    break
                together = record.merged(ours, theirs)
        content = envelope.seal(*item, together)
        service.put(name, content)
        sent += len(content)
    return sent


def _unsealed(item: Item, content: bytes | None) -> bytes | None:
    """What is on a remote, None if it is nothing or no good."""
    try:
        return envelope.unseal(content, *item, LARGEST) if content is not None else None
    except ValueError:
        return None

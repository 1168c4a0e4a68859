"""Sends entries of a cache to a remote.

Only blobs and records are sent, each sealed under its bucket and key (remote/envelope.py), whatever a queue
names.
"""

from __future__ import annotations

import contextlib
import os

from nvccache.records import record
from nvccache.records.tiered_store import COMPRESSED, LARGEST, RAW
from nvccache.remote import envelope
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.remote.service import Service
    from nvccache.remote.uploads import Item
    from nvccache.store.store import Store


def send(item: Item, cache: Store, service: Service) -> int:
    """Send an item; the bytes sent, 0 if it is no longer in the cache. Raises ServiceError."""
    body, name = body_of(item, cache), envelope.name_of(*item)
    if body is None:
        return 0
    if item[0] == store.RECORD:
        theirs = service.get(name, envelope.max_sealed_size(LARGEST))
        with contextlib.suppress(ValueError):  # theirs is damaged, or no record
            # Others may write the same record at this moment: what one of us adds is lost, a miss.
            body = record.merged(body, envelope.unseal(theirs, *item, LARGEST) if theirs else body)
    content = envelope.seal(*item, body)
    service.put(name, content)
    return len(content)


def body_of(item: Item, cache: Store) -> bytes | None:
    """The body of an item to be sent; None if it is no longer in the cache or must not be shared."""
    bucket, key = item
    body = None
    if bucket == store.RECORD:
        stored = cache.find_record(bucket, key)
        with contextlib.suppress(ValueError):
            body = record.without_hints(stored) if stored is not None else None
    elif bucket == store.BLOB:
        content = cache.read_blob(key)
        is_raw = os.path.exists(cache.path(bucket, key))
        body = (RAW if is_raw else COMPRESSED) + content if content is not None else None
    return None if body is None or len(body) > LARGEST else body

"""What of a cache may be on a remote, and how it gets there and back.

Shared are blobs, stage entries and bundles (bundle.py), each sealed under its bucket and key (envelope.py).
Nothing else leaves the cache, whatever a queue says, and nothing else is taken in, whatever lies on a remote or
in a pack.
"""

from __future__ import annotations

from nvccache.files import keys
from nvccache.remote import bundle, envelope
from nvccache.store import entries, layout, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from nvccache.remote.uploads import Item
    from nvccache.store.store import Store

    class Remote(Protocol):
        """As far as it is asked here: a service, or what stands for one."""

        def get(self, name: str, most: int) -> bytes | None: ...
        def put(self, name: str, content: bytes) -> None: ...
        def has(self, name: str) -> bool: ...


BUCKETS = (store.BLOB, store.STAGE, bundle.BUCKET)
LARGEST = 256 << 20  # bytes of a body; the device code of a large library has tens of MiB
_ASKED_FOR = 64 << 10  # bytes of a blob from which it is cheaper to ask whether it is there


class _Metered:
    """A remote, and how many bytes were put there."""

    def __init__(self, service: Remote) -> None:
        self._service = service
        self.bytes = 0

    def get(self, name: str, most: int) -> bytes | None:
        return self._service.get(name, most)

    def has(self, name: str) -> bool:
        return self._service.has(name)

    def put(self, name: str, content: bytes) -> None:
        self._service.put(name, content)
        self.bytes += len(content)


def is_bundle(item: Item) -> bool:
    return item[0] == bundle.BUCKET


def items_in(cache: Store) -> Iterator[tuple[Item, float]]:
    """What of a cache may be shared, and when it was used last: blobs first and bundles last. Raises OSError."""
    found: dict[str, dict[str, float]] = {bucket: {} for bucket in BUCKETS}
    named = {store.BLOB: store.BLOB, store.STAGE: store.STAGE, store.MANIFEST: bundle.BUCKET}
    for path, _, used in layout.entries(cache.directory):
        bucket, _, name = path.split("/")
        if bucket in named:
            found[named[bucket]][name.removesuffix(store.COMPRESSED)] = used
    for bucket, names in found.items():
        for key, used in names.items():
            yield (bucket, key), used


def send(item: Item, cache: Store, service: Remote) -> int:
    """Have an item on a remote; the bytes sent, 0 where it is there already, or here no more.

    Raises ServiceError.
    """
    bucket, key = item
    metered = _Metered(service)
    if is_bundle(item):
        bundle.upload(key, cache, metered)
        return metered.bytes
    body = _body_of(item, cache)
    if body is None or len(body) > LARGEST:
        return 0
    name = envelope.name_of(bucket, key)
    if len(body) > _ASKED_FOR and service.has(name):
        return 0
    metered.put(name, envelope.seal(bucket, key, body))
    return metered.bytes


def _body_of(item: Item, cache: Store) -> bytes | None:
    bucket, key = item
    if bucket == store.BLOB:
        return cache.read_blob(key)
    return cache.find_record(bucket, key) if bucket == store.STAGE else None


def take_in(content: bytes, name: str, cache: Store) -> bool:
    """Put what lay under a name on a remote into the cache, unless it is there; whether it was.

    Raises ValueError for what is not what its name says, or may not be shared.
    """
    bucket, key = envelope.echo(content)
    if bucket not in BUCKETS or len(key) != keys.LENGTH or envelope.name_of(bucket, key) != name:
        raise ValueError("it is not what its name says")
    body = envelope.unseal(content, bucket, key, LARGEST)
    if bucket == bundle.BUCKET:
        return bundle.take_in(key, body, cache)
    if bucket == store.BLOB:
        return _take_blob(key, body, cache)
    if cache.find_record(bucket, key) is not None:
        return False
    entries.decode(body)
    cache.add_record(bucket, key, body)
    return True


def _take_blob(digest: str, body: bytes, cache: Store) -> bool:
    if keys.digest_bytes(body) != digest:
        raise ValueError("its digest is another one")
    if cache.has_blob(digest):
        return False
    cache.add_blob(digest, body, compress=False)
    return True

"""What an answer from the cache rests on, besides its own record: kept as long as the answer is in use.

A hit reads its record and its products; the manifests, stages and intermediates below them are asked only
when a file has changed. A record of their names lets a hit mark all of them as used, a few times a day.
"""

from __future__ import annotations

from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvccache.store.store import Store


def add(cache: Store, key: str) -> None:
    """Keep what this call rests on under the key of its input record."""
    cache.add_record(store.BASIS, key, "\n".join(cache.used).encode(), lock=False)


def refresh(cache: Store, key: str) -> None:
    """Mark what a call rests on as used just now; `key` is that of its input record."""
    found = cache.find_record(store.BASIS, key)
    if found is not None:
        mark_used(cache, found.decode("ascii", "replace").split("\n"))


def mark_used(cache: Store, names: Iterable[str]) -> None:
    """Mark files as used just now that are relied upon without being read."""
    if cache.is_readonly:
        return
    for name in names:
        bucket, _, rest = name.partition("/")
        known = cache.name(bucket, rest[3:].removesuffix(store.COMPRESSED))
        # Anything else was written there by somebody hostile.
        if bucket in store.BUCKETS and name.removesuffix(store.COMPRESSED) == known:
            cache.directory.mark_used(name)

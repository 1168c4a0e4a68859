"""Remotes as records use them: a dictionary that several caches share."""

from __future__ import annotations


class SharedTier:
    """A fake remote.tier.Tier for tiered_store.TieredStore; `asked` are the queried names."""

    def __init__(self, content: dict[tuple[str, str], bytes] | None = None) -> None:
        self.content = {} if content is None else content
        self.asked: list[tuple[str, str]] = []
        self.wanted: list[tuple[str, str]] = []
        self.rejected: list[tuple[str, str]] = []

    def prefetch(self, names) -> None:
        self.wanted += [(bucket, key) for bucket, key, _ in names]

    def get(self, bucket: str, key: str, most: int) -> bytes | None:
        self.asked.append((bucket, key))
        found = self.content.get((bucket, key))
        return found if found is not None and len(found) <= most else None

    def each(self, bucket: str, key: str, most: int):
        found = self.get(bucket, key, most)
        return iter([] if found is None else [found])

    def reject(self, bucket: str, key: str, body: bytes) -> None:
        assert self.content.pop((bucket, key)) == body
        self.rejected.append((bucket, key))

"""Remotes as records use them: a dictionary that several caches share."""

from __future__ import annotations


class SharedTier:
    """A fake remote.tier.Tier for tiered_store.TieredStore; `asked` are the queried names."""

    def __init__(self, content: dict[tuple[str, str], bytes] | None = None) -> None:
        self.content = {} if content is None else content
        self.asked: list[tuple[str, str]] = []
        self.wanted: list[tuple[str, str]] = []
        self.broken = 0  # unusable answers

    def prefetch(self, names) -> None:
        self.wanted += [(bucket, key) for bucket, key, _ in names]

    def each(self, bucket: str, key: str, most: int):
        self.asked.append((bucket, key))
        found = self.content.get((bucket, key))
        return iter([found] if found is not None and len(found) <= most else [])

    def note_broken(self) -> None:
        self.broken += 1

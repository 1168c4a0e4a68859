"""The content of the cache directory: files and bytes by kind of entry, and by time of last use."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nvccache.store import layout, store
from nvccache.store.directory import Directory

_DAY = 86_400.0
AGES = {"an hour": _DAY / 24, "a day": _DAY, "a week": 7 * _DAY, "30 days": 30 * _DAY}
OLDER = "longer"
KINDS = {
    store.BLOB: "outputs of stages",
    store.RECORD: "records of calls and stages",
    store.REPLAY: "replay records",
    store.OBJECT: "last calls, for `explain`",
    store.MEMO: "digests of tools, sources and headers",
}
COMPRESSED = "outputs of stages, compressed"
FORMER = "of other versions"


@dataclass(slots=True)
class Size:
    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.files += 1
        self.bytes += size


@dataclass(frozen=True, slots=True)
class Kept:
    kinds: dict[str, Size]
    ages: dict[str, Size]
    total: Size


def of(path: str) -> Kept:
    """Count the files of the cache; raises OSError."""
    now = time.time()
    kinds = {title: Size() for title in (*KINDS.values(), COMPRESSED, FORMER)}
    ages = {title: Size() for title in (*AGES, OLDER)}
    total = Size()
    for name, size, used in layout.entries(Directory(path)):
        age = next((title for title, most in AGES.items() if now - used <= most), OLDER)
        for tally in (kinds[_kind(name)], ages[age], total):
            tally.add(size)
    return Kept({title: size for title, size in kinds.items() if size.files}, ages, total)


def _kind(name: str) -> str:
    bucket = name.partition("/")[0]
    if bucket == store.BLOB and name.endswith(store.COMPRESSED):
        return COMPRESSED
    return KINDS.get(bucket, FORMER)

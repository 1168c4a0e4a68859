"""Manifests: the readings of a command, so that the same command can be answered without running it.

A manifest belongs to everything known before the run (the front key) and lists one reading for each
distinct state of the files, newest first. It serves the whole call, each preprocessor pass, and the
host compile, which reads toolkit headers again. Part of the hot path.
"""

from __future__ import annotations

from nvccache.records import differences, input_record
from nvccache.store import sections, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvccache.records.base_dir import Relocation
    from nvccache.records.differences import Present
    from nvccache.records.input_record import Reading
    from nvccache.store.store import Store

_KIND = "reading-5"
_MOST_READINGS = 8
_KEY_LENGTH = 32


class Found:
    """A reading that holds: its key, and what was recorded beside it."""

    __slots__ = ("attached", "key", "reading")

    key: str
    reading: Reading
    attached: bytes

    def __init__(self, key: str, reading: Reading, attached: bytes) -> None:
        self.key = key
        self.reading = reading
        self.attached = attached


def find(
    front_key: str,
    cache: Store,
    places: Relocation,
    now: Present,
    ask: Callable[[str, str], str],
) -> Found | None:
    """The newest reading that holds for the files as they are now."""
    return next(holding(front_key, cache, places, now, ask), None)


def holding(
    front_key: str, cache: Store, places: Relocation, now: Present, ask: Callable[[str, str], str]
) -> Iterator[Found]:
    """The readings that hold for the files as they are now, newest first."""
    for found in readings(front_key, cache, places):
        if not differences.differences(found.reading, now, True, ask):
            yield found


def readings(front_key: str, cache: Store, places: Relocation) -> Iterator[Found]:
    """All readings of a command, newest first; one that cannot be understood is removed."""
    for key in _keys(front_key, cache):
        record = cache.find_record(store.READING, key)
        if record is None:
            continue
        try:
            *parts, attached = sections.unpack(_KIND, record, input_record.SECTIONS + 1)
            yield Found(key, input_record.decode(parts, places), attached)
        except (ValueError, IndexError):
            cache.remove_damaged(store.READING, key)


def add(front_key: str, found: Found, cache: Store, places: Relocation, looked_at_ns: int) -> None:
    """Put a reading, made of what was seen from `looked_at_ns` on, at the front of a command's manifest."""
    input_record.forget_unsettled(found.reading, looked_at_ns)
    parts = [*input_record.encode(found.reading, places), found.attached]
    cache.add_record(store.READING, found.key, sections.pack(_KIND, parts))
    older = [key for key in _keys(front_key, cache) if key != found.key]
    cache.add_record(store.MANIFEST, front_key, "".join([found.key, *older][:_MOST_READINGS]).encode())


def _keys(front_key: str, cache: Store) -> list[str]:
    record = cache.find_record(store.MANIFEST, front_key)
    if record is None:
        return []
    if len(record) % _KEY_LENGTH or not record.isalnum():
        cache.remove_damaged(store.MANIFEST, front_key)
        return []
    text = record.decode("ascii")
    return [text[at : at + _KEY_LENGTH] for at in range(0, len(text), _KEY_LENGTH)]

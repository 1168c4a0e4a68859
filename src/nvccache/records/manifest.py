"""Manifests: the input records of a command, so that the same command can be answered without running it.

A manifest belongs to everything known before the run (the front key) and lists one input record for each
distinct state of the files, newest first. It serves the whole call, each preprocessor pass, and the
host compile, which reads toolkit headers again. Part of the hot path.
"""

from __future__ import annotations

from nvccache.records import differences, input_records
from nvccache.store import sections, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvccache.records.base_dir import Relocation
    from nvccache.records.differences import Present
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

_KIND = "input-record-6"
_MOST_READINGS = 8
_KEY_LENGTH = 32


class Found:
    """An input record that holds: its key, and what was recorded beside it."""

    __slots__ = ("attached", "input_record", "key")

    key: str
    input_record: InputRecord
    attached: bytes

    def __init__(self, key: str, input_record: InputRecord, attached: bytes) -> None:
        self.key = key
        self.input_record = input_record
        self.attached = attached


def find(
    front_key: str,
    cache: Store,
    relocation: Relocation,
    now: Present,
    ask: Callable[[str, str], str],
) -> Found | None:
    """The newest input record that holds for the files as they are now."""
    return next(holding(front_key, cache, relocation, now, ask), None)


def holding(
    front_key: str, cache: Store, relocation: Relocation, now: Present, ask: Callable[[str, str], str]
) -> Iterator[Found]:
    """The input records that hold for the files as they are now, newest first."""
    for found in kept_input_records(front_key, cache, relocation):
        if not differences.differences(found.input_record, now, True, ask):
            yield found


def kept_input_records(front_key: str, cache: Store, relocation: Relocation) -> Iterator[Found]:
    """All input records of a command, newest first; one that cannot be understood is removed."""
    for key in _keys(front_key, cache):
        record = cache.find_record(store.INPUT_RECORD, key)
        if record is None:
            continue
        try:
            *parts, attached = sections.unpack(_KIND, record, input_records.SECTIONS + 1)
            yield Found(key, input_records.decode(parts, relocation), attached)
        except (ValueError, IndexError):
            cache.remove_damaged(store.INPUT_RECORD, key)


def add(front_key: str, found: Found, cache: Store, relocation: Relocation, looked_at_ns: int) -> None:
    """Put an input record, observed from `looked_at_ns` on, at the front of a command's manifest."""
    input_records.forget_unsettled(found.input_record, looked_at_ns)
    parts = [*input_records.encode(found.input_record, relocation), found.attached]
    cache.add_record(store.INPUT_RECORD, found.key, sections.pack(_KIND, parts))
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


def programs_in(record: bytes) -> list[tuple[str, str]]:
    """The programs, with their digests, in an input record of whatever checkout; raises ValueError."""
    parts = sections.unpack(_KIND, record, input_records.SECTIONS + 1)
    return input_records.programs(parts[:-1])

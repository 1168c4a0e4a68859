"""Manifests: the input records of a command, so that the same command can be answered without running it.

A manifest belongs to everything known before the run (the front key) and lists one input record for each
distinct state of the files, newest first. It serves the whole call, each preprocessor pass, and the
host compile, which reads toolkit headers again. Part of the hot path.
"""

from __future__ import annotations

from nvccache.files import keys
from nvccache.records import differences, input_records
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvccache.records.base_dir import Relocation
    from nvccache.records.differences import Present
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

_MOST_INPUT_RECORDS = 8


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
    """All input records of a command, newest first."""
    for key in keys_of(front_key, cache):
        found = kept(key, cache, relocation)
        if found:
            yield found


def kept(key: str, cache: Store, relocation: Relocation) -> Found | None:
    """The input record of this key; one that cannot be understood is removed."""
    record = cache.find_record(store.INPUT_RECORD, key)
    if record is None:
        return None
    try:
        return Found(key, *input_records.decode(record, relocation))
    except (ValueError, IndexError):
        cache.remove_damaged(store.INPUT_RECORD, key)
        return None


def add(front_key: str, found: Found, cache: Store, relocation: Relocation, looked_at_ns: int) -> None:
    """Put an input record, observed from `looked_at_ns` on, at the front of a command's manifest."""
    input_records.forget_unsettled(found.input_record, looked_at_ns)
    record = input_records.encode(found.input_record, found.attached, relocation)
    cache.add_record(store.INPUT_RECORD, found.key, record)
    older = [key for key in keys_of(front_key, cache) if key != found.key]
    cache.add_record(store.MANIFEST, front_key, "".join([found.key, *older][:_MOST_INPUT_RECORDS]).encode())


def keys_of(front_key: str, cache: Store) -> list[str]:
    """The keys of a command's input records, newest first."""
    record = cache.find_record(store.MANIFEST, front_key)
    if record is None:
        return []
    if len(record) % keys.LENGTH or not record.isalnum():
        cache.remove_damaged(store.MANIFEST, front_key)
        return []
    text = record.decode("ascii")
    return [text[at : at + keys.LENGTH] for at in range(0, len(text), keys.LENGTH)]

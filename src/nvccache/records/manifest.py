"""Manifests: the input records of a command, so that the same command can be answered without running it.

A manifest belongs to everything known before the run (the front key) and lists one input record for each
distinct state of the files, newest first. It serves the whole call, each preprocessor pass, and the
host compile, which reads toolkit headers again. Part of the hot path.
"""

from __future__ import annotations

from nvccache.files import keys, signatures
from nvccache.records import differences, input_records
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nvccache.files.signatures import Signature
    from nvccache.records.base_dir import Relocation
    from nvccache.records.differences import Present
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

_MOST_INPUT_RECORDS = 8


class Found:
    """An input record that holds: its key, and what was recorded beside it."""

    __slots__ = ("attached", "input_record", "is_received", "key")

    key: str
    input_record: InputRecord
    attached: bytes
    is_received: bool  # from another cache, and not in this one

    def __init__(
        self, key: str, input_record: InputRecord, attached: bytes, is_received: bool = False
    ) -> None:
        self.key = key
        self.input_record = input_record
        self.attached = attached
        self.is_received = is_received


def find(
    front_key: str,
    cache: Store,
    relocation: Relocation,
    now: Present,
    ask: Callable[[str, str], str],
    asks_beyond: bool = False,
) -> Found | None:
    """The newest input record that holds for the files as they are now."""
    return next(holding(front_key, cache, relocation, now, ask, asks_beyond), None)


def holding(
    front_key: str,
    cache: Store,
    relocation: Relocation,
    now: Present,
    ask: Callable[[str, str], str],
    asks_beyond: bool = False,
) -> Iterator[Found]:
    """The input records that hold for the files as they are now, newest first: ours, then those of others."""
    for found in kept_input_records(front_key, cache, relocation):
        told = differences.differences(found.input_record, now, True, ask)
        if not told:
            yield found
        elif now.is_waste(told[0].path):
            cache.remove_damaged(store.INPUT_RECORD, found.key)  # somebody may have made it up
    if asks_beyond:
        for found in _received(front_key, cache, relocation):
            if not differences.differences(found.input_record, now, True, ask):
                yield found


def _received(front_key: str, cache: Store, relocation: Relocation) -> Iterator[Found]:
    """What other caches have under a key, and this one has not."""
    known = set(keys_of(front_key, cache))
    for key, record in cache.beyond.input_records(front_key) if cache.beyond else ():
        if key not in known:
            known.add(key)
            # Whoever makes a bundle names its records: one must not replace what is here, of another command.
            ours = cache.find_record(store.INPUT_RECORD, key)
            try:
                yield Found(key, *input_records.decode(ours or record, relocation), is_received=True)
            except (ValueError, IndexError):
                continue


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
    cache.add_record(store.INPUT_RECORD, found.key, record, is_received=found.is_received)
    older = [key for key in keys_of(front_key, cache) if key != found.key]
    newest = "".join([found.key, *older][:_MOST_INPUT_RECORDS]).encode()
    cache.add_record(store.MANIFEST, front_key, newest, is_received=found.is_received)


def add_said(
    front: tuple[str, str],
    made: InputRecord,
    said: bytes,
    cache: Store,
    relocation: Relocation,
    looked_at_ns: int,
    *,
    is_sent: bool = True,
) -> None:
    """Keep what a command said beside what it has read, as all that it gives; if not `is_sent`, only here.

    It may repeat arguments and variables, and is hidden from all who do not know them (keys.pair_of).
    """
    front_key, secret = front
    hidden = keys.hide(said, secret)
    key = input_records.key_of(keys.key_of("becomes", [("front", (front_key,)), ("as", (hidden,))]), made)
    add(front_key, Found(key, made, hidden, is_received=not is_sent), cache, relocation, looked_at_ns)


def append(front_key: str, further: list[str], cache: Store) -> bool:
    """Put input records behind those of a command, as far as there is room; whether there was."""
    here = keys_of(front_key, cache)
    listed = list(dict.fromkeys([*here, *further]))[:_MOST_INPUT_RECORDS]
    if listed == here:
        return False
    cache.add_record(store.MANIFEST, front_key, "".join(listed).encode(), is_received=True)
    return True


def adopt(front_key: str, found: Found, cache: Store, relocation: Relocation, now: Present) -> None:
    """Keep an input record that was received and holds, with the signatures that files have here."""
    take_signatures(found.input_record, now)
    add(front_key, found, cache, relocation, now.since_ns)


def take_signatures(held: InputRecord, now: Present) -> None:
    """Take the signatures as they are now, so that the next call is answered without digests."""
    held.signatures = _settled(now.signatures(held.files), now.since_ns)
    held.cache_signatures = _settled(now.signatures(held.caches), now.since_ns)
    held.directory_signatures = [
        input_records.signature_of_directory(directory, names, now.since_ns)
        for directory, names in zip(held.directories, held.names, strict=True)
    ]


def _settled(found: Iterable[Signature | None], since_ns: int) -> list[Signature]:
    return [one if one and signatures.is_settled(one, since_ns) else signatures.UNKNOWN for one in found]


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

"""Records: the observed inputs and the results of an action, so that it need not run again.

An action is a call or a stage. Its front key is made from everything that is known before it runs. The record
under a front key has up to eight entries, newest first, for different states of the files. An entry consists
of its key, the inputs that were observed (input_records.py), and the result:

    record-1 <key> <inputs> <result>  <key> <inputs> <result> ...

The format is the same in the cache directory and on remotes. Some fields are only valid on one machine: stat
signatures, the user who could read the files, and `Result.basis`. They are removed before a record is sent,
and ignored when one is received.

An action has several front keys, which differ in how widely a result is shared. The key of the most widely
shared result is tried first (call_key.py for calls, find_stage.py for stages). Direct hits load this module,
so it is part of the hot path.
"""

from __future__ import annotations

from nvccache.files import keys, signatures
from nvccache.records import input_records
from nvccache.store import sections, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nvccache.files.signatures import Signature
    from nvccache.records.facts import CurrentState
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

_KIND, _KIND_OF_PRIVATE = "record-1", "private-1"
_MOST_ENTRIES, _MOST_ENTRIES_REMOTE = 8, 16  # more on a remote, which many different checkouts use
_MOST_BYTES = 1 << 25  # in a record; the inputs of a TU with 1,600 headers take 300,000 bytes
_RESULT = sections.Schema(
    "result-2",
    ("outputs", sections.PAIRS),
    ("stdout", sections.BYTES),
    ("stderr", sections.BYTES),
    ("seconds", sections.NUMBER),
    ("cpu", sections.NUMBER),
    ("facts", sections.BYTES),
    ("text", sections.STRINGS),
    ("wrapper", sections.STRINGS),
    ("listed", sections.PAIRS),
    ("stages", sections.STRINGS),
    ("basis", sections.STRINGS),
)


class Result:
    __slots__ = _RESULT.names

    def __init__(
        self, outputs: Iterable[tuple[str, str]] = (), stdout: bytes = b"", stderr: bytes = b""
    ) -> None:
        self.outputs = list(outputs)  # (role, digest); call_key.py says what the roles of a call are
        self.stdout, self.stderr = stdout, stderr
        self.seconds = 0.0  # run time of the action's tools
        self.cpu = 0.0  # CPU time of the action's tools in seconds; 0 if unknown
        self.facts = b""  # for a pass: what is known about its text (passes.py)
        # For a stage: digests of the preprocessed texts that it read. Its key may ignore their line numbers.
        self.text: list[str] = []
        self.wrapper: list[str] = []  # for a stage: what a wrapper did (wrappers.py)
        # For a call: the files that its depfile lists, each with "1" if it is a system header.
        self.listed: list[tuple[str, str]] = []
        self.stages: list[str] = []  # for a call: its stages, as encoded in the event log
        self.basis: list[str] = []  # for a call: files of the cache that are kept as long as its record


class LookupKey:
    """A front key under which a result may be stored."""

    def __init__(self, key: str, scope: str = "") -> None:
        self.key = key
        self.scope = scope  # how widely results are shared: a constant of call_key.py or find_stage.py


class Entry:
    """The inputs and the result of an action, under one of its front keys."""

    def __init__(
        self,
        lookup_key: LookupKey,
        input_record: InputRecord,
        result: Result,
        key: str = "",
        is_received: bool = False,
    ) -> None:
        self.lookup_key = lookup_key
        self.input_record = input_record
        self.result = result
        self.key = key  # empty until it is stored
        self.is_received = is_received  # whether it came from a remote and is not in this cache yet

    @property
    def name(self) -> str:
        """The name by which `find_by_name` finds this entry again."""
        return f"{self.lookup_key.key}/{self.key}"


def find(
    lookup_key: LookupKey,
    cache: Store,
    now: CurrentState,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> Entry | None:
    """The newest entry whose inputs have not changed; None if there is none."""
    return next(valid_entries(lookup_key, cache, now, remote_records), None)


def valid_entries(
    lookup_key: LookupKey,
    cache: Store,
    now: CurrentState,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> Iterator[Entry]:
    """The entries whose inputs are unchanged, newest first: those in this cache, then those on remotes.

    `remote_records` returns the records that remotes have under a front key. If it is None, remotes are not
    queried.
    """
    keys_seen = set()
    for entry in _entries(_parts_here(lookup_key.key, cache), lookup_key, now):
        keys_seen.add(entry.key)
        if input_records.is_unchanged(entry.input_record, now):
            yield entry
    for received in remote_records(lookup_key.key) if remote_records else ():
        for entry in _entries(_parts(received), lookup_key):
            if entry.key in keys_seen:
                continue
            keys_seen.add(entry.key)
            entry.is_received = True
            if input_records.is_unchanged(entry.input_record, now):
                yield entry


def find_private(key: str, cache: Store, now: CurrentState) -> tuple[InputRecord, bytes] | None:
    """The inputs and the content that `add_private` has stored; None if an input has changed."""
    stored = cache.find_record(store.PRIVATE, key)
    if stored is None:
        return None
    try:
        read, content = sections.unpack(_KIND_OF_PRIVATE, stored)
        inputs = input_records.decode(read)
    except (ValueError, IndexError):
        cache.remove_damaged(store.PRIVATE, key)
        return None
    return (inputs, content) if input_records.is_unchanged(inputs, now) else None


def add_private(key: str, inputs: InputRecord, content: bytes, cache: Store, looked_at_ns: int) -> None:
    """Store content that a process wrote, with the inputs of that process.

    The content may contain secrets from a command line. So only this user can read it, and it is never sent
    to a remote. The inputs were observed after the time `looked_at_ns`, in nanoseconds.
    """
    input_records.forget_unsettled(inputs, looked_at_ns)
    read = input_records.encode(inputs)
    cache.add_record(store.PRIVATE, key, sections.pack(_KIND_OF_PRIVATE, [read, content]))


def find_by_name(name: str, cache: Store) -> Entry | None:
    """The entry with this name, or None if it no longer exists."""
    front_key, _, key = name.partition("/")
    parts = [part for part in _parts_here(front_key, cache) if part[0] == key]
    return next(_entries(parts, LookupKey(front_key)), None)


def add(entries: Sequence[Entry], cache: Store, looked_at_ns: int) -> None:
    """Store entries that share an input record, each as the newest under its front key.

    The inputs were observed after `looked_at_ns`.
    """
    input_records.forget_unsettled(entries[0].input_record, looked_at_ns)
    read = input_records.encode(entries[0].input_record)
    for entry in entries:
        front_key = entry.lookup_key.key
        entry.key = entry.key or input_records.key_of(front_key, read)
        encoded = (entry.key, read, _encoded(entry.result))
        others = [other for other in _parts_here(front_key, cache) if other[0] != entry.key]
        cache.add_record(store.RECORD, front_key, _joined([encoded, *others]), is_received=entry.is_received)


def adopt(entry: Entry, cache: Store, now: CurrentState) -> None:
    """Store a received entry that is valid here, with this machine's stat signatures."""
    take_signatures(entry.input_record, now)
    add([entry], cache, now.since_ns)


def take_signatures(inputs: InputRecord, now: CurrentState) -> None:
    """Update the stat signatures of valid inputs, so that the next call need not read the files."""
    inputs.signatures = _settled(now.signatures(inputs.files), now.since_ns)
    inputs.cache_signatures = _settled(now.signatures(inputs.caches), now.since_ns)
    signed = zip(inputs.directory_signatures, now.signatures(inputs.directories), strict=True)
    listed = zip(inputs.directories, inputs.names, signed, strict=True)
    inputs.directory_signatures = [
        old if old == new else input_records.signature_of_directory(path, names, now.since_ns)
        for path, names, (old, new) in listed
    ]


def _settled(signed: Iterable[Signature | None], since_ns: int) -> list[Signature]:
    return [one if one and signatures.is_settled(one, since_ns) else signatures.UNKNOWN for one in signed]


# Functions for sending and receiving records. All of them raise ValueError for bytes that are not a record.


def without_hints(record: bytes) -> bytes:
    """A record without the fields that are only valid on one machine."""
    portable = [
        (key, input_records.without_hints(read), _portable(result)) for key, read, result in _parts(record)
    ]
    return _joined(portable, _MOST_ENTRIES_REMOTE)


def merged(ours: bytes, theirs: bytes) -> bytes:
    """A record with the entries of `ours`, followed by those that only `theirs` has."""
    here = _parts(ours)
    keys_here = {part[0] for part in here}
    return _joined(
        [*here, *(part for part in _parts(theirs) if part[0] not in keys_here)], _MOST_ENTRIES_REMOTE
    )


def results_in(record: bytes) -> list[tuple[str, Result, list[tuple[str, str]]]]:
    """The key and the result of each entry, and (path, digest) of each program that ran."""
    return [(key, _decoded(result), input_records.programs_in(read)) for key, read, result in _parts(record)]


def _joined(parts: Iterable[tuple[str, bytes, bytes]], most: int = _MOST_ENTRIES) -> bytes:
    parts_packed: list[bytes] = []
    size = 0
    for key, read, result in list(parts)[:most]:
        size += len(read) + len(result)
        if size > _MOST_BYTES and parts_packed:
            break
        parts_packed += (key.encode(), read, result)
    return sections.pack(_KIND, parts_packed)


def _parts(record: bytes) -> list[tuple[str, bytes, bytes]]:
    """The key, the encoded inputs and the encoded result of each entry; raises ValueError."""
    packed = sections.unpack(_KIND, record)
    if len(packed) % 3 or len(packed) > 3 * _MOST_ENTRIES_REMOTE:
        raise ValueError("a record is incomplete, or has too many entries")
    parts = [
        (key.decode("ascii"), read, result) for key, read, result in zip(*[iter(packed)] * 3, strict=True)
    ]
    if not all(len(key) == keys.LENGTH and key.isalnum() for key, _, _ in parts):
        raise ValueError("the name of an entry is not a key")
    return parts


def _parts_here(front_key: str, cache: Store) -> list[tuple[str, bytes, bytes]]:
    record = cache.find_record(store.RECORD, front_key)
    if record is None:
        return []
    try:
        return _parts(record)
    except ValueError:
        cache.remove_damaged(store.RECORD, front_key)
        return []


def _entries(
    parts: Iterable[tuple[str, bytes, bytes]], lookup_key: LookupKey, now: CurrentState | None = None
) -> Iterator[Entry]:
    """The decoded entries. If `now` is given, those with files that it knows to have changed are left out."""
    for key, read, encoded_result in parts:
        try:
            if now and input_records.is_outdated(read, now):
                continue
            inputs, result = input_records.decode(read), _decoded(encoded_result)
        except (ValueError, IndexError):
            continue
        yield Entry(lookup_key, inputs, result, key)


def _encoded(result: Result) -> bytes:
    return _RESULT.encode({name: getattr(result, name) for name in _RESULT.names})


def _decoded(encoded: bytes) -> Result:
    """Raises ValueError."""
    result = Result()
    for name, value in _RESULT.decode(encoded).items():
        setattr(result, name, value)
    return result


def _portable(encoded: bytes) -> bytes:
    """Raises ValueError."""
    fields = _RESULT.sections_of(encoded)
    fields["basis"] = b""
    return _RESULT.joined(fields)

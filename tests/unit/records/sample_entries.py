"""Records of an action that has read a header, for tests of local and remote records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from answering import Answering
from nvccache.files import keys, signatures
from nvccache.records import input_records, record
from nvccache.records.input_records import ABSENT, SOURCE, InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.store import store
from nvccache.store.store import Store

FRONT = LookupKey(keys.digest_bytes(b"front"))
OTHER_FRONT = LookupKey(keys.digest_bytes(b"other"))
LATER = 10**12  # nanoseconds, after which signatures are believed


def read(*paths: Path | str, absent: Path | None = None) -> InputRecord:
    """The input record of an action that has just read these files, and found no `absent`."""
    made = InputRecord()
    made.files = [str(path) for path in paths]
    made.kinds = SOURCE * len(paths)
    made.digests = [keys.digest_file(str(path)) for path in paths]
    made.signatures = [signatures.signature_of(str(path)) or signatures.UNKNOWN for path in paths]
    if absent:
        made.directories, made.names = [str(absent.parent)], [[ABSENT + absent.name]]
        made.directory_signatures = [signatures.signature_of(str(absent.parent)) or signatures.UNKNOWN]
    return made


def add(
    cache: Store,
    made: InputRecord,
    result: Result | None = None,
    lookup_key: LookupKey = FRONT,
    later: int = 0,
) -> str:
    """Keep an entry; its key. With `later`, all that was read is settled."""
    entry = Entry(lookup_key, made, result or Result())
    record.add([entry], cache, time.time_ns() + later)
    return entry.key


def add_state(cache: Store, path: Path, text: str, result: Result | None = None) -> str:
    """Add an entry for an action that read a header with this text and looked up an absent name; its key."""
    path.write_text(text)
    return add(cache, read(path, absent=path.parent / "none.h"), result, later=LATER)


def valid_entries(
    cache: Store,
    lookup_key: LookupKey = FRONT,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> list[Entry]:
    return list(record.valid_entries(lookup_key, cache, Answering(answer="an answer"), remote_records))


def found_key(cache: Store, lookup_key: LookupKey = FRONT) -> str:
    """The key of the entry that is found, or empty."""
    entry = record.find(lookup_key, cache, Answering(answer="an answer"))
    return entry.key if entry else ""


def stored_keys(cache: Store, lookup_key: LookupKey = FRONT) -> list[str]:
    """The keys of all entries."""
    return [entry.key for entry in record._entries(record._parts_here(lookup_key.key, cache), lookup_key)]


def encoded(cache: Store, lookup_key: LookupKey = FRONT) -> bytes:
    """The record as stored in the cache."""
    body = cache.find_record(store.RECORD, lookup_key.key)
    assert body is not None
    return body


def keys_in(body: bytes) -> list[str]:
    return [key for key, _, _ in record.results_in(body)]


def inputs_in(body: bytes) -> list[InputRecord]:
    """The inputs of each entry of a record, from any source."""
    return [input_records.decode(part) for _, part, _ in record._parts(body)]


def is_there(cache: Store, lookup_key: LookupKey = FRONT) -> bool:
    return os.path.exists(cache.path(store.RECORD, lookup_key.key))

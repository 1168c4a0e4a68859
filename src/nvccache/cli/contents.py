"""Finds the entries of a cache that belong to some objects, for `nvccache clean --matching`.

The key of an entry is a digest, from which its inputs cannot be recovered. An object record has the command
line and the working directory of a compile, and only the user who compiled can read it; the record of that
call names the records and blobs that it needs. A record that no call needs belongs to no object.
"""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass, field

from nvccache.cli.output import OnProgress
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.records import record, replay_layout
from nvccache.store import layout, store
from nvccache.store.store import COMPRESSED, Store

_PRODUCTS = (".o", ".obj", ".ptx", ".cubin", ".fatbin", ".ltoir", ".optixir", "")


@dataclass
class Contents:
    """The records of a cache that could be read, by their keys."""

    blobs: dict[str, set[str]] = field(default_factory=dict)  # of a record: the blobs that it needs
    basis: dict[str, set[str]] = field(default_factory=dict)  # of a call: the entries that it needs
    replays: dict[str, set[str]] = field(default_factory=dict)  # the blobs that a replay needs
    objects: dict[str, ObjectRecord] = field(default_factory=dict)
    of_others: int = 0  # object records of other users, skipped


def of_objects(glob: str, cache: Store, on_progress: OnProgress) -> tuple[set[str], int]:
    """The files to remove so that every tool runs again for objects whose path or sources match.

    With the number of skipped object records, which are other users'. Raises store.StoreError and OSError.
    """
    found = read(cache, on_progress)
    objects = [key for key, known in found.objects.items() if _matches(glob, known, key)]
    calls = {_key_of_call(found.objects[key]) for key in objects} & found.blobs.keys()
    needed = {name for key in calls for name in found.basis[key]}
    stages = {key for key, blobs in found.blobs.items() if blobs and cache.name(store.RECORD, key) in needed}
    doomed = calls | stages
    blobs = set().union(*(found.blobs[key] for key in doomed))
    files = {cache.name(store.RECORD, key) for key in doomed}
    files |= {cache.name(store.OBJECT, key) for key in objects}
    files |= {cache.name(store.REPLAY, key) for key, needs in found.replays.items() if blobs & needs}
    blobs -= set().union(*(needs for key, needs in found.blobs.items() if key not in doomed))
    return files | blobs | {blob + COMPRESSED for blob in blobs}, found.of_others


def read(cache: Store, on_progress: OnProgress) -> Contents:
    """Read all records of the current version; raises store.StoreError and OSError."""
    found = Contents()
    names = [file.path for file in layout.entries(cache.directory)]
    for done, path in enumerate(names, 1):
        bucket, _, key = path.split("/")
        _read_one(bucket, key, cache, found)
        if done % 100 == 0 or done == len(names):
            on_progress(done, len(names))
    return found


def _read_one(bucket: str, key: str, cache: Store, found: Contents) -> None:
    if bucket == store.OBJECT:
        if not _is_own(cache, cache.name(bucket, key)):
            found.of_others += 1
        elif known := object_record.read(key, cache):
            found.objects[key] = known
        return
    encoded = cache.find_record(bucket, key) if bucket in (store.RECORD, store.REPLAY) else None
    if encoded is None:
        return
    try:
        if bucket == store.REPLAY:
            found.replays[key] = {
                cache.name(store.BLOB, digest) for digest in replay_layout.blobs_in(encoded)
            }
            return
        results = [result for _, result, _ in record.results_in(encoded)]
    except (ValueError, IndexError):
        return
    found.basis[key] = {name for result in results for name in result.basis}
    needed = {name.removesuffix(COMPRESSED) for name in found.basis[key] if name.startswith(store.BLOB)}
    outputs = {cache.name(store.BLOB, digest) for result in results for _, digest in result.outputs}
    found.blobs[key] = needed | outputs


def _is_own(cache: Store, path: str) -> bool:
    try:
        return cache.directory.status(path).st_uid == os.geteuid()
    except OSError:
        return False


def _key_of_call(known: ObjectRecord) -> str:
    return known.record_name.partition("/")[0]


def _matches(glob: str, known: ObjectRecord, key: str) -> bool:
    """Whether a path of a compile matches; a GLOB without a slash matches base names."""
    paths = paths_of(known, key)
    if "/" in glob:
        return any(fnmatch.fnmatchcase(path, os.path.abspath(glob)) for path in paths)
    return any(fnmatch.fnmatchcase(os.path.basename(path), glob) for path in paths)


def paths_of(known: ObjectRecord, key: str) -> list[str]:
    """The known absolute paths of an object and of its sources."""
    arguments, directory = known.shown("arguments"), known.directory
    inputs = [argument for argument in arguments if argument and not argument.startswith("-")]
    values = [
        argument.replace("=", " ", 1).partition(" ")[2] for argument in arguments if argument.startswith("-")
    ]
    stems = [os.path.basename(argument).rpartition(".")[0] for argument in inputs]
    products = [*values, "a.out", *(stem + suffix for stem in stems for suffix in _PRODUCTS)]
    paths = [os.path.normpath(os.path.join(directory, argument)) for argument in products if argument]
    made = [path for path in paths if key == object_record.key_of(path)]
    return [*made[:1], *(os.path.normpath(os.path.join(directory, argument)) for argument in inputs)]

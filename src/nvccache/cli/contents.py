"""Finds the entries of a cache by stage, object or toolchain, for `nvccache clean`.

The key of an entry is a digest, from which its inputs cannot be recovered. What is known:

- of a stage: its tool, from the roles of its outputs (`KINDS`), but not its architecture;
- of a recorded call: the programs that it ran, with their digests, and the records and blobs that it needs;
- of an object: the command line and working directory, from its object record, which only the user who
  compiled it can read.

A record that no call needs, since its call could not be recorded, belongs to no toolchain and no object.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from nvccache.cli.output import OnProgress
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import keys
from nvccache.plan import stages
from nvccache.records import base_dir, record, replay_layout
from nvccache.records.record import Result
from nvccache.store import layout, store
from nvccache.store.store import COMPRESSED, Store

PREPROCESS = "preprocess"  # of host and device code, whose records look the same
# Later tools come first: an earlier one may have the same outputs, such as ptxas a cubin, like nvlink.
_ROLES = [(role, tool.kind) for tool in reversed(stages.ALL) for role in tool.own_roles]
KINDS = (PREPROCESS, *(tool.kind for tool in stages.ALL if tool.own_roles))
_PRODUCTS = (".o", ".obj", ".ptx", ".cubin", ".fatbin", ".ltoir", ".optixir", "")


@dataclass
class Summary:
    """The contents of a record, all its pairs together."""

    kind: str  # of the stage; empty for other actions
    outputs: list[str]  # digests
    programs: list[list[tuple[str, str]]]  # for each pair: (path, digest) of the programs run
    basis: set[str]  # of a call: the entries that it needs


@dataclass
class Contents:
    """All records of a cache that could be read, by their keys."""

    records: dict[str, Summary] = field(default_factory=dict)
    replays: dict[str, list[str]] = field(default_factory=dict)  # digests of the outputs
    objects: dict[str, ObjectRecord] = field(default_factory=dict)
    of_others: int = 0  # object records of other users, skipped

    @property
    def calls(self) -> dict[str, Summary]:
        return {key: kept for key, kept in self.records.items() if kept.basis}


def read(cache: Store, on_progress: OnProgress) -> Contents:
    """Read all records of the current version; raises store.StoreError and OSError."""
    found = Contents()
    names = [path for path, _, _ in layout.entries(cache.directory)]
    for done, path in enumerate(names, 1):
        bucket, _, key = path.split("/")
        _read_one(bucket, key, cache, found)
        if done % 100 == 0 or done == len(names):
            on_progress(done, len(names))
    return found


def _read_one(bucket: str, key: str, cache: Store, found: Contents) -> None:
    if bucket == store.OBJECT:
        # Another user's record names a program and its arguments, which must not be run.
        if not _is_own(cache, cache.name(bucket, key)):
            found.of_others += 1
            return
        known = object_record.read(key, cache)
        if known:
            found.objects[key] = known
    elif bucket in (store.RECORD, store.REPLAY):
        encoded = cache.find_record(bucket, key)
        if encoded is None:
            return
        try:
            if bucket == store.REPLAY:
                found.replays[key] = replay_layout.blobs_in(encoded)
            else:
                found.records[key] = _summary_of(encoded)
        except (ValueError, IndexError):
            return


def _summary_of(encoded: bytes) -> Summary:
    """Raises ValueError."""
    pairs = record.results_in(encoded)
    results = [result for _, result, _ in pairs]
    return Summary(
        next(filter(None, map(kind_of, results)), ""),
        [digest for result in results for _, digest in result.outputs],
        [programs for _, _, programs in pairs],
        {name for result in results for name in result.basis},
    )


def _is_own(cache: Store, path: str) -> bool:
    try:
        return cache.directory.status(path).st_uid == os.geteuid()
    except OSError:
        return False


def kind_of(result: Result) -> str:
    """The kind of the stage that made a result; empty if its outputs do not show it."""
    roles = [role for role, _ in result.outputs]
    if "ii" in roles:
        return PREPROCESS
    return next((kind for role, kind in _ROLES if role in roles), "")


def of_stage(found: Contents, kind: str, cache: Store) -> set[str]:
    """The files to remove so that all stages of a kind run again, including those of dependent calls."""
    doomed = {key for key, kept in found.records.items() if kept.kind == kind}
    names = {cache.name(store.RECORD, key) for key in doomed}
    return _files_of(found, doomed | {key for key, kept in found.calls.items() if names & kept.basis}, cache)


def of_objects(found: Contents, glob: str, cache: Store) -> set[str]:
    """The files to remove so that every tool runs again for objects whose path or sources match."""
    objects = [key for key, known in found.objects.items() if _matches(glob, known, key)]
    calls = {_key_of_call(found.objects[key]) for key in objects} & found.records.keys()
    resting = {name for key in calls for name in found.records[key].basis}
    return _files_of(found, calls | _stages_in(resting, found, cache), cache) | {
        cache.name(store.OBJECT, key) for key in objects
    }


def of_unused_toolchains(found: Contents, cache: Store) -> tuple[set[str], list[str]]:
    """The files that only missing or replaced programs could use, and those programs."""
    directories: dict[str, set[str]] = {}  # by the call, if an object record knows it
    for known in found.objects.values():
        directories.setdefault(_key_of_call(known), set()).add(known.directory)
    placed = {
        key: [
            {(_places(path, directories.get(key, ())), digest) for path, digest in programs}
            for programs in kept.programs
        ]
        for key, kept in found.records.items()
    }
    gone = _gone({program for pairs in placed.values() for programs in pairs for program in programs})
    dead = {key for key, pairs in placed.items() if pairs and all(gone & programs for programs in pairs)}
    in_use = {name for key, kept in found.calls.items() if key not in dead for name in kept.basis}
    resting = {name for key in dead for name in found.records[key].basis} - in_use
    files = _files_of(found, dead | _stages_in(resting, found, cache), cache)
    return files, sorted({path for paths, _ in gone for path in paths})


def _stages_in(names: set[str], found: Contents, cache: Store) -> set[str]:
    """The records of stages among these files."""
    return {
        key for key, kept in found.records.items() if kept.kind and cache.name(store.RECORD, key) in names
    }


def _key_of_call(known: ObjectRecord) -> str:
    return known.record_name.partition("/")[0]


def _places(path: str, directories: Iterable[str]) -> tuple[str, ...]:
    """The possible paths of a program in a record: if it is relative, one in each existing checkout."""
    if path.startswith("/"):
        return (path,)
    there = sorted(
        filter(os.path.isdir, directories)
    )  # another checkout may have the program of one that is gone
    return tuple(base_dir.path_from(path, directory) for directory in there)


def _gone(programs: Iterable[tuple[tuple[str, ...], str]]) -> set[tuple[tuple[str, ...], str]]:
    """The programs that are missing or changed at all of their paths; an unreadable one counts as present."""
    digests = {path: _digest(path) for paths, _ in programs for path in paths}
    return {
        (paths, digest)
        for paths, digest in programs
        if paths and all(digests[path] not in (digest, None) for path in paths)
    }


def _digest(path: str) -> str | None:
    try:
        return keys.digest_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None


def _files_of(found: Contents, doomed: set[str], cache: Store) -> set[str]:
    """The files of records, and the blobs that no remaining record needs."""
    files = {cache.name(store.RECORD, key) for key in doomed}
    blobs = set().union(*(_blobs_of(found.records[key], cache) for key in doomed))
    for key, digests in found.replays.items():
        if digests and blobs.intersection(_blob(digest, cache) for digest in digests):
            files.add(cache.name(store.REPLAY, key))
    for key, kept in found.records.items():
        if key not in doomed:
            blobs -= _blobs_of(kept, cache)
    return files | blobs | {blob + COMPRESSED for blob in blobs}


def _blobs_of(kept: Summary, cache: Store) -> set[str]:
    """The blobs that a record holds or needs, without COMPRESSED."""
    needed = {name.removesuffix(COMPRESSED) for name in kept.basis if name.startswith(f"{store.BLOB}/")}
    return needed | {_blob(digest, cache) for digest in kept.outputs}


def _blob(digest: str, cache: Store) -> str:
    return cache.name(store.BLOB, digest)


def _matches(glob: str, record: ObjectRecord, key: str) -> bool:
    """Whether a path of a compile matches; a GLOB without a slash matches base names."""
    paths = paths_of(record, key)
    if "/" in glob:
        return any(fnmatch.fnmatchcase(path, os.path.abspath(glob)) for path in paths)
    return any(fnmatch.fnmatchcase(os.path.basename(path), glob) for path in paths)


def paths_of(record: ObjectRecord, key: str) -> list[str]:
    """The known absolute paths of an object and of its sources."""
    arguments = record.shown("arguments")
    directory = record.directory
    inputs = [argument for argument in arguments if argument and not argument.startswith("-")]
    values = [
        argument.replace("=", " ", 1).partition(" ")[2] for argument in arguments if argument.startswith("-")
    ]
    stems = [os.path.basename(argument).rpartition(".")[0] for argument in inputs]
    products = [*values, "a.out", *(stem + suffix for stem in stems for suffix in _PRODUCTS)]
    paths = [os.path.normpath(os.path.join(directory, argument)) for argument in products if argument]
    made = [path for path in paths if key in object_record.keys_of(path, record)]
    return [*made[:1], *(os.path.normpath(os.path.join(directory, argument)) for argument in inputs)]

"""What the entries of a cache say of themselves, for who wants to remove some of them (`nvccache clean`).

An entry is found by a digest of all that it depends on, which does not lead back to it. What can be told:

- of a stage, which tool made it, by the roles of its outputs (`KINDS`), but not for which architecture;
- of a call that is recorded, by its input record the programs that it ran, with their digests, and by its
  basis the entries and blobs that its answer rests on;
- of an object, by its object record, the words of the command line and the working directory. Only the user
  who compiled it can read that.

An entry that no call rests on, since its call could not be recorded, is no toolchain's and no object's.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nvccache.cli.output import Tell
from nvccache.compile import object_record
from nvccache.compile.object_record import ObjectRecord
from nvccache.files import keys
from nvccache.plan import stages
from nvccache.records import base_dir, input_records, replay_layout
from nvccache.store import entries, layout, store
from nvccache.store.entries import Entry
from nvccache.store.store import COMPRESSED, Store

PREPROCESS = "preprocess"  # of host and device code: their texts differ in nothing that is kept
# What a late stage makes an earlier one may make too: nvlink a cubin, as ptxas does.
_ROLES = [(role, tool.kind) for tool in reversed(stages.ALL) for role in tool.own_roles]
KINDS = (PREPROCESS, *(tool.kind for tool in stages.ALL if tool.own_roles))
_PRODUCTS = (".o", ".obj", ".ptx", ".cubin", ".fatbin", ".ltoir", ".optixir", "")


@dataclass
class Contents:
    """All records of a cache that could be read. A key is that of a record or of an entry."""

    kinds: dict[str, str] = field(default_factory=dict)  # of stage entries
    outputs: dict[str, list[str]] = field(default_factory=dict)  # of stage entries: digests
    programs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # of input records
    bases: dict[str, set[str]] = field(default_factory=dict)  # of calls: the files that they rest on
    replays: dict[str, list[str]] = field(default_factory=dict)  # digests of what is given
    objects: dict[str, ObjectRecord] = field(default_factory=dict)
    of_others: int = 0  # object records of other users, which are not looked at


def read(cache: Store, tell: Tell) -> Contents:
    """Read all records of the present version; raises store.StoreError and OSError."""
    found = Contents()
    names = [path for path, _, _ in layout.entries(cache.directory)]
    for done, path in enumerate(names, 1):
        bucket, _, key = path.split("/")
        _read_one(bucket, key, cache, found)
        if done % 100 == 0 or done == len(names):
            tell(done, len(names))
    return found


def _read_one(bucket: str, key: str, cache: Store, found: Contents) -> None:
    if bucket == store.STAGE:
        entry = entries.find(cache, key)
        if entry:
            found.kinds[key], found.outputs[key] = kind_of(entry), list(entry.outputs.values())
    elif bucket == store.OBJECT:
        # What somebody else has put there names a program and its arguments, and is not to be run.
        if not _is_own(cache, cache.name(bucket, key)):
            found.of_others += 1
            return
        record = object_record.read(key, cache)
        if record:
            found.objects[key] = record
    elif bucket in (store.INPUT_RECORD, store.BASIS, store.REPLAY):
        encoded = cache.find_record(bucket, key)
        if encoded is None:
            return
        try:
            if bucket == store.BASIS:
                found.bases[key] = set(encoded.decode("ascii").split("\n"))
            elif bucket == store.REPLAY:
                found.replays[key] = replay_layout.blobs_in(encoded)
            else:
                found.programs[key] = input_records.programs_in(encoded)
        except (ValueError, IndexError):
            return


def _is_own(cache: Store, path: str) -> bool:
    try:
        return cache.directory.status(path).st_uid == os.geteuid()
    except OSError:
        return False


def kind_of(entry: Entry) -> str:
    """The kind of the stage that made an entry; empty where it has no outputs to tell it by."""
    if entry.facts:
        return PREPROCESS
    return next((kind for role, kind in _ROLES if role in entry.outputs), "")


def of_stage(found: Contents, kind: str, cache: Store) -> set[str]:
    """The files to remove so that all stages of a kind run anew: entries, and what is answered by them."""
    doomed = {key for key, its_kind in found.kinds.items() if its_kind == kind}
    names = {cache.name(store.STAGE, key) for key in doomed}
    calls = {key for key, basis in found.bases.items() if names & basis}
    return _files_of(found, calls, doomed, cache)


def of_objects(found: Contents, glob: str, cache: Store) -> set[str]:
    """The files to remove so that objects whose path or sources match are compiled anew by every tool."""
    objects = [key for key, told in found.objects.items() if any(_matches(glob, told, key))]
    calls = {found.objects[key].record_key for key in objects} - {""}
    resting = {name for key in calls for name in found.bases.get(key, ())}
    doomed = {key for key in found.kinds if cache.name(store.STAGE, key) in resting}
    return _files_of(found, calls, doomed, cache) | {cache.name(store.OBJECT, key) for key in objects}


def of_unused_toolchains(found: Contents, cache: Store) -> tuple[set[str], list[str]]:
    """The files that only programs which are no longer there could use; and those programs."""
    directories: dict[str, set[str]] = {}  # by the call, as far as objects tell that
    for record in found.objects.values():
        directories.setdefault(record.record_key, set()).add("".join(shown_parts(record, "directory")))
    placed = {
        key: [(_places(path, directories.get(key, ())), digest) for path, digest in programs]
        for key, programs in found.programs.items()
    }
    gone = _gone({program for programs in placed.values() for program in programs})
    dead = {key for key, programs in placed.items() if gone.intersection(programs)}
    calls = dead & found.bases.keys()
    in_use = {name for key, basis in found.bases.items() if key not in calls for name in basis}
    resting = {name for key in calls for name in found.bases[key]} - in_use
    doomed = {key for key in found.kinds if cache.name(store.STAGE, key) in resting or key in dead}
    files = _files_of(found, calls, doomed, cache)
    files |= {cache.name(store.INPUT_RECORD, key) for key in dead}
    return files, sorted({path for paths, _ in gone for path in paths})


def _places(path: str, directories: Iterable[str]) -> tuple[str, ...]:
    """Where a program of a record may lie: below each checkout that is there, if it counts from one."""
    if path.startswith("/"):
        return (path,)
    there = sorted(filter(os.path.isdir, directories))  # of one that is gone others may have the program
    return tuple(base_dir.path_from(path, directory) for directory in there)


def _gone(programs: Iterable[tuple[tuple[str, ...], str]]) -> set[tuple[tuple[str, ...], str]]:
    """The programs that lie in none of their places, or are others now. One that may not be read is there."""
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


def _files_of(found: Contents, calls: set[str], doomed: set[str], cache: Store) -> set[str]:
    """The files of calls and of stage entries, and the blobs that nothing else that stays rests on."""
    files = {cache.name(bucket, key) for key in calls for bucket in (store.INPUT_RECORD, store.BASIS)}
    files |= {cache.name(bucket, key) for key in doomed for bucket in (store.STAGE, store.INPUT_RECORD)}
    blobs = {_blob(digest, cache) for key in doomed for digest in found.outputs[key]}
    head = f"{store.BLOB}/"
    of_calls = {name.removesuffix(COMPRESSED) for key in calls for name in found.bases.get(key, ())}
    blobs |= {name for name in of_calls if name.startswith(head)}
    for key, digests in found.replays.items():
        if digests and blobs.intersection(_blob(digest, cache) for digest in digests):
            files.add(cache.name(store.REPLAY, key))
    blobs -= {
        _blob(digest, cache)
        for key, digests in found.outputs.items()
        if key not in doomed
        for digest in digests
    }
    for key, basis in found.bases.items():
        if key not in calls:
            blobs -= {name.removesuffix(COMPRESSED) for name in basis}
    return files | blobs | {blob + COMPRESSED for blob in blobs}


def _blob(digest: str, cache: Store) -> str:
    return cache.name(store.BLOB, digest)


def _matches(glob: str, record: ObjectRecord, key: str) -> Iterator[bool]:
    """Whether the paths of a compile match: a GLOB without a slash is one for base names."""
    for path in paths_of(record, key):
        if "/" in glob:
            yield fnmatch.fnmatchcase(path, os.path.abspath(glob))
        else:
            yield fnmatch.fnmatchcase(os.path.basename(path), glob)


def paths_of(record: ObjectRecord, key: str) -> list[str]:
    """The absolute paths of an object and of what it was compiled from, as far as they can be told."""
    words = shown_parts(record, "arguments")
    directory = "".join(shown_parts(record, "directory"))
    inputs = [word for word in words if word and not word.startswith("-")]
    values = [word.replace("=", " ", 1).partition(" ")[2] for word in words if word.startswith("-")]
    stems = [os.path.basename(word).rpartition(".")[0] for word in inputs]
    products = [*values, "a.out", *(stem + suffix for stem in stems for suffix in _PRODUCTS)]
    paths = [os.path.normpath(os.path.join(directory, word)) for word in products if word]
    made = [path for path in paths if object_record.key_of(path) == key]
    return [*made[:1], *(os.path.normpath(os.path.join(directory, word)) for word in inputs)]


def shown_parts(record: ObjectRecord, tag: str) -> list[str]:
    """What may be shown of a component of a call's key; a large one is kept as a digest only."""
    return [part[0] for found, parts in record.components if found == tag for part in parts]

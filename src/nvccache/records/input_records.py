"""An input record: all inputs that a command was observed to use, and whether they are unchanged.

It contains the digests of the files that the command read. It contains the names that the command looked up
in directories, whether they existed or not, because a header that is created there might be found first. All
other inputs, such as the targets of symbolic links, environment variables and dates, are facts (facts.py).

Stat signatures only save time: while the signature of a file is the same, the file is not read again. Direct
hits load this module, so it is part of the hot path.
"""

from __future__ import annotations

import os

from nvccache.files import keys, presence, signatures
from nvccache.files.presence import ABSENT, EXECUTABLE, FOLDER, PRESENT, UNREACHABLE
from nvccache.files.signatures import UNKNOWN
from nvccache.records.facts import ENVIRONMENT_FACTS, FACTS, LIBRARIES, Difference
from nvccache.store import sections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from nvccache.files.signatures import Signature
    from nvccache.records.facts import CurrentState, Fact


def _encode_digests(digests: list[str]) -> bytes:
    return "".join(digests).encode()


def _decode_digests(section: bytes) -> list[str]:
    text = section.decode("ascii")
    return [text[at : at + keys.LENGTH] for at in range(0, len(text), keys.LENGTH)]


def _encode_signatures(both: tuple[list[Signature], list[Signature]]) -> bytes:
    return "\n".join(map(signatures.to_text, both)).encode()


def _decode_signatures(section: bytes) -> tuple[list[Signature], list[Signature]]:
    of_files, _, of_directories = section.decode("ascii").partition("\n")
    return signatures.from_text(of_files), signatures.from_text(of_directories)


def _encode_names(names: list[list[str]]) -> bytes:
    return sections.join(["/".join(of_directory) for of_directory in names])


def _decode_names(section: bytes) -> list[list[str]]:
    return [joined.split("/") if joined else [] for joined in sections.split(section)]


_FACTS = tuple(fact.name for fact in FACTS)
_RECORD = sections.Schema(
    "inputs-13",
    ("files", sections.STRINGS),
    ("kinds", sections.ASCII),
    ("digests", (_encode_digests, _decode_digests)),
    ("signatures", (_encode_signatures, _decode_signatures)),  # signatures of files, then of directories
    ("directories", sections.STRINGS),
    ("names", (_encode_names, _decode_names)),
    ("other", sections.STRINGS),  # `reader` and `search_path`
    *((fact.name, sections.STRINGS if fact.width == 1 else sections.tuples_of(fact.width)) for fact in FACTS),
)
_MOST_FILES = 10_000  # in an input record on a remote; a TU of CUTLASS or PyTorch reads up to 2,000 files
_LARGEST = 1 << 22  # bytes of an input record on a remote; one with 1,600 headers has 300,000 bytes
_PROCESS_PATHS = ("/proc/self/", "/proc/thread-self/")
_BEING_WRITTEN = 2 * 10**9  # nanoseconds; for this time after a change, a directory may change again
_STATES = frozenset((ABSENT, FOLDER, EXECUTABLE, PRESENT, UNREACHABLE))
SOURCE, PROGRAM, LIBRARY = "s", "p", "l"
CODE = "c"  # a source whose comments do not matter; its digest leaves them out (comments.py)


class UnreadableError(Exception):
    """The inputs cannot be recorded. The message is a clause that says why."""


class InputRecord:
    """The inputs of a command.

    Lists about files are parallel: elements with the same index describe the same file. So are lists about
    directories. For each kind of fact in facts.FACTS, there is also a list with the name of that kind.
    """

    __slots__ = (
        "cache_signatures",
        "digests",
        "directories",
        "directory_signatures",
        "files",
        "kinds",
        "names",
        "reader",
        "search_path",
        "signatures",
        *_FACTS,
    )

    def __init__(self) -> None:
        self.files: list[str] = []
        self.kinds = ""  # a letter for each file: SOURCE, CODE, PROGRAM, or LIBRARY if a program loads it
        self.digests: list[str] = []
        self.signatures: list[Signature] = []
        self.directories: list[str] = []
        # If the signature of a directory is UNKNOWN, each name that was looked up in it is checked.
        self.directory_signatures: list[Signature] = []
        self.names: list[list[str]] = []  # for each directory: names, each after a character for its state
        self.search_path = ""  # the value of PATH when programs were searched
        self.reader = presence.user_and_groups()  # the user and groups of the process that read the files
        self.cache_signatures: list[Signature] = []  # of `caches`; only replay records contain them
        for name in _FACTS:
            setattr(self, name, [])

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> list[Any]: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def caches(self) -> list[str]:
        """The paths of the loader's caches (ld.so.cache) that the command queried."""
        return [subject.partition(":")[0] for topic, subject, _ in self.machine if topic == LIBRARIES]

    @property
    def variable_names(self) -> list[str]:
        """The environment variables that the result depends on."""
        return [name for name, _ in self.variables] + (["PATH"] if self.sought else [])


def encode(input_record: InputRecord) -> bytes:
    """The bytes in which an input record is stored."""
    values = {
        "kinds": input_record.kinds,
        "digests": input_record.digests,
        "signatures": (input_record.signatures, input_record.directory_signatures),
        "names": input_record.names,
        "other": [input_record.reader, input_record.search_path],
    }
    values |= {name: getattr(input_record, name) for name in ("files", "directories", *_FACTS)}
    return _RECORD.encode(values)


def decode(record: bytes) -> InputRecord:
    """The inverse of `encode`; raises ValueError for a damaged record."""
    values = _RECORD.decode(record)
    input_record = InputRecord()
    input_record.kinds, input_record.digests = values["kinds"], values["digests"]
    input_record.signatures, input_record.directory_signatures = values["signatures"]
    input_record.names = values["names"]
    input_record.reader, input_record.search_path = values["other"]
    for name in ("files", "directories", *_FACTS):
        setattr(input_record, name, values[name])
    files = input_record.files
    if not len(files) == len(input_record.kinds) == len(input_record.digests) == len(input_record.signatures):
        raise ValueError("the numbers of files and digests differ")
    if not len(input_record.directories) == len(input_record.directory_signatures) == len(input_record.names):
        raise ValueError("the numbers of directories and lists of names differ")
    if not all(name[:1] in _STATES for names in input_record.names for name in names):
        raise ValueError("the state of a name is unknown")
    return input_record


def key_of(front_key: str, record: bytes) -> str:
    """The key of an entry, made from its front key and its inputs, without their signatures and reader."""
    fields = _RECORD.sections_of(record)
    fields |= {"signatures": b"", "other": _without_reader(fields["other"])}
    inputs = [(name, (content,)) for name, content in fields.items()]
    return keys.key_of("input record", [("front", (front_key,)), *inputs])


def without_hints(record: bytes) -> bytes:
    """An encoded input record without its signatures and reader, which are only valid on one machine.

    Raises ValueError if the record is damaged, or names so many files that checking them would take long.
    """
    fields = _RECORD.sections_of(record)  # not decoded, as that would take long for a large record
    files = len(fields["digests"]) // keys.LENGTH
    directories = fields["directories"].count(b"\0")
    if len(record) > _LARGEST or max(files, directories) > _MOST_FILES:
        raise ValueError("the record is too large")
    fields["signatures"] = _encode_signatures(([UNKNOWN] * files, [UNKNOWN] * directories))
    fields["other"] = _without_reader(fields["other"])  # so that permissions are checked again
    return _RECORD.joined(fields)


def _without_reader(other: bytes) -> bytes:
    _, search_path = sections.split(other)
    return sections.join(["", search_path])


def programs_in(record: bytes) -> list[tuple[str, str]]:
    """(path, digest) of each program that ran; raises ValueError for a damaged record."""
    values = _RECORD.decode(record)
    read = zip(values["files"], values["kinds"], values["digests"], strict=True)
    return [(path, digest) for path, kind, digest in read if kind == PROGRAM]


def forget_parents_of(directory: str, input_record: InputRecord) -> None:
    """Remove a directory and its parents from the names that were looked up.

    It is meant for the working directory, which exists in each call, but has another name in each checkout.
    """
    for index, above in enumerate(input_record.directories):
        below = directory.removeprefix(above.rstrip("/") + "/")
        if below != directory:
            own = FOLDER + below.partition("/")[0]
            input_record.names[index] = [name for name in input_record.names[index] if name != own]


def follows_directory(input_record: InputRecord) -> bool:
    """Whether the same command might read other files in another working directory.

    The command might do so if it found a file by a relative name, or if it found something by an absolute
    name in a place to which a relative name leads as well.
    """
    for directory, names in zip(input_record.directories, input_record.names, strict=True):
        if _is_relative(directory) and any(name[0] not in (ABSENT, FOLDER) for name in names):
            return True
    dated_or_listed = (path for path, _ in (*input_record.dates, *input_record.listings))
    if any(map(_is_relative, (*input_record.files, *dated_or_listed))):
        return True
    return names_any_in(relative_places(input_record), input_record)


def relative_places(input_record: InputRecord) -> set[str]:
    """The real paths of all directories, links and other names that the command found by relative paths."""
    folders = [".", *input_record.plain, *(path for path, _ in input_record.links)]
    folders += map(os.path.dirname, filter(_is_relative, input_record.files))
    for directory, names in zip(input_record.directories, input_record.names, strict=True):
        folders += [os.path.join(directory, name[1:]) for name in names if name[0] != ABSENT]
    return {os.path.realpath(path) for path in folders if _is_relative(path)}


def names_any_in(places: Iterable[str], input_record: InputRecord, searched: Iterable[str] = ()) -> bool:
    """Whether the command used an absolute path in one of these places; programs in `searched` do not count.

    Absolute paths occur even if all arguments are relative: gcc opens system headers by their real path if
    that is shorter (-fcanonical-system-headers).
    """
    within, excepted = tuple({f"{place}/" for place in places}), set(searched)
    names = zip(input_record.directories, input_record.names, strict=True)
    own = os.getcwd() + "/"  # the working directory's own path does not count, since shells look up $PWD
    looked_in = [
        directory
        for directory, looked_up in names
        if directory not in excepted
        and any(not own.startswith(f"{os.path.join(directory, name[1:])}/") for name in looked_up)
    ]
    files = zip(input_record.files, input_record.kinds, strict=True)
    read = [path for path, kind in files if kind != PROGRAM or os.path.dirname(path) not in excepted]
    read += [path for path, _ in input_record.dates]
    return any(f"{path}/".startswith(within) for path in (*read, *looked_in) if not _is_relative(path))


def _is_relative(path: str) -> bool:
    return not path.startswith("/") or path.startswith(_PROCESS_PATHS)


def forget_unsettled(input_record: InputRecord, looked_at_ns: int) -> None:
    """Replace signatures by UNKNOWN if they could stay the same when the file changes once more.

    They could if the file was changed just before `looked_at_ns`, a time before any file was read, since file
    dates have a limited resolution.
    """
    for listed in (input_record.signatures, input_record.directory_signatures, input_record.cache_signatures):
        for index, signature in enumerate(listed):
            if signature != UNKNOWN and not signatures.is_settled(signature, looked_at_ns):
                listed[index] = UNKNOWN


def signature_of_directory(
    directory: str, names: list[str], since_ns: int, is_link: Callable[[str], bool] = os.path.islink
) -> Signature:
    """The directory's signature if any change of these names changes it; UNKNOWN if each must be checked.

    The names must be checked if the directory changed just before `since_ns`, if its dates are unreliable, or
    if one of them is a file or a link: without a change of the directory, a file can become executable, and a
    link can lead to another target.
    """
    signature = signatures.signature_of(directory)
    if signature is None or max(signature[3:]) > since_ns - _BEING_WRITTEN:
        return UNKNOWN
    if not signatures.is_settled(signature, since_ns):
        return UNKNOWN
    beginning = "" if directory == "." else f"{directory.rstrip('/')}/"
    is_stable = all(name[0] in (ABSENT, FOLDER) and not is_link(beginning + name[1:]) for name in names)
    return signature if is_stable else UNKNOWN


def differences(input_record: InputRecord, now: CurrentState) -> Iterator[Difference]:
    """The changes since the recording. Each one is searched for only when the caller requests it."""
    yield from _changed_facts(ENVIRONMENT_FACTS, input_record, now)
    yield from _changed_directories(input_record, now)
    yield from _changed_files(input_record, now)
    yield from _unreadable_paths(input_record, now)
    yield from _changed_facts(FACTS[len(ENVIRONMENT_FACTS) :], input_record, now)


def is_outdated(record: bytes, now: CurrentState) -> bool:
    """Whether an encoded record has another digest for a file that this call has already read.

    For a source that is being edited, this rejects most entries in a tenth of the time that it takes to
    decode them. Raises ValueError for a damaged record.
    """
    if not now.read:
        return False
    fields = _RECORD.sections_of(record)
    files = sections.split(fields["files"])
    digests = _decode_digests(fields["digests"])
    read = zip(files, fields["kinds"].decode("ascii"), digests, strict=True)
    return any(
        (now.code_digests if kind == CODE else now.read).get(path, digest) != digest
        for path, kind, digest in read
    )


def is_unchanged(input_record: InputRecord, now: CurrentState) -> bool:
    return next(differences(input_record, now), None) is None


def _changed_facts(facts: Iterable[Fact], recorded: InputRecord, now: CurrentState) -> Iterator[Difference]:
    for fact in facts:
        rows = getattr(recorded, fact.name)
        if rows:
            yield from fact.check(rows, recorded, now)


def _changed_files(input_record: InputRecord, now: CurrentState) -> Iterator[Difference]:
    signed = now.signatures(input_record.files)
    of_files = (
        input_record.files, input_record.kinds, input_record.signatures, signed, input_record.digests
    )  # fmt: skip
    for path, kind, recorded, signature, digest in zip(*of_files, strict=True):
        if kind == SOURCE and signature == recorded:
            now.recorded[path, recorded] = digest
    if signed == input_record.signatures:
        return
    links = {path for path, _ in input_record.links}
    for path, kind, recorded, signature, digest in zip(*of_files, strict=True):
        if signature is None:
            yield Difference("gone", path)
        elif signature == recorded:
            continue
        elif _is_changed(path, kind, digest, input_record, now):
            yield Difference("changed", path)
        elif kind in (SOURCE, CODE) and path not in links and now.is_link(path):
            # The path is a link now, and gcc may name a header by the link's target.
            yield Difference("moved", path)


def _is_changed(path: str, kind: str, digest: str, input_record: InputRecord, now: CurrentState) -> bool:
    if kind == CODE:
        # `#pragma once` skips a file that is equal to another, so becoming equal to one counts as a change.
        whole = now.digest(path)
        is_like_another = input_record.digests.count(whole) > (whole == digest)
        return now.digest_of_code(path) != digest or is_like_another
    return now.digest(path) != digest or (kind == PROGRAM and not os.access(path, os.X_OK))


def _changed_directories(input_record: InputRecord, now: CurrentState) -> Iterator[Difference]:
    signed = now.signatures(input_record.directories)
    recorded = input_record.directory_signatures
    if signed == recorded:
        return
    for directory, was, is_now, names in zip(
        input_record.directories, recorded, signed, input_record.names, strict=True
    ):
        if is_now is None or is_now != was:
            yield from _changed_names(directory, names, now)


def _changed_names(directory: str, names: Iterable[str], now: CurrentState) -> Iterator[Difference]:
    for name in names:
        path = name[1:] if directory == "." else os.path.join(directory, name[1:])
        state = now.state(path)
        if state != name[0]:
            what = "appeared" if name[0] == ABSENT else "gone" if state == ABSENT else "changed"
            yield Difference(what, path.removeprefix("./"))


def _unreadable_paths(input_record: InputRecord, now: CurrentState) -> list[Difference]:
    """The paths that this process may not read. They are only checked if another user recorded them."""
    if input_record.reader == presence.user_and_groups():
        return []
    files = zip(input_record.files, input_record.kinds, strict=True)
    wanted = [
        *((path, os.X_OK if kind == PROGRAM else os.R_OK) for path, kind in files),
        *((path, os.X_OK) for path in input_record.directories),
        *((path, os.R_OK) for path, _ in input_record.listings),
    ]
    denied = (path for path, mode in wanted if not os.access(path, mode, effective_ids=True))
    return [Difference("unreadable", path) for path in denied]

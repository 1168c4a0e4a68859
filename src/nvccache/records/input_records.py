"""An input record: all inputs that a command was observed to use, and whether they are unchanged.

Part of the hot path. An input record contains the files read, with their digests, and everything else that
decided the result: names that existed in a directory, and names that did not, so that a new header there
would be found first; targets of symbolic links, and directories that were not links; listings of directories;
environment variables that were queried; dates that were queried or written into an output; and the machine
(facts.py).
A stat signature is only a hint: if it matches, the file is not read again.
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
    "inputs-12",
    ("files", sections.STRINGS),
    ("kinds", sections.ASCII),
    ("digests", (_encode_digests, _decode_digests)),
    ("signatures", (_encode_signatures, _decode_signatures)),  # of files, and of directories
    ("directories", sections.STRINGS),
    ("names", (_encode_names, _decode_names)),
    ("other", sections.STRINGS),  # its reader, and the value of PATH
    *((fact.name, sections.STRINGS if fact.width == 1 else sections.tuples_of(fact.width)) for fact in FACTS),
)
_MOST_FILES = 10_000  # of a record on a remote; a TU of CUTLASS or PyTorch has up to 2,000
_LARGEST = 1 << 22  # bytes of a record on a remote: 300,000 describe 1,600 headers
_PROCESS_PATHS = ("/proc/self/", "/proc/thread-self/")
_BEING_WRITTEN = 2 * 10**9  # nanoseconds for which a directory counts as being written to after a change
_STATES = frozenset((ABSENT, FOLDER, EXECUTABLE, PRESENT, UNREACHABLE))
SOURCE, PROGRAM, LIBRARY = "s", "p", "l"
CODE = "c"  # a source whose comments do not matter: its digest is that of comments.py


class UnreadableError(Exception):
    """The inputs cannot be recorded; the message is the reason, a clause."""


class InputRecord:
    """The inputs of a command; the lists about files are parallel, and so are those about directories.

    Besides the fields here, it has one list for each row of facts.FACTS, with the row's name.
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
        self.kinds = ""  # a letter for each file: SOURCE, CODE, PROGRAM or LIBRARY (of a program)
        self.digests: list[str] = []
        self.signatures: list[Signature] = []
        self.directories: list[str] = []
        # If UNKNOWN, the names in the directory are checked one by one.
        self.directory_signatures: list[Signature] = []
        self.names: list[list[str]] = []  # per directory; the first character of a name is its state
        self.search_path = ""  # the value of PATH when programs were searched
        self.reader = presence.user_and_groups()  # the user and groups that could read all this
        self.cache_signatures: list[Signature] = []  # of `caches`, for replay records only; not stored
        for name in _FACTS:
            setattr(self, name, [])

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> list[Any]: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def caches(self) -> list[str]:
        """The loader's caches (ld.so.cache) that were queried."""
        return [subject.partition(":")[0] for topic, subject, _ in self.machine if topic == LIBRARIES]

    @property
    def variable_names(self) -> list[str]:
        """The environment variables that the result depends on."""
        return [name for name, _ in self.variables] + (["PATH"] if self.sought else [])


def encode(input_record: InputRecord) -> bytes:
    """The stored form."""
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
    """The inverse of `encode`; raises ValueError."""
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
        raise ValueError("the files do not match their digests")
    if not len(input_record.directories) == len(input_record.directory_signatures) == len(input_record.names):
        raise ValueError("the directories do not match their names")
    if not all(name[:1] in _STATES for names in input_record.names for name in names):
        raise ValueError("the state of a name is unknown")
    return input_record


def key_of(front_key: str, record: bytes) -> str:
    """The key of an entry: from its front key and its encoded inputs, without the hints."""
    fields = _RECORD.sections_of(record)
    fields |= {"signatures": b"", "other": _without_reader(fields["other"])}
    inputs = [(name, (content,)) for name, content in fields.items()]
    return keys.key_of("input record", [("front", (front_key,)), *inputs])


def without_hints(record: bytes) -> bytes:
    """The record without its hints, which might match by accident on another machine.

    Raises ValueError, also if checking the record would take long: a few kilobytes can name many files.
    """
    fields = _RECORD.sections_of(record)  # not decoded, since records may be large
    files = len(fields["digests"]) // keys.LENGTH
    directories = fields["directories"].count(b"\0")
    if len(record) > _LARGEST or max(files, directories) > _MOST_FILES:
        raise ValueError("it names too many files")
    fields["signatures"] = _encode_signatures(([UNKNOWN] * files, [UNKNOWN] * directories))
    fields["other"] = _without_reader(fields["other"])  # permissions are checked again
    return _RECORD.joined(fields)


def _without_reader(other: bytes) -> bytes:
    _, search_path = sections.split(other)
    return sections.join(["", search_path])


def programs_in(record: bytes) -> list[tuple[str, str]]:
    """The programs that were run: (path, digest); raises ValueError."""
    values = _RECORD.decode(record)
    read = zip(values["files"], values["kinds"], values["digests"], strict=True)
    return [(path, digest) for path, kind, digest in read if kind == PROGRAM]


def forget_parents_of(directory: str, input_record: InputRecord) -> None:
    """Drop the name of a directory and of its parents from the names that were looked up.

    The directory exists whenever the record is checked, but has another name in another checkout.
    """
    for index, above in enumerate(input_record.directories):
        below = directory.removeprefix(above.rstrip("/") + "/")
        if below != directory:
            own = FOLDER + below.partition("/")[0]
            input_record.names[index] = [name for name in input_record.names[index] if name != own]


def follows_directory(input_record: InputRecord) -> bool:
    """Whether the same command might read other files in another working directory.

    It might if a relative name led to a file, or if a file was read in a directory with a relative name.
    Otherwise, the only relative names were those of directories in which nothing was found.
    """
    for directory, names in zip(input_record.directories, input_record.names, strict=True):
        if _is_relative(directory) and any(name[0] not in (ABSENT, FOLDER) for name in names):
            return True
    dated_or_listed = (path for path, _ in (*input_record.dates, *input_record.listings))
    if any(map(_is_relative, (*input_record.files, *dated_or_listed))):
        return True
    return names_any_in(relative_places(input_record), input_record)


def relative_places(input_record: InputRecord) -> set[str]:
    """The real paths of all directories to which relative names led, and of files that are links."""
    folders = [
        ".",
        *input_record.plain,
        *(path for path, _ in input_record.links),
        *map(os.path.dirname, filter(_is_relative, input_record.files)),
    ]
    for directory, names in zip(input_record.directories, input_record.names, strict=True):
        folders += [os.path.join(directory, name[1:]) for name in names if name[0] != ABSENT]
    return {os.path.realpath(path) for path in folders if _is_relative(path)}


def names_any_in(places: Iterable[str], input_record: InputRecord, searched: Iterable[str] = ()) -> bool:
    """Whether an absolute name leads into one of these places, except for programs in those `searched`.

    gcc opens system headers by their real path if that is shorter (-fcanonical-system-headers).
    """
    within, excepted = tuple({f"{place}/" for place in places}), set(searched)
    names = zip(input_record.directories, input_record.names, strict=True)
    own = os.getcwd() + "/"  # shells look at it by $PWD; it has another name elsewhere
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
    """Drop signatures that are too recent to show a change made right after they were taken.

    `looked_at_ns` is a time before any of the files was read.
    """
    for listed in (input_record.signatures, input_record.directory_signatures, input_record.cache_signatures):
        for index, signature in enumerate(listed):
            if not signatures.is_settled(signature, looked_at_ns):
                listed[index] = UNKNOWN


def signature_of_directory(
    directory: str, names: list[str], since_ns: int, is_link: Callable[[str], bool] = os.path.islink
) -> Signature:
    """The signature that shows a change of any name in a directory; UNKNOWN if each name must be checked.

    Each must be if the directory is being written to or its dates are unreliable, or if a name can change
    without changing the directory: the target of a link, or whether a file is executable.
    """
    signature = signatures.signature_of(directory)
    if signature is None or max(signature[3:]) > since_ns - _BEING_WRITTEN:
        return UNKNOWN
    if not signatures.is_settled(signature, since_ns):
        return UNKNOWN
    for name in names:
        if name[0] not in (ABSENT, FOLDER) or is_link(os.path.join(directory, name[1:])):
            return UNKNOWN
    return signature


def differences(input_record: InputRecord, now: CurrentState) -> Iterator[Difference]:
    """What has changed since the recording, found one by one."""
    yield from _changed_facts(ENVIRONMENT_FACTS, input_record, now)
    yield from _changed_directories(input_record, now)
    yield from _changed_files(input_record, now)
    yield from _unreadable_paths(input_record, now)
    yield from _changed_facts(FACTS[len(ENVIRONMENT_FACTS) :], input_record, now)


def is_outdated(record: bytes, now: CurrentState) -> bool:
    """Whether a file that had to be read in this call has another digest in an encoded record.

    This rejects most entries of a source that is being edited, in a tenth of the time of decoding one. Raises
    ValueError.
    """
    if not now.read:
        return False
    fields = _RECORD.sections_of(record)
    files = sections.split(fields["files"])
    digests = _decode_digests(fields["digests"])
    read = zip(files, fields["kinds"].decode("ascii"), digests, strict=True)
    return any(now.read.get(path, digest) != digest for path, kind, digest in read if kind != CODE)


def is_unchanged(input_record: InputRecord, now: CurrentState) -> bool:
    return next(differences(input_record, now), None) is None


def _changed_facts(facts: Iterable[Fact], recorded: InputRecord, now: CurrentState) -> Iterator[Difference]:
    for fact in facts:
        rows = getattr(recorded, fact.name)
        if rows:
            yield from fact.check(rows, recorded, now)


def _changed_files(input_record: InputRecord, now: CurrentState) -> Iterator[Difference]:
    signed = now.signatures(input_record.files)
    if signed == input_record.signatures:
        return
    links = {path for path, _ in input_record.links}
    of_files = (
        input_record.files, input_record.kinds, input_record.signatures, signed, input_record.digests
    )  # fmt: skip
    for path, kind, recorded, signature, digest in zip(*of_files, strict=True):
        if signature is None:
            yield Difference("gone", path)
        elif signature == recorded:
            if kind != CODE:
                now.learn(path, digest)
        elif _is_changed(path, kind, digest, input_record, now):
            yield Difference("changed", path)
        elif kind in (SOURCE, CODE) and path not in links and now.is_link(path):
            yield Difference("moved", path)  # gcc names system headers by the targets of links


def _is_changed(path: str, kind: str, digest: str, input_record: InputRecord, now: CurrentState) -> bool:
    if kind == CODE:  # `#pragma once` treats equal files as one; without comments, their digests are the same
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
    """The paths that another user may not read, which signatures do not show."""
    if input_record.reader == presence.user_and_groups():
        return []
    wanted = [
        *(
            (path, os.X_OK if kind == PROGRAM else os.R_OK)
            for path, kind in zip(input_record.files, input_record.kinds, strict=True)
        ),
        *((path, os.X_OK) for path in input_record.directories),
        *((path, os.R_OK) for path, _ in input_record.listings),
    ]
    return [
        Difference("unreadable", path)
        for path, mode in wanted
        if not os.access(path, mode, effective_ids=True)
    ]

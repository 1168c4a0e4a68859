"""What stages read and looked up: files, names in directories, targets of links, and programs on PATH.

All of it is compared with what exists now, each thing only once for a call. If a file has changed, appeared
or disappeared meanwhile, there is no input record.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from nvccache.files import keys, presence, signatures, untrusted
from nvccache.files.presence import ABSENT, EXECUTABLE, FOLDER, PRESENT, UNREACHABLE
from nvccache.files.signatures import Signature
from nvccache.observation.observed_process import Process
from nvccache.records import input_records
from nvccache.records.input_records import SOURCE, InputRecord, UnreadableError
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

CLOCK_TICK = 20_000_000  # nanoseconds; the kernel's clock for dates of files may be 10 ms late
_APPEARED = "files appeared or disappeared during the compile"
CHANGED_MEANWHILE = "files changed during the compile"
# `#pragma GCC dependency` compares dates of files. A macro may stand for its last word.
_WORD = b"dependency"
_COMPARES_DATES = re.compile(rb"(?:\bGCC\s+|#[ \t]*define\b.*\b)dependency\b")


class UnchangedFiles:
    """The files of one call, which began at `since_ns`; each is read only once.

    `digests` are those that records tell, by path and signature.
    """

    def __init__(self, cache: Store, since_ns: int, digests: dict[tuple[str, Signature], str]) -> None:
        self._cache = cache
        self._since_ns = since_ns
        self._signatures: dict[str, Signature] = {}
        self._digests = digests

    def signature(self, path: str) -> Signature:
        """The signature of a file that has not changed since the call began; raises UnreadableError."""
        if path not in self._signatures:
            try:
                signature = signatures.of_status(os.stat(path))
            except (OSError, ValueError):
                raise UnreadableError(CHANGED_MEANWHILE) from None
            if signatures.last_change(signature, time.time_ns()) > self._since_ns - CLOCK_TICK:
                raise UnreadableError(CHANGED_MEANWHILE)
            self._signatures[path] = signature
        return self._signatures[path]

    def put_into(self, record: InputRecord, kinds: Mapping[str, str]) -> None:
        """Set an input record's files, with digests and signatures; raises UnreadableError or OSError."""
        record.files = sorted(kinds)
        record.kinds = "".join(kinds[path] for path in record.files)
        record.signatures = [self.signature(path) for path in record.files]
        record.digests = list(map(self._digest, record.files, record.kinds, record.signatures))

    def learn(self, path: str, digest: str) -> None:
        """Note the known digest of a file; raises UnreadableError if the file has changed."""
        self._digests[path, self.signature(path)] = digest

    def _digest(self, path: str, kind: str, signature: Signature) -> str:
        """The digest of a file with this signature; raises UnreadableError or OSError."""
        digest = self._digests.get((path, signature))
        if not digest:
            is_source = kind == SOURCE
            digest = _read(path, signature) if is_source else toolchain.digest_of_program(path, self._cache)
            self._digests[path, signature] = digest
        return digest


def _read(path: str, signature: Signature) -> str:
    descriptor = os.open(path, untrusted.FILE & ~os.O_NOFOLLOW)
    try:
        content = untrusted.read_whole(descriptor)
        if signatures.of_status(os.fstat(descriptor)) != signature:
            raise UnreadableError(CHANGED_MEANWHILE)
    finally:
        os.close(descriptor)
    if _compares_dates(content):
        raise UnreadableError(f"`{path}` may compare the dates of files")
    return keys.digest_bytes(content)


def _compares_dates(content: bytes) -> bool:
    """Whether a source may contain `#pragma GCC dependency`."""
    words = re.finditer(_WORD, content)  # much faster than applying the expression to the whole text
    spans = ((content.rfind(b"\n", 0, word.start()) + 1, word.end() + 1) for word in words)
    return any(_COMPARES_DATES.search(content, begin, end) for begin, end in spans)


class CallNames:
    """Checks names and directories for one call, each only once; the call began at `since_ns`."""

    def __init__(self, since_ns: int) -> None:
        self.since_ns = since_ns
        self._states: dict[str, str] = {}
        self._missing: dict[str, tuple[str, str]] = {}  # directory -> result of _missing_part_of
        self._links: dict[str, bool] = {}
        self._names: dict[str, tuple[str, str, str]] = {}
        self._real: dict[str, str] = {}  # directory -> its path without links

    def begin(self, files: Iterable[str]) -> StageNames:
        """Start a collection of the names that one stage looked up, apart from the `files` that it read."""
        return StageNames(self, frozenset(files))

    def state(self, path: str) -> str:
        if path not in self._states:
            self._states[path], self._links[path] = presence.state_and_link(path)
        return self._states[path]

    def place_of(self, path: str) -> tuple[str, str]:
        """The last existing directory on a path, and the name in it that decides whether the path exists."""
        directory, name = _split(path)
        missing = self._missing.get(directory)
        if missing is None:
            missing = self._missing[directory] = self._missing_part_of(directory)
        return missing if missing[1] else (directory or ".", name)

    def _missing_part_of(self, directory: str) -> tuple[str, str]:
        """The result of `place_of` for a missing directory; empty strings if the directory exists.

        Begins at the root, because in most directories of a search path, already the first part of a header's
        name, such as `thrust`, is missing.
        """
        if not directory.strip("/"):
            return "", ""
        place = self.place_of(directory)
        is_there = not self._missing[os.path.dirname(directory)][1] and os.path.isdir(directory)
        return ("", "") if is_there else place

    def name_of(self, path: str) -> tuple[str, str, str]:
        """The state of a path, the directory from `place_of`, and the entry to record for that directory.

        The entry consists of a character for the state of the name from `place_of`, and the name. Memoized,
        since the stages of a call look up the same thousands of names.
        """
        if path not in self._names:
            directory, name = self.place_of(path)
            whole = name if directory == "." else f"{directory.rstrip('/')}/{name}"
            deciding = self.state(whole)
            # Below a directory that is absent, everything is absent.
            state = deciding if whole == path or deciding == ABSENT else self.state(path)
            self._names[path] = state, directory, name and deciding + name
        return self._names[path]

    def is_link(self, path: str) -> bool:
        if path not in self._links:
            self._links[path] = os.path.islink(path)
        return self._links[path]

    def links_along(self, path: str) -> set[str]:
        """All links on the way to the file that a path leads to."""
        found: set[str] = set()
        rest = [path]
        while rest:
            path = rest.pop()
            while path not in ("", "/") and path not in found:
                if self.is_link(path):
                    found.add(path)
                    rest.append(os.path.join(os.path.dirname(path), os.readlink(path)))
                path = os.path.dirname(path)
        return found

    def drop_aliases(
        self,
        record: InputRecord,
        kinds: dict[str, str],
        names: dict[str, set[str]],
        signature: Callable[[str], Signature],
    ) -> None:
        """Leave one name of each source that has several, such as `a/../x.h` and `b/../x.h`.

        They lead to one file as long as `a` and `b` are directories and not links, which becomes an input.
        """
        first: dict[tuple[str, Signature], str] = {}
        for path in sorted(kinds, reverse=True):  # names without `.` first
            left = _left_by(path)
            if kinds[path] == SOURCE and not any(map(self.is_link, left)):
                other = first.setdefault((os.path.normpath(path), signature(path)), path)
                if other != path:
                    del kinds[path]
                    for directory in (*left, *_left_by(other)):
                        record.plain.append(directory)
                        names.setdefault(directory, set()).add(FOLDER + "..")

    def add_names(self, record: InputRecord, names: Mapping[str, set[str]], plain: set[str]) -> None:
        """Add to a record the names looked up in each directory, and the `plain` paths, which are not links.

        Before each name is a character for its state. The files of the input record must be set already.
        """
        self._drop_implied(record, names, plain)
        record.plain = sorted(plain)
        for directory in sorted(names):
            if not names[directory]:
                continue
            record.directories.append(directory)
            record.names.append(sorted(names[directory]))
            record.directory_signatures.append(
                input_records.signature_of_directory(directory, record.names[-1], self.since_ns, self.is_link)
            )

    def _drop_implied(self, record: InputRecord, names: Mapping[str, set[str]], plain: set[str]) -> None:
        """Leave out the names of files that were read, even if they were looked up by another path.

        This saves a hit about a thousand lookups.
        gcc looks up a system header by its path on the search path, but reads it by its path without links.
        The record of the directories shows that the first path leads to the second. The signature of the file
        shows that it exists and is not a link.
        """
        read = {path for path, kind in zip(record.files, record.kinds, strict=True) if kind == SOURCE}
        real = {self._without_links(path) for path in read}
        for path in [path for path in plain if path in read or self._without_links(path) in real]:
            directory, name = _split(path)
            listed = names.get(directory or ".", set())
            if path in read or PRESENT + name in listed:
                plain.discard(path)
                listed.discard(PRESENT + name)
        for path in read:
            directory, name = _split(path)
            names.get(directory or ".", set()).discard(PRESENT + name)

    def _without_links(self, path: str) -> str:
        """A path with the links in its directory resolved."""
        directory, name = _split(path)
        return f"{self._real_of(directory)}/{name}"

    def _real_of(self, directory: str) -> str:
        """A directory's path without links; memoized, as are the directories above it."""
        if directory not in self._real:
            above, name = _split(directory)
            is_plain = above and name not in ("", ".", "..") and not self.is_link(directory)
            self._real[directory] = (
                os.path.join(self._real_of(above), name) if is_plain else os.path.realpath(directory)
            )
        return self._real[directory]


class StageNames:
    """Collects what one stage's processes looked up; raises UnreadableError if that has changed meanwhile."""

    def __init__(self, call: CallNames, files: Collection[str]) -> None:
        self._call = call
        self._files = files
        self._names: dict[str, set[str]] = {}
        self._links: set[str] = set()
        self._plain: set[str] = set()
        self._followed: set[str] = set()
        self._tried: set[str] = set()  # every path that was looked up, found or not
        self._sought: set[str] = set()

    def take(self, process: Process, relevant: Callable[[Iterable[str]], Iterable[str]]) -> None:
        """Add the lookups of one process, as far as their paths are relevant."""
        self.add_absent(relevant(process.absent))
        for modes in (process.found, process.others):
            for path in relevant(modes):
                mode = modes[path]
                is_dangling = not mode and self._call.is_link(path) and self._call.state(path) == ABSENT
                self._add(path, (ABSENT,) if is_dangling else _states_of(mode))
                if stat.S_ISDIR(mode):  # gcc skips a directory that it has searched under another name
                    self.follow(path)
        self._add_all(relevant(process.denied), (PRESENT, FOLDER, UNREACHABLE))
        self._tried.update(process.started)  # dash executes programs without looking them up first
        for path in relevant([*process.links, *process.started]):
            self.follow(path)

    def add_absent(self, paths: Iterable[str]) -> None:
        self._add_all(paths, (ABSENT,))

    def add_tool(self, argv0: str, search_path: str) -> None:
        if "/" in argv0:
            self.follow(argv0)
        else:
            self.add_search(argv0, search_path)

    def add_search(self, program: str, search_path: str) -> None:
        """Add the search for a program on PATH."""
        self._sought.add(program)
        for directory in search_path.split(":"):
            path = os.path.join(directory or ".", program)
            state = self._call.state(path)
            if state == EXECUTABLE:
                self.follow(path)
                break
            self._add(path, (state,))

    def follow(self, path: str) -> None:
        """Record whether a path, and each directory above it, is a link."""
        path = path.rstrip("/") or "/"
        if path in self._followed:
            return
        self._followed.add(path)
        if path not in self._files:
            state = self._call.state(path)
            self._add(path, (state,))
            if state == ABSENT and not self._call.is_link(path):
                self._plain.add(path)  # so that a dangling link, which also counts as absent, is a change
                return
        if self._call.is_link(path):
            self._links.add(path)
        elif path not in self._files:
            self._plain.add(path)
        directory = os.path.dirname(path)
        while directory not in ("", "/") and directory not in self._plain and directory not in self._links:
            if os.path.basename(directory) not in ("..", "."):
                (self._links if self._call.is_link(directory) else self._plain).add(directory)
            directory = os.path.dirname(directory)

    def put_into(self, record: InputRecord, search_path: str) -> None:
        """Add all lookups to an input record whose files are set already."""
        on_path = tuple({f"{(directory or '.').rstrip('/')}/" for directory in search_path.split(":")})
        for path in [path for path in self._tried if path.startswith(on_path)]:
            directory, name = _split(path)
            if f"{directory.rstrip('/')}/" in on_path:
                self._sought.add(name)
        record.sought = sorted(self._sought)
        record.search_path = search_path if self._sought else ""
        self._call.add_names(record, self._names, self._plain)
        sources = [path for path, kind in zip(record.files, record.kinds, strict=True) if kind == SOURCE]
        self._links.update(filter(self._call.is_link, sources))
        record.links = sorted((path, os.path.realpath(path)) for path in self._links)
        # Any link in a chain may have changed since the stage followed it.
        for path in set[str]().union(*map(self._call.links_along, self._links)):
            signature = signatures.of_status(os.lstat(path))
            if signatures.last_change(signature, 0) > self._call.since_ns - CLOCK_TICK:
                raise UnreadableError(_APPEARED)

    def _add(self, path: str, expected: Collection[str]) -> None:
        self._add_all((path,), expected)

    def _add_all(self, paths: Iterable[str], expected: Collection[str]) -> None:
        for looked_up in paths:
            path = looked_up if looked_up[-1:] != "/" else looked_up.rstrip("/") or "/"
            self._tried.add(path)
            if path in self._files:
                continue
            state, directory, name = self._call.name_of(path)
            if state not in expected:
                raise UnreadableError(_APPEARED)
            if name:
                self._names.setdefault(directory, set()).add(name)


def _states_of(mode: int) -> tuple[str, ...]:
    if stat.S_ISDIR(mode):
        return (FOLDER,)
    return (EXECUTABLE, PRESENT) if mode else (FOLDER, EXECUTABLE, PRESENT)


def _split(path: str) -> tuple[str, str]:
    """The directory and the name in a path; like os.path.split, which takes three times as long."""
    directory, slash, name = path.rpartition("/")
    return directory.rstrip("/") or slash, name


def _left_by(path: str) -> list[str]:
    """The directory before each `..` of a path."""
    parts = path.split("/")
    return [os.path.normpath("/".join(parts[:at])) for at, part in enumerate(parts) if part == ".."]

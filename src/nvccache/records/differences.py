"""Whether all that a command read is still as it was, and what is not. Part of the hot path.

A signature is only a hint: where it still holds, nothing is read again.
"""

from __future__ import annotations

import errno
import os
import time

from nvccache import environment
from nvccache.files import keys, signatures
from nvccache.files.presence import (
    ABSENT,
    ATTRIBUTES,
    STATUS_OF_LINK,
    WHOLE_STATUS,
    date_and_size,
    digest_of_listing,
    identities,
    likenesses,
    reader,
    state_of,
    status_of,
)
from nvccache.records.input_records import PROGRAM, SOURCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nvccache.files.signatures import Signature
    from nvccache.records.input_records import InputRecord

_LARGE = 1 << 28  # bytes, read in a tenth of a second
_OF_PROCESSOR = ("native", "features")


class Difference:
    """One thing that is not as it was recorded: what became of which path."""

    __slots__ = ("path", "what")

    # changed, gone, appeared, redated, moved, identity, relisted, unreadable, variable, processor; or a topic
    # of machine_facts.py
    what: str
    path: str

    def __init__(self, what: str, path: str) -> None:
        self.what = what
        self.path = path


class Present:
    """What the files and the environment are now, each file looked at once for all input records."""

    __slots__ = ("_digests", "_known", "_unfit", "environ", "since_ns")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.since_ns = time.time_ns()  # no later than the first look at any of them
        self._known: dict[str, Signature | None] = {}
        self._digests: dict[str, str] = {}
        self._unfit: set[str] = set()

    def in_environment(self, environ: Mapping[str, str]) -> Present:
        """The same files, for a program with another environment."""
        other = Present(environ)
        other._known, other._digests, other._unfit = self._known, self._digests, self._unfit
        other.since_ns = self.since_ns
        return other

    def signature(self, path: str) -> Signature | None:
        if path not in self._known:
            self._known[path] = signatures.of(path)
        return self._known[path]

    def signatures(self, paths: list[str]) -> list[Signature | None]:
        known = self._known
        if not known:
            found = signatures.all_of(paths)
            if found is not None:
                known.update(zip(paths, found, strict=True))
                return list(found)
        return [known[path] if path in known else self.signature(path) for path in paths]

    def learn(self, path: str, digest: str) -> None:
        """Take a digest that is known to belong to the file as it is now."""
        self._digests[path] = digest

    def digest(self, path: str) -> str:
        """The digest of the file as it is now, empty if it cannot be read or is no regular file."""
        if path not in self._digests:
            try:
                self._digests[path] = keys.digest_file(path)
            except (OSError, ValueError) as error:
                self._digests[path] = ""
                if isinstance(error, OSError) and error.errno == errno.EINVAL:
                    self._unfit.add(path)
        return self._digests[path]

    def is_waste(self, path: str) -> bool:
        """Whether no compile has read this file, or reading it takes so long that it is not done twice."""
        signature = self._known.get(path)
        return path in self._unfit or (signature is not None and signature[2] > _LARGE)


def differences(
    input_record: InputRecord, now: Present, is_one_enough: bool, ask: Callable[[str, str], str]
) -> list[Difference]:
    """What is not as it was; at most one difference if that is enough. `ask`: see machine_facts.py."""
    found: list[Difference] = []
    of_names = (_of_directories, _of_files, _of_links, _of_identities)
    for check in (_of_variables, *of_names, _of_dates, _of_duplicates, _of_reader):
        for difference in check(input_record, now):
            found.append(difference)
            if is_one_enough:
                return found
    for topic, subject, answer in input_record.machine:
        if not answer or ask(topic, subject) != answer:
            found.append(
                Difference("processor" if topic in _OF_PROCESSOR else topic, subject.partition(":")[0])
            )
    return found


def _of_variables(input_record: InputRecord, now: Present) -> list[Difference]:
    found = [
        Difference("variable", name)
        for name, digest in input_record.variables
        if environment.digest_of(name, now.environ) != digest
    ]
    if input_record.sought and now.environ.get("PATH", "") != input_record.search_path:
        for name in input_record.sought:
            if environment.found_on(input_record.search_path, name) != environment.found_on(
                now.environ.get("PATH", ""), name
            ):
                found.append(Difference("variable", "PATH"))
                break
    return found


def _of_files(input_record: InputRecord, now: Present) -> list[Difference]:
    found = []
    signed = now.signatures(input_record.files)
    if signed != input_record.signatures:
        links = {path for path, _ in input_record.links}
        for path, kind, recorded, signature, digest in zip(
            input_record.files,
            input_record.kinds,
            input_record.signatures,
            signed,
            input_record.digests,
            strict=True,
        ):
            if signature is None:
                found.append(Difference("gone", path))
            elif signature == recorded:
                now.learn(path, digest)
            elif now.digest(path) != digest or (kind == PROGRAM and not os.access(path, os.X_OK)):
                found.append(Difference("changed", path))
            elif kind == SOURCE and path not in links and os.path.islink(path):
                found.append(Difference("moved", path))  # gcc names system headers by what links lead to
    return found


def _of_directories(input_record: InputRecord, now: Present) -> list[Difference]:
    found = []
    signed = now.signatures(input_record.directories)
    if signed != input_record.directory_signatures:
        for directory, recorded, signature, names in zip(
            input_record.directories,
            input_record.directory_signatures,
            signed,
            input_record.names,
            strict=True,
        ):
            if signature is None or signature != recorded:
                found += _of_names(directory, names)
    for directory, digest in input_record.listings:
        if digest_of_listing(directory) != digest:
            found.append(Difference("relisted", directory))
    return found


def _of_names(directory: str, names: list[str]) -> list[Difference]:
    found = []
    for name in names:
        path = name[1:] if directory == "." else os.path.join(directory, name[1:])
        state = state_of(path)
        if state != name[0]:
            what = "appeared" if name[0] == ABSENT else "gone" if state == ABSENT else "changed"
            found.append(Difference(what, path.removeprefix("./")))
    return found


def _of_links(input_record: InputRecord, now: Present) -> list[Difference]:
    moved = [path for path, led_to in input_record.links if os.path.realpath(path) != led_to]
    return [Difference("moved", path) for path in (*moved, *filter(os.path.islink, input_record.plain))]


def _of_identities(input_record: InputRecord, now: Present) -> list[Difference]:
    recorded = input_record.identities
    found = identities(path for path, _ in recorded)
    return [Difference("identity", one[0]) for one, was in zip(found, recorded, strict=True) if one != was]


def _of_dates(input_record: InputRecord, now: Present) -> list[Difference]:
    return [
        Difference("redated", path)
        for path, date in input_record.dates
        if _looked_at_as(path, date[:1]) != date
    ]


def _of_duplicates(input_record: InputRecord, now: Present) -> list[Difference]:
    digests = dict(zip(input_record.files, input_record.digests, strict=True))
    copies = []
    for path, _, _ in input_record.duplicates:
        shown = now.signature(path)
        if shown is None:
            return []  # that has been told already
        copies.append((path, digests.get(path, ""), shown))
    found = likenesses(copies)
    return [
        Difference("redated", one[0])
        for one, was in zip(found, input_record.duplicates, strict=True)
        if one != was
    ]


def _of_reader(input_record: InputRecord, now: Present) -> list[Difference]:
    """What somebody else may not read: signatures say nothing of that."""
    if input_record.reader == reader():
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


def _looked_at_as(path: str, how: str) -> str:
    is_status = how in (WHOLE_STATUS, STATUS_OF_LINK, ATTRIBUTES)
    return status_of(path, how) if is_status else date_and_size(path)

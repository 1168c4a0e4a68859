"""A reading: what a command was seen to read, and whether all of it is still the same.

Part of the hot path. Besides the files read with their digests, a reading holds what was looked for and
decides just as much: names that must be absent from a directory, since the compiler would find a header
there first, or present, since `__has_include` asked for them; where symbolic links led; dates that a
tool wrote into its output; what machine.py says of the machine. A signature is only a hint: where it still
holds, nothing is read again.
"""

from __future__ import annotations

import os

from nvccache import keys, sections, signatures
from nvccache.signatures import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from nvccache.relocation import Relocation
    from nvccache.signatures import Signature

SECTIONS = 11
_BEING_WRITTEN = 2 * 10**9  # nanoseconds for which a directory that changed counts as being written to
_DIGEST_LENGTH = 32
PRESENT, ABSENT = "+", "-"
LIBRARIES = "libraries"  # of the topics of machine.py the one that a file answers
SOURCE, PROGRAM, LIBRARY = "s", "p", "l"


class UnreadableError(Exception):
    """There can be no reading; carries the reason as a clause."""


class Difference:
    """One thing that is not as it was recorded: what became of which path."""

    __slots__ = ("path", "what")

    what: str  # changed, gone, appeared, redated, moved; processor, libraries: see machine.py
    path: str

    def __init__(self, what: str, path: str) -> None:
        self.what = what
        self.path = path


class Reading:
    """What a command read. The lists of files run in parallel, so do those of directories.

    `kinds` holds one letter a file, SOURCE, PROGRAM or LIBRARY (of a program); `names` one list a directory,
    each name behind PRESENT or ABSENT. A directory without a signature is looked at name by name. `absent`
    are paths where a library would be found first. `cache_signatures` are those of `caches`, for a replay
    only, and not kept.
    """

    __slots__ = (
        "absent",
        "cache_signatures",
        "dates",
        "digests",
        "directories",
        "directory_signatures",
        "files",
        "kinds",
        "links",
        "machine",
        "names",
        "signatures",
        "twins",
    )

    files: list[str]
    kinds: str
    digests: list[str]
    signatures: list[Signature]
    directories: list[str]
    directory_signatures: list[Signature]
    names: list[list[str]]
    links: list[tuple[str, ...]]  # (path, where it led)
    dates: list[tuple[str, ...]]  # (path, date and size)
    twins: list[tuple[str, ...]]  # (path, path of a copy, "1" if they have the same date)
    absent: list[str]
    machine: list[tuple[str, ...]]  # (topic, subject, answer)
    cache_signatures: list[Signature]

    def __init__(self) -> None:
        self.files, self.kinds, self.digests, self.signatures = [], "", [], []
        self.directories, self.directory_signatures, self.names = [], [], []
        self.links, self.dates, self.twins = [], [], []
        self.absent, self.machine, self.cache_signatures = [], [], []

    @property
    def caches(self) -> list[str]:
        """What the loader keeps of directories, as far as it was asked."""
        return [subject.partition(":")[0] for topic, subject, _ in self.machine if topic == LIBRARIES]


class Observations:
    """What the files are now, each looked at once in a call however many readings name it."""

    __slots__ = ("_digests", "_known")

    def __init__(self) -> None:
        self._known: dict[str, Signature | None] = {}
        self._digests: dict[str, str] = {}

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
            except (OSError, ValueError):
                self._digests[path] = ""
        return self._digests[path]


def differences(
    reading: Reading, seen: Observations, is_one_enough: bool, ask: Callable[[str, str], str]
) -> list[Difference]:
    """What is not as it was; at most one difference where that is enough to know. `ask`: see machine.py."""
    found: list[Difference] = []
    checks = (_of_directories, _of_files, _of_absent, _of_links, _of_dates, _of_twins)
    for check in checks:
        for difference in check(reading, seen):
            found.append(difference)
            if is_one_enough:
                return found
    for topic, subject, answer in reading.machine:
        if not answer or ask(topic, subject) != answer:
            is_cache = topic == LIBRARIES
            found.append(Difference(topic if is_cache else "processor", subject.partition(":")[0]))
    return found


def _of_files(reading: Reading, seen: Observations) -> list[Difference]:
    found = []
    now = seen.signatures(reading.files)
    if now != reading.signatures:
        for path, recorded, signature, digest in zip(
            reading.files, reading.signatures, now, reading.digests, strict=True
        ):
            if signature is None:
                found.append(Difference("gone", path))
            elif signature == recorded:
                seen.learn(path, digest)
            elif seen.digest(path) != digest:
                found.append(Difference("changed", path))
    return found


def _of_directories(reading: Reading, seen: Observations) -> list[Difference]:
    found = []
    now = seen.signatures(reading.directories)
    if now != reading.directory_signatures:
        for directory, recorded, signature, names in zip(
            reading.directories, reading.directory_signatures, now, reading.names, strict=True
        ):
            if signature is None or signature != recorded:
                found += _of_names(directory, names)
    return found


def _of_names(directory: str, names: list[str]) -> list[Difference]:
    found = []
    for name in names:
        path = name[1:] if directory == "." else os.path.join(directory, name[1:])
        if os.access(path, os.F_OK) != (name[0] == PRESENT):
            found.append(Difference("gone" if name[0] == PRESENT else "appeared", path.removeprefix("./")))
    return found


def _of_absent(reading: Reading, seen: Observations) -> list[Difference]:
    return [Difference("appeared", path) for path in reading.absent if os.access(path, os.F_OK)]


def _of_links(reading: Reading, seen: Observations) -> list[Difference]:
    return [Difference("moved", path) for path, led_to in reading.links if os.path.realpath(path) != led_to]


def _of_dates(reading: Reading, seen: Observations) -> list[Difference]:
    return [Difference("redated", path) for path, date in reading.dates if date_and_size(path) != date]


def _of_twins(reading: Reading, seen: Observations) -> list[Difference]:
    return [Difference("redated", one) for one, other, same in reading.twins if same_date(one, other) != same]


def same_date(one: str, other: str) -> str:
    """Whether gcc would take two copies for one file where it heeds `#pragma once`: "1" or "0"."""
    dates = [date_and_size(path).rpartition(":")[0].rpartition(":")[2] for path in (one, other)]
    return "1" if dates[0] == dates[1] else "0"


def date_and_size(path: str) -> str:
    """What a tool that asks for a file's date sees; empty when there is no such file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{path}:{int(status.st_mtime)}:{status.st_size}"


def key_of(front_key: str, reading: Reading) -> str:
    """The key of the result: everything but the hints, behind what was known before the command ran."""
    builder = keys.KeyBuilder("reading")
    builder.add("front", front_key)
    # Joined, since adding thousands of names one by one takes longer than all the rest.
    builder.add("files", reading.kinds, sections.join(reading.files), "".join(reading.digests))
    builder.add("directories", sections.join(reading.directories))
    builder.add("names", sections.join(["/".join(names) for names in reading.names]))
    for tag, pairs in (("link", reading.links), ("date", reading.dates), ("twins", reading.twins)):
        for pair in pairs:
            builder.add(tag, *pair)
    builder.add("absent", *reading.absent)
    for question in reading.machine:
        builder.add("machine", *question)
    return builder.key()


def encode(reading: Reading, places: Relocation) -> list[bytes]:
    """The sections of a record; paths below the base directory are kept as `places` has them."""
    move = places.encode
    return [
        sections.join([move(path) for path in reading.files]),
        reading.kinds.encode(),
        "".join(reading.digests).encode(),
        f"{signatures.to_text(reading.signatures)}\n{signatures.to_text(reading.directory_signatures)}".encode(),
        sections.join([move(path) for path in reading.directories]),
        sections.join(["/".join(names) for names in reading.names]),
        sections.join([move(part) for pair in reading.links for part in pair]),
        sections.join([part for pair in reading.dates for part in pair]),
        sections.join([move(part) for twins in reading.twins for part in twins]),
        sections.join(reading.absent),
        sections.join([part for question in reading.machine for part in question]),
    ]


def decode(parts: list[bytes], places: Relocation) -> Reading:
    """The inverse of `encode`; raises ValueError."""
    files, kinds, digests, numbers, directories, names, links, dates, twins, absent, machine = parts
    reading = Reading()
    move = places.decode
    reading.files = _moved(files, move)
    reading.kinds = kinds.decode("ascii")
    text = digests.decode("ascii")
    reading.digests = [text[at : at + _DIGEST_LENGTH] for at in range(0, len(text), _DIGEST_LENGTH)]
    of_files, _, of_directories = numbers.partition(b"\n")
    reading.signatures = signatures.from_text(of_files.decode("ascii"))
    reading.directories = _moved(directories, move)
    reading.directory_signatures = signatures.from_text(of_directories.decode("ascii"))
    reading.names = [joined.split("/") if joined else [] for joined in sections.split(names)]
    pairs = sections.split_tuples(links, 2)
    reading.links = [tuple([move(part) for part in pair]) for pair in pairs]
    reading.dates = sections.split_tuples(dates, 2)
    groups = sections.split_tuples(twins, 3)
    reading.twins = [tuple([move(part) for part in group]) for group in groups]
    reading.absent = sections.split(absent)
    reading.machine = sections.split_tuples(machine, 3)
    if not len(reading.files) == len(kinds) == len(reading.digests) == len(reading.signatures):
        raise ValueError("the files do not match their digests")
    if not len(reading.directories) == len(reading.directory_signatures) == len(reading.names):
        raise ValueError("the directories do not match their names")
    if not all(name[:1] in (PRESENT, ABSENT) for names in reading.names for name in names):
        raise ValueError("a name is neither wanted nor unwanted")
    return reading


def _moved(section: bytes, move: Callable[[str], str]) -> list[str]:
    paths = sections.split(section)
    return [move(path) for path in paths] if b"\1" in section else paths


def forget_unsettled(reading: Reading, looked_at_ns: int) -> None:
    """Drop the hints that could outlive a change made a moment after they were taken.

    `looked_at_ns` is no later than the first look at any of the files.
    """
    for known in (reading.signatures, reading.directory_signatures, reading.cache_signatures):
        for index, signature in enumerate(known):
            if not signatures.is_settled(signature, looked_at_ns):
                known[index] = UNKNOWN


def signature_of_directory(directory: str, names: list[str], since_ns: int) -> Signature:
    """What stands for all names in a directory; UNKNOWN where they must be looked at one by one.

    That is a directory that is being written to, whose signature would not last, and one with a link
    among the names, since what the link leads to leaves no trace in the directory.
    """
    found = signatures.of(directory)
    if found is None or max(found[3:]) > since_ns - _BEING_WRITTEN:
        return UNKNOWN
    links = [name for name in names if os.path.islink(os.path.join(directory, name[1:]))]
    return UNKNOWN if links else found

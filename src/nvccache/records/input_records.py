"""An input record: what a command was observed to read, and whether all of it is still the same.

Part of the hot path. Besides the files read with their digests, an input record holds what was looked for and
decides just as much: names that were not in a directory, since the compiler would find a header there
first, and names that were; where symbolic links led, and directories that were none; directories that were
listed; the environment variables that were asked for; dates that were looked at or written into an output;
what machine_facts.py says of the machine. A signature is only a hint: where it still holds, nothing is read
again.
"""

from __future__ import annotations

import os

from nvccache.files import keys, signatures
from nvccache.files.presence import (
    ABSENT,
    EXECUTABLE,
    FOLDER,
    PRESENT,
    UNREACHABLE,
    reader,
)
from nvccache.files.signatures import UNKNOWN
from nvccache.store import sections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvccache.files.signatures import Signature
    from nvccache.records.base_dir import Relocation

# The lists whose form in a record is the same: name, strings an element, whether there are paths among them.
_LISTS = (
    ("links", 2, True),
    ("plain", 1, True),
    ("listings", 2, True),
    ("dates", 2, False),
    ("duplicates", 3, True),
    ("variables", 2, False),
    ("sought", 1, False),
    ("machine", 3, False),
)
_WIDTHS = {name: width for name, width, _ in _LISTS}
SECTIONS = 7 + len(_LISTS)
_BEING_WRITTEN = 2 * 10**9  # nanoseconds for which a directory that changed counts as being written to
_DIGEST_LENGTH = 32
_STATES = frozenset((ABSENT, FOLDER, EXECUTABLE, PRESENT, UNREACHABLE))
LIBRARIES = "libraries"  # of the topics of machine_facts.py the one that a file answers
SOURCE, PROGRAM, LIBRARY = "s", "p", "l"


class UnreadableError(Exception):
    """There can be no input record; carries the reason as a clause."""


class InputRecord:
    """What a command read. The lists of files run in parallel, so do those of directories.

    `kinds` holds one letter a file, SOURCE, PROGRAM or LIBRARY (of a program); `names` one list a directory,
    each name behind what was found under it. A directory without a signature is looked at name by name.
    `plain` are directories that are no links. `search_path` is the value of PATH, by which the programs
    `sought` were looked for. `reader` is who could read all this. `cache_signatures` are those of
    `caches`, for a replay only, and not kept.
    Without `is_observed` it is what a stage is known to read, and does for this stage alone.
    """

    __slots__ = (
        "cache_signatures",
        "dates",
        "digests",
        "directories",
        "directory_signatures",
        "duplicates",
        "files",
        "is_observed",
        "kinds",
        "links",
        "listings",
        "machine",
        "names",
        "plain",
        "reader",
        "search_path",
        "signatures",
        "sought",
        "variables",
    )

    files: list[str]
    kinds: str
    digests: list[str]
    signatures: list[Signature]
    directories: list[str]
    directory_signatures: list[Signature]
    names: list[list[str]]
    links: list[tuple[str, ...]]  # (path, where it led)
    plain: list[str]
    listings: list[tuple[str, ...]]  # (directory, digest of the names and kinds in it)
    dates: list[tuple[str, ...]]  # (path, date and size, or whole status)
    duplicates: list[tuple[str, ...]]  # (path, path of a copy, see `likeness`)
    variables: list[tuple[str, ...]]  # (name, digest of the value), see environment.py
    search_path: str
    reader: str
    sought: list[str]
    machine: list[tuple[str, ...]]  # (topic, subject, answer)
    cache_signatures: list[Signature]
    is_observed: bool

    def __init__(self) -> None:
        self.files, self.kinds, self.digests, self.signatures = [], "", [], []
        self.directories, self.directory_signatures, self.names = [], [], []
        self.links, self.plain, self.listings, self.dates, self.duplicates = [], [], [], [], []
        self.variables, self.search_path, self.sought = [], "", []
        self.reader = reader()
        self.machine, self.cache_signatures = [], []
        self.is_observed = True

    @property
    def caches(self) -> list[str]:
        """What the loader keeps of directories, as far as it was asked."""
        return [subject.partition(":")[0] for topic, subject, _ in self.machine if topic == LIBRARIES]

    @property
    def asked(self) -> list[str]:
        """The names of all variables that decide."""
        return [name for name, _ in self.variables] + (["PATH"] if self.sought else [])


def key_of(front_key: str, input_record: InputRecord) -> str:
    """The key of the result: everything but the hints, behind what was known before the command ran."""
    builder = keys.KeyBuilder("input record")
    builder.add("front", front_key)
    # Joined, since adding thousands of names one by one takes longer than all the rest.
    builder.add("files", input_record.kinds, sections.join(input_record.files), "".join(input_record.digests))
    builder.add("directories", sections.join(input_record.directories))
    builder.add("names", sections.join(["/".join(names) for names in input_record.names]))
    builder.add("search path", input_record.search_path)
    builder.add("observed", "1" if input_record.is_observed else "")
    for name, _, _ in _LISTS:
        for group in _groups(input_record, name):
            builder.add(name, *group)
    return builder.key()


def encode(input_record: InputRecord, relocation: Relocation) -> list[bytes]:
    """The sections of a record; paths below the base directory are kept as `relocation` has them."""
    move = relocation.encode
    lists = [
        sections.join(
            [move(part) if is_path else part for group in _groups(input_record, name) for part in group]
        )
        for name, _, is_path in _LISTS
    ]
    return [
        sections.join([move(path) for path in input_record.files]),
        input_record.kinds.encode(),
        "".join(input_record.digests).encode(),
        f"{signatures.to_text(input_record.signatures)}\n{signatures.to_text(input_record.directory_signatures)}".encode(),
        sections.join([move(path) for path in input_record.directories]),
        sections.join(["/".join(names) for names in input_record.names]),
        sections.join(
            ["1" if input_record.is_observed else "", input_record.reader, input_record.search_path]
        ),
        *lists,
    ]


def _groups(input_record: InputRecord, name: str) -> Iterable[tuple[str, ...]]:
    width = _WIDTHS[name]
    values = getattr(input_record, name)
    return ((value,) for value in values) if width == 1 else values


def decode(parts: list[bytes], relocation: Relocation) -> InputRecord:
    """The inverse of `encode`; raises ValueError."""
    files, kinds, digests, numbers, directories, names, other, *lists = parts
    input_record = InputRecord()
    move = relocation.decode
    input_record.files = _moved(files, move)
    input_record.kinds = kinds.decode("ascii")
    text = digests.decode("ascii")
    input_record.digests = [text[at : at + _DIGEST_LENGTH] for at in range(0, len(text), _DIGEST_LENGTH)]
    of_files, _, of_directories = numbers.partition(b"\n")
    input_record.signatures = signatures.from_text(of_files.decode("ascii"))
    input_record.directories = _moved(directories, move)
    input_record.directory_signatures = signatures.from_text(of_directories.decode("ascii"))
    input_record.names = [joined.split("/") if joined else [] for joined in sections.split(names)]
    observed, input_record.reader, input_record.search_path = sections.split(other)
    input_record.is_observed = observed == "1"
    for (name, width, is_path), section in zip(_LISTS, lists, strict=True):
        flat = _moved(section, move) if is_path else sections.split(section)
        setattr(input_record, name, flat if width == 1 else sections.in_tuples(flat, width))
    if not len(input_record.files) == len(kinds) == len(input_record.digests) == len(input_record.signatures):
        raise ValueError("the files do not match their digests")
    if not len(input_record.directories) == len(input_record.directory_signatures) == len(input_record.names):
        raise ValueError("the directories do not match their names")
    if not all(name[:1] in _STATES for names in input_record.names for name in names):
        raise ValueError("it is not known what was under a name")
    return input_record


def programs(parts: list[bytes]) -> list[tuple[str, str]]:
    """The programs in a record's sections, with their digests, paths as they are kept; raises ValueError."""
    paths, kinds, digests = sections.split(parts[0]), parts[1].decode("ascii"), parts[2].decode("ascii")
    starts = range(0, len(digests), _DIGEST_LENGTH)
    read = zip(paths, kinds, [digests[at : at + _DIGEST_LENGTH] for at in starts], strict=True)
    return [(path, digest) for path, kind, digest in read if kind == PROGRAM]


def _moved(section: bytes, move: Callable[[str], str]) -> list[str]:
    paths = sections.split(section)
    return [move(path) for path in paths] if b"\1" in section else paths


def forget_unsettled(input_record: InputRecord, looked_at_ns: int) -> None:
    """Drop the hints that could outlive a change made a moment after they were taken.

    `looked_at_ns` is no later than the first look at any of the files.
    """
    for known in (input_record.signatures, input_record.directory_signatures, input_record.cache_signatures):
        for index, signature in enumerate(known):
            if not signatures.is_settled(signature, looked_at_ns):
                known[index] = UNKNOWN


def signature_of_directory(
    directory: str, names: list[str], since_ns: int, is_link: Callable[[str], bool] = os.path.islink
) -> Signature:
    """What stands for all names in a directory; UNKNOWN where they must be looked at one by one.

    That is a directory that is being written to, whose signature would not last, and one where something
    can change that leaves no trace in it: what a link leads to, or whether a file may be executed.
    """
    found = signatures.of(directory)
    if found is None or max(found[3:]) > since_ns - _BEING_WRITTEN:
        return UNKNOWN
    for name in names:
        if name[0] not in (ABSENT, FOLDER) or is_link(os.path.join(directory, name[1:])):
            return UNKNOWN
    return found

"""Readings of what compilers read: headers, the places searched before them, and what their text asks for.

One object serves all passes of a call, which read mostly the same files: each file is read, looked
through and digested once.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from dataclasses import dataclass

from nvccache import keys, quoted, search_path, searches, signatures, sources, surveys, toolchain, untrusted
from nvccache.reading import SOURCE, Reading, UnreadableError, same_date, signature_of_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nvccache.markers import Entered
    from nvccache.quoted import Quoted
    from nvccache.signatures import Signature
    from nvccache.sources import Findings
    from nvccache.store import Store

_CLOCK_TICK = 20_000_000  # nanoseconds; file systems stamp with a clock that lags by up to 10 ms
# A blank after an odd number of backslashes belongs to the name; elsewhere a backslash is itself.
_PREREQUISITE = re.compile(r"(?:(?<!\\)(?:\\\\)*\\[ \t]|[^ \t\n])+")
_ESCAPED_BLANK = re.compile(r"\\+[ \t]")
_INCLUDING = ("-include", "-imacros")
CHANGED_MEANWHILE = "files changed while it was compiled"


@dataclass(frozen=True, slots=True)
class _Searched:
    """What follows from the files that a pass entered: names by directory, links, copies passed over."""

    names: dict[str, set[str]]
    links: tuple[searches.Link, ...]
    copies: list[str]


class Headers:
    """Makes readings for the stages of a call that began at `since_ns`, on the wall clock."""

    def __init__(self, environ: Mapping[str, str], cache: Store, since_ns: int) -> None:
        self._environ = environ
        self._cache = cache
        self._since_ns = since_ns
        self._signatures: dict[str, Signature] = {}
        self._digests: dict[str, str] = {}
        self._contents: dict[str, bytes] = {}  # of files that are still to be looked through
        self._sources: set[str] = set()
        self._survey = sources.Survey()
        self._surveys = surveys.Surveys(cache, os.getcwd(), since_ns)
        self._listings = searches.Listings()
        self._known_places: dict[tuple[str, ...], searches.Places] = {}
        self._known_passes: list[tuple[tuple[object, ...], _Searched]] = []

    def of_pass(
        self, words: Sequence[str], entered: Sequence[Entered], text: bytes, shown: Quoted = quoted.NOTHING
    ) -> Reading:
        """The reading of a preprocessor pass; raises UnreadableError or OSError."""
        files = {os.fsdecode(file.name): file for file in entered}
        self._sources.update(itertools.islice(files, 1))
        findings = self._look_through(files)
        self._object(words, findings, text)
        searched = self._searched(words, tuple(entered), findings)
        self._look_at(searched.copies)
        made = self.reading([*files, *searched.copies, *shown.files], _with(searched.names, shown.missing))
        once = [path for path, found in findings.items() if found.is_once]
        made.twins = _twins([*searched.copies, *once], made)
        made.links = list(searched.links)
        return made

    def _searched(
        self, words: Sequence[str], entered: tuple[Entered, ...], findings: Mapping[str, Findings]
    ) -> _Searched:
        """What a pass searched for: the same as another one that entered the same files, in most calls."""
        places, named = self._places(words), _named_by(words)
        case = (places, named, self._survey.ways_to_ask, entered)
        for known, searched in self._known_passes:
            if known == case:
                return searched
        files = {os.fsdecode(file.name): file for file in entered}
        lookups = _lookups(files, findings, places)
        candidates = _candidates(findings, named, places)
        ways = self._ways_to(candidates, findings, places)
        for path in lookups.unexplained:
            if files[path].is_system and path not in ways and path not in candidates:
                raise UnreadableError(f"it is not known by what name `{path}` was found")
        copies = self._skipped_copies(candidates.difference(findings), findings, places)
        self._check_passed_over(places)
        links = lookups.links().union(*ways.values())
        searched = _Searched(lookups.watches(), tuple(sorted(links)), copies)
        self._known_passes.append((case, searched))
        return searched

    def _object(self, words: Sequence[str], findings: Mapping[str, Findings], text: bytes) -> None:
        """Raise UnreadableError where the text holds what no reading can tell."""
        used = [(path, word) for path, found in findings.items() for word in found.time_words]
        used += [("the command line", word) for word in sources.time_words_in(words)]
        if any("__has_include" in word for word in words):
            raise UnreadableError("the command line asks `__has_include`")
        objections = [sources.expands_time(used, text, "SOURCE_DATE_EPOCH" in self._environ)]
        objections += [reason for found in findings.values() for reason in found.objections]
        for reason in objections:
            if reason:
                raise UnreadableError(reason)

    def of_rule(self, words: Sequence[str], names: Sequence[str], shown: Quoted = quoted.NOTHING) -> Reading:
        """The reading of a compile that told only which files it read; raises UnreadableError or OSError."""
        self._look_through(names)
        places = self._places(words)
        lookups = searches.Lookups(places)
        nearby = tuple(dict.fromkeys(map(searches.directory_of, names)))
        for path in names:
            lookups.add_header(path, nearby)
        watches = lookups.watches()
        self._check_passed_over(places)
        made = self.reading([*names, *shown.files], _with(watches, shown.missing))
        made.links = sorted(lookups.links())
        return made

    def reading(
        self, files: Iterable[str], names: Mapping[str, set[str]], digests: Mapping[str, str] | None = None
    ) -> Reading:
        """A reading of these files and directories as they are now; raises UnreadableError.

        `digests` are those known of what the files held since the call began.
        """
        self._digests |= digests or {}
        made = Reading()
        made.files = list(dict.fromkeys(files))
        made.kinds = SOURCE * len(made.files)
        self._look_at([path for path in made.files if path not in self._signatures])
        made.digests = [self._digests[path] for path in made.files]
        made.signatures = [self._signatures[path] for path in made.files]
        for directory in sorted(names):
            made.directories.append(directory)
            made.names.append(sorted(names[directory]))
            listing = self._listings.get(directory)
            # To ask about names that are not there would take longer than all the rest.
            there = [name for name in made.names[-1] if listing is None or name[1:] in listing]
            made.directory_signatures.append(signature_of_directory(directory, there, self._since_ns))
        return made

    def remember(self) -> None:
        """Keep what was found in headers for the calls to come."""
        for path, found in self._survey.files.items():
            # A source is read by its own compiles alone, and changed before each of them.
            if path not in self._sources:
                self._surveys.add(path, self._signatures[path], self._digests[path], found)
        self._surveys.store()

    def _ways_to(
        self, candidates: set[str], findings: Mapping[str, Findings], places: searches.Places
    ) -> dict[str, set[searches.Link]]:
        """The links by which files that were entered were found, perhaps; those candidates are taken out."""
        inodes = {self._signatures[path][:2] for path in findings}
        ways: dict[str, set[searches.Link]] = {}
        for path in candidates.difference(findings):
            status = places.present[path]
            if (status.st_dev, status.st_ino) in inodes:
                real_path, link = places.way_to(path)
                if real_path in findings:
                    ways.setdefault(real_path, set()).add(link)
                    candidates.discard(path)
        return ways

    def _skipped_copies(
        self, candidates: Iterable[str], findings: Mapping[str, Findings], places: searches.Places
    ) -> list[str]:
        """Files that `#pragma once` passed over as copies of another: once edited, they would be entered.

        gcc compares size, date and content; CUDA's own thrust has a dozen such headers.
        """
        once = {self._digests[path] for path, found in findings.items() if found.is_once}
        sizes = {self._signatures[path][2] for path, found in findings.items() if found.is_once}
        alike = sorted(path for path in candidates if places.present[path].st_size in sizes)
        self._look_at(alike)
        return [path for path in alike if self._digests[path] in once]

    def _check_passed_over(self, places: searches.Places) -> None:
        """Raise UnreadableError if a file that would be found first may have appeared meanwhile."""
        for path, status in places.present.items():
            if path not in self._signatures and status.st_ctime_ns > self._since_ns - _CLOCK_TICK:
                raise UnreadableError(CHANGED_MEANWHILE)

    def _places(self, words: Sequence[str]) -> searches.Places:
        compiler = toolchain.host_compiler(words[0], self._environ, self._cache)
        chain = search_path.chain_of(words, self._environ, compiler.driver, compiler.identity, self._cache)
        if tuple(chain) not in self._known_places:
            self._known_places[tuple(chain)] = searches.Places(chain, self._listings)
        return self._known_places[tuple(chain)]

    def _look_through(self, paths: Collection[str]) -> dict[str, Findings]:
        """What is in these files; raises UnreadableError."""
        self._look_at(paths)
        found = self._survey.of(paths, self._read)
        self._contents = {}
        return found

    def _look_at(self, paths: Iterable[str]) -> None:
        """Take signatures and digests; raises UnreadableError for what may not be what was compiled.

        Another look at a file that was known already sees whether it was changed between two passes.
        """
        for path in paths:
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                raise UnreadableError(f"`{path}` is no regular file") from None
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError(f"`{path}` is no regular file")
            signature = signatures.of_status(status)
            if self._signatures.get(path) != signature:
                self._take(path, signature)

    def _take(self, path: str, signature: Signature) -> None:
        """Take a file as it is now; raises UnreadableError if that may not be what was compiled."""
        changed = signatures.last_change(signature, time.time_ns())
        if path in self._signatures or changed > self._since_ns - _CLOCK_TICK:
            raise UnreadableError(CHANGED_MEANWHILE)
        if path not in self._digests:
            known = self._surveys.find(path, signature)
            if known:
                self._digests[path], found = known
                self._survey.learn(found)
            else:
                self._contents[path] = _content(path, signature)
                self._digests[path] = keys.digest_bytes(self._contents[path])
        self._signatures[path] = signature

    def _read(self, path: str) -> bytes:
        return self._contents.get(path) or _content(path, self._signatures[path])


def read_file(path: str) -> bytes:
    descriptor = untrusted.open_named(path)  # text in the cache may have named it
    with open(descriptor, "rb") as stream:
        return stream.read()


def _content(path: str, signature: Signature) -> bytes:
    """The content that belongs to the signature of a file; raises UnreadableError."""
    try:
        content = read_file(path)
    except OSError:
        raise UnreadableError(f"`{path}` cannot be read") from None
    if signatures.of(path) != signature:
        raise UnreadableError(CHANGED_MEANWHILE)
    return content


def _with(names: Mapping[str, set[str]], watches: Iterable[searches.Watch]) -> dict[str, set[str]]:
    """The names to look at by directory, and some more."""
    more = {directory: set(listed) for directory, listed in names.items()}
    for directory, name in watches:
        more.setdefault(directory, set()).add(name)
    return more


def _named_by(words: Sequence[str]) -> tuple[str, ...]:
    """The headers that no text names: gcc's own, and those of the command line."""
    named = ["stdc-predef.h"]
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option = next((option for option in _INCLUDING if word.startswith(option)), "")
        if option:
            named.append(word[len(option) :] or following)
    return tuple(named)


def _candidates(findings: Mapping[str, Findings], named: Iterable[str], places: searches.Places) -> set[str]:
    """Every file that one of the includes could mean, wherever it is found."""
    names = {".": set(named)}
    for includer, found in findings.items():
        names.setdefault(searches.directory_of(includer), set()).update(found.included)
    return {
        path for directory in names for name in names[directory] for path in places.found(name, directory)
    }


def _lookups(
    files: Mapping[str, Entered], findings: Mapping[str, Findings], places: searches.Places
) -> searches.Lookups:
    """What a pass looked for."""
    lookups = searches.Lookups(places)
    source, source_name = next(((path, file.name) for path, file in files.items()), ("", b""))
    directories: dict[bytes, str] = {}
    for path, file in files.items():
        for includer in file.includers:
            if includer not in directories:
                directories[includer] = searches.directory_of(os.fsdecode(includer))
        nearby = [directories[includer] for includer in file.includers]
        # What the command line includes is looked for in the working directory.
        nearby += ["."] if source_name in file.includers else []
        lookups.add_header(path, tuple(dict.fromkeys(nearby)))
    for first in list(files)[1:2]:
        # gcc looks for the first header in a precompiled form.
        lookups.add_header(first + ".gch", (searches.directory_of(source), "."))
    for path, found in findings.items():
        for name in () if files[path].is_system else found.included:  # the system's find their own
            lookups.add_name(name, path)
        for name in found.asked:
            lookups.add_question(name, path)
    return lookups


def _twins(once: Sequence[str], made: Reading) -> list[tuple[str, ...]]:
    """Pairs of files that gcc takes for one under `#pragma once` while they have the same date."""
    digests = dict(zip(made.files, made.digests, strict=True))
    groups: dict[str, list[str]] = {}
    for path in sorted(once):
        groups.setdefault(digests[path], []).append(path)
    pairs = [pair for group in groups.values() for pair in itertools.combinations(group, 2)]
    return [(one, other, same_date(one, other)) for one, other in pairs]


def read_make_rule(rule: bytes) -> list[str]:
    """The prerequisites of a make rule as gcc and clang write it."""
    text = os.fsdecode(rule).replace("\\\n", " ")
    _, _, prerequisites = text.partition(": ")
    return [_unescape(name) for name in _PREREQUISITE.findall(prerequisites)]


def _unescape(name: str) -> str:
    name = _ESCAPED_BLANK.sub(lambda match: match[0][: len(match[0]) // 2 - 1] + match[0][-1], name)
    return name.replace("$$", "$").replace("\\#", "#")

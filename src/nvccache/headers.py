"""Readings of what compilers read: headers, the places searched before them, and what their text asks for.

One object serves all passes of a call, which read mostly the same files: each file is read, looked
through and digested once.
"""

from __future__ import annotations

import itertools
import os
import re
import time

from nvccache import keys, searches, signatures, sources, toolchain
from nvccache.reading import SOURCE, Reading, UnreadableError, same_date, signature_of_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nvccache.markers import Entered
    from nvccache.signatures import Signature
    from nvccache.sources import Findings
    from nvccache.store import Store

_CLOCK_TICK = 20_000_000  # nanoseconds; file systems stamp with a clock that lags by up to 10 ms
# A blank after an odd number of backslashes belongs to the name; elsewhere a backslash is itself.
_PREREQUISITE = re.compile(r"(?:(?<!\\)(?:\\\\)*\\[ \t]|[^ \t\n])+")
_ESCAPED_BLANK = re.compile(r"\\+[ \t]")
CHANGED_MEANWHILE = "files changed while it was compiled"


class Headers:
    """Makes readings for the stages of a call that began at `since_ns`, on the wall clock."""

    def __init__(self, environ: Mapping[str, str], cache: Store, since_ns: int) -> None:
        self._environ = environ
        self._cache = cache
        self._since_ns = since_ns
        self._contents: dict[str, bytes] = {}
        self._signatures: dict[str, Signature] = {}
        self._digests: dict[str, str] = {}
        self._survey = sources.Survey()
        self._known_places: dict[tuple[str, ...], searches.Places] = {}

    def of_pass(self, words: Sequence[str], entered: Sequence[Entered], text: bytes) -> Reading:
        """The reading of a preprocessor pass; raises UnreadableError or OSError."""
        files = {os.fsdecode(file.name): file for file in entered}
        contents = {path: self._read(path) for path in files}
        findings = self._survey.of(contents)
        self._object(words, findings, text)
        places = self._places(words)
        source = next(iter(files), "")
        names: dict[str, set[str]] = {}
        for path, file in files.items():
            includers = [os.fsdecode(name) for name in file.includers]
            # What the command line includes is looked for in the working directory.
            includers += [searches.COMMAND_LINE] if source in includers else []
            _watch(names, places.of_header(path, includers))
        for first in list(files)[1:2]:
            # gcc looks for the first header in a precompiled form.
            _watch(names, places.of_header(first + ".gch", [source, searches.COMMAND_LINE]))
        for path, found in findings.items():
            for name in () if files[path].is_system else found.included:  # the system's find their own
                _watch(names, places.of_name(name, (searches.directory_of(path),)))
            for name in found.asked:
                _watch(names, places.of_question(name, path))
        copies = self._skipped_copies(findings, places, contents)
        self._check_passed_over(places)
        made = self.reading([*files, *copies], names)
        made.twins = _twins([*copies, *(path for path, found in findings.items() if found.is_once)], made)
        return made

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

    def of_rule(self, words: Sequence[str], names: Sequence[str]) -> Reading:
        """The reading of a compile that told only which files it read; raises UnreadableError or OSError."""
        places = self._places(words)
        watched: dict[str, set[str]] = {}
        for path in names:
            _watch(watched, places.of_header(path, names))
        self._check_passed_over(places)
        return self.reading(names, watched)

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
        made.digests = [self._digest(path) for path in made.files]
        made.signatures = [self._signature(path) for path in made.files]
        for directory in sorted(names):
            made.directories.append(directory)
            made.names.append(sorted(names[directory]))
            made.directory_signatures.append(
                signature_of_directory(directory, made.names[-1], self._since_ns)
            )
        return made

    def _skipped_copies(
        self, findings: Mapping[str, Findings], places: searches.Places, contents: Mapping[str, bytes]
    ) -> list[str]:
        """Files that `#pragma once` passed over as copies of another: once edited, they would be entered.

        gcc compares size, date and content; CUDA's own thrust has a dozen such headers.
        """
        once = {contents[path] for path, found in findings.items() if found.is_once}
        sizes = set(map(len, once))
        candidates = {
            path for includer, found in findings.items() for name in found.included
            for path in places.found(name, includer)
        }  # fmt: skip
        return [
            path
            for path in sorted(candidates - set(contents))
            if os.stat(path).st_size in sizes and self._read(path) in once
        ]

    def _check_passed_over(self, places: searches.Places) -> None:
        """Raise UnreadableError if a file that would be found first may have appeared meanwhile."""
        for path in places.present - set(self._signatures):
            found = signatures.of(path)
            if found is None or found[4] > self._since_ns - _CLOCK_TICK:
                raise UnreadableError(CHANGED_MEANWHILE)

    def _places(self, words: Sequence[str]) -> searches.Places:
        compiler = toolchain.host_compiler(words[0], self._environ, self._cache)
        chain = searches.chain_of(words, self._environ, compiler.driver, compiler.identity, self._cache)
        return self._known_places.setdefault(tuple(chain), searches.Places(chain))

    def _read(self, path: str) -> bytes:
        if path not in self._contents:
            if not os.path.isfile(path):
                raise UnreadableError(f"`{path}` is no regular file")
            try:
                with open(path, "rb") as stream:
                    self._contents[path] = stream.read()
            except OSError:
                raise UnreadableError(f"`{path}` cannot be read") from None
        return self._contents[path]

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = keys.digest_bytes(self._read(path))
        return self._digests[path]

    def _signature(self, path: str) -> Signature:
        """Taken after the content was; raises UnreadableError if that may not be what was compiled."""
        if path not in self._signatures:
            found = signatures.of(path)
            if found is None or (
                signatures.last_change(found, time.time_ns()) > self._since_ns - _CLOCK_TICK
            ):
                raise UnreadableError(CHANGED_MEANWHILE)
            self._signatures[path] = found
        return self._signatures[path]


def _twins(once: Sequence[str], made: Reading) -> list[tuple[str, ...]]:
    """Pairs of files that gcc takes for one under `#pragma once` while they have the same date."""
    digests = dict(zip(made.files, made.digests, strict=True))
    groups: dict[str, list[str]] = {}
    for path in sorted(once):
        groups.setdefault(digests[path], []).append(path)
    pairs = [pair for group in groups.values() for pair in itertools.combinations(group, 2)]
    return [(one, other, same_date(one, other)) for one, other in pairs]


def _watch(names: dict[str, set[str]], watches: Iterable[searches.Watch]) -> None:
    for directory, name in watches:
        names.setdefault(directory, set()).add(name)


def read_make_rule(rule: bytes) -> list[str]:
    """The prerequisites of a make rule as gcc and clang write it."""
    text = os.fsdecode(rule).replace("\\\n", " ")
    _, _, prerequisites = text.partition(": ")
    return [_unescape(name) for name in _PREREQUISITE.findall(prerequisites)]


def _unescape(name: str) -> str:
    name = _ESCAPED_BLANK.sub(lambda match: match[0][: len(match[0]) // 2 - 1] + match[0][-1], name)
    return name.replace("$$", "$").replace("\\#", "#")

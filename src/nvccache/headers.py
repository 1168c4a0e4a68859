"""Readings of what compilers read: headers, the places searched before them, and what their text asks for.

One object serves all passes of a call, which read mostly the same files: each file is read, looked
through and digested once.
"""

from __future__ import annotations

import os
import re

from nvccache import keys, searches, signatures, sources, toolchain
from nvccache.reading import SOURCE, Reading
from nvccache.signatures import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nvccache.markers import Entered
    from nvccache.signatures import Signature
    from nvccache.store import Store

_CLOCK_TICK = 50_000_000  # nanoseconds; file systems stamp with a clock that lags behind
# A blank after an odd number of backslashes belongs to the name; elsewhere a backslash is itself.
_PREREQUISITE = re.compile(r"(?:(?<!\\)(?:\\\\)*\\[ \t]|[^ \t\n])+")
_ESCAPED_BLANK = re.compile(r"\\+[ \t]")
CHANGED_MEANWHILE = "files changed while it was compiled"


class UnreadableError(Exception):
    """There can be no reading; carries the reason as a clause."""


class Headers:
    """Makes readings for the stages of a call that began at `since_ns`, on the wall clock."""

    def __init__(self, environ: Mapping[str, str], cache: Store, since_ns: int) -> None:
        self._environ = environ
        self._cache = cache
        self._since_ns = since_ns
        self._contents: dict[str, bytes] = {}
        self._signatures: dict[str, Signature] = {}
        self._digests: dict[str, str] = {}

    def of_pass(self, words: Sequence[str], entered: Sequence[Entered], text: bytes) -> Reading:
        """The reading of a preprocessor pass; raises UnreadableError or OSError."""
        files = {os.fsdecode(file.name): file for file in entered}
        contents = {path: self._read(path) for path in files}
        is_system = {path: file.is_system for path, file in files.items()}
        survey = sources.survey(contents, is_system)
        survey.time_words += [("the command line", word) for word in sources.time_words_in(words)]
        objection = sources.expands_time(survey, text, "SOURCE_DATE_EPOCH" in self._environ)
        for reason in (objection, *survey.objections):
            if reason:
                raise UnreadableError(reason)
        places = searches.Places(self._chain(words))
        source = next(iter(files), "")
        for path, file in files.items():
            includers = [os.fsdecode(name) for name in file.includers]
            # What the command line includes is looked for in the working directory.
            places.watch_header(path, [*includers, *(["<command-line>"] if source in includers else [])])
        for includer, name in survey.included:
            places.watch_name(name, [searches.directory_of(includer)])
        for includer, name in survey.asked:
            places.ask(name, includer)
        copies = self._skipped_copies(survey, places, contents)
        return self.reading([*files, *copies], places.names)

    def of_rule(self, words: Sequence[str], names: Sequence[str]) -> Reading:
        """The reading of a compile that told only which files it read; raises UnreadableError or OSError."""
        places = searches.Places(self._chain(words))
        for path in names:
            places.watch_header(path, names)
        return self.reading(names, places.names)

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
            made.directory_signatures.append(self._of_directory(directory))
        return made

    def _of_directory(self, directory: str) -> Signature:
        """Unknown for a directory that is written to: its names are looked at one by one."""
        found = signatures.of(directory)
        return found if found and max(found[3:]) < self._since_ns - 2 * 10**9 else UNKNOWN

    def _skipped_copies(
        self, survey: sources.Survey, places: searches.Places, contents: Mapping[str, bytes]
    ) -> list[str]:
        """Files that `#pragma once` passed over as copies of another: once edited, they would be entered."""
        if not survey.once:
            return []
        once = {contents[path] for path in survey.once}
        candidates = {path for includer, name in survey.included for path in places.found(name, includer)}
        return [path for path in sorted(candidates - set(contents)) if self._read(path) in once]

    def _chain(self, words: Sequence[str]) -> list[str]:
        compiler = toolchain.host_compiler(words[0], self._environ, self._cache)
        return searches.chain_of(words, self._environ, compiler.driver, compiler.identity, self._cache)

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
            if found is None or max(found[3:]) > self._since_ns - _CLOCK_TICK:
                raise UnreadableError(CHANGED_MEANWHILE)
            self._signatures[path] = found
        return self._signatures[path]


def read_make_rule(rule: bytes) -> list[str]:
    """The prerequisites of a make rule as gcc and clang write it."""
    text = os.fsdecode(rule).replace("\\\n", " ")
    _, _, prerequisites = text.partition(": ")
    return [_unescape(name) for name in _PREREQUISITE.findall(prerequisites)]


def _unescape(name: str) -> str:
    name = _ESCAPED_BLANK.sub(lambda match: match[0][: len(match[0]) // 2 - 1] + match[0][-1], name)
    return name.replace("$$", "$").replace("\\#", "#")

"""What was found in headers, remembered by their stat signatures so that they need not be read again.

The second unit of a project reads mostly the headers of the first. A record belongs to a directory and is
a JSON object: the name of a file in it -> a row of

    device, inode, size, modification time, change time
    digest
    whether there is `#pragma once` in it, words for the time, directives that are not followed, includes
    words for asking that were looked for, and those that are in it
    what it asks for in some of these words: (words, names, macros that are further words, "1" if unclear)

Where there can be several words they are one string with line ends between. A row is believed as long as
the file has its signature, like the memo of programs (toolchain.py); see the design notes. Several calls
may write a record at once: the last one wins, and what is lost is found anew.
"""

from __future__ import annotations

import functools
import json
import os

from nvccache import __version__, keys, signatures, sources, store
from nvccache.sources import Findings, Questions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nvccache.signatures import Signature
    from nvccache.store import Store

    Row = list[Any]

_MOST_FILES = 2000  # in one record; a directory of generated headers has no end
_DIGEST_LENGTH = 32
_ROW_LENGTH = 13


class Surveys:
    """The records that a call needs, each read once; `since_ns` is when the call began."""

    def __init__(self, cache: Store, cwd: str, since_ns: int) -> None:
        self._cache = cache
        self._cwd = cwd
        self._since_ns = since_ns
        self._records: dict[str, dict[str, Row]] = {}  # by directory
        self._remembered: dict[str, tuple[object, ...]] = {}  # how much is known of files already, by path
        self._added: dict[str, dict[str, Row]] = {}

    def find(self, path: str, signature: Signature) -> tuple[str, Findings] | None:
        """The digest of a file and what was found in it, if it has not been touched since."""
        directory, name = os.path.split(path)
        row = self._record(directory).get(name)
        if not isinstance(row, list) or tuple(row[:5]) != signature:
            return None
        try:
            digest, found = _decode(path, row)
        except (ValueError, TypeError):
            self._cache.remove_damaged(store.SURVEY, self._key(directory))
            self._records[directory] = {}
            return None
        self._remembered[path] = _extent(found)
        return digest, found

    def add(self, path: str, signature: Signature, digest: str, found: Findings) -> None:
        """Have what was found in a file remembered, unless another change could leave its signature alone."""
        if self._remembered.get(path) == _extent(found):
            return
        row = _encode(signature, digest, found)
        if row and signatures.is_settled(signature, self._since_ns):
            directory, name = os.path.split(path)
            self._added.setdefault(directory, {})[name] = row

    def store(self) -> None:
        """Write the records to which something was added."""
        for directory, rows in self._added.items():
            older = {name: row for name, row in self._record(directory).items() if name not in rows}
            kept = dict(list(older.items())[: max(0, _MOST_FILES - len(rows))])
            body = json.dumps({**rows, **kept}, separators=(",", ":")).encode()
            # No lock: nothing depends on these records.
            self._cache.add_record(store.SURVEY, self._key(directory), body, lock=False)

    def _record(self, directory: str) -> dict[str, Row]:
        if directory not in self._records:
            key = self._key(directory)
            body = self._cache.find_record(store.SURVEY, key)
            try:
                rows = json.loads(body) if body is not None else {}
            except (ValueError, RecursionError):
                rows = None
            if not isinstance(rows, dict):
                self._cache.remove_damaged(store.SURVEY, key)
                rows = {}
            self._records[directory] = rows
        return self._records[directory]

    def _key(self, directory: str) -> str:
        builder = keys.KeyBuilder("survey")
        builder.add("rules", __version__, sources.RULES)
        builder.add("directory", os.path.join(self._cwd, directory))
        return builder.key()


def _extent(found: Findings) -> tuple[object, ...]:
    """How much is known of a file: it grows when another call asks in further words."""
    return found.looked_for, len(found.answers)


def _encode(signature: Signature, digest: str, found: Findings) -> Row | None:
    """The row of a file; None where a name in it cannot be part of a path."""
    answers = [
        [_words(words), "\n".join(known.asked), _words(known.wrappers), "1" if known.is_questionable else ""]
        for words, known in found.answers.items()
    ]
    row = [
        digest,
        "1" if found.is_once else "",
        _words(found.time_words),
        "\n".join(found.unfollowed),
        "\n".join(found.included),
        _words(found.looked_for),
        _words(found.mentioned),
    ]
    texts = [*row, *(text for answer in answers for text in answer)]
    return [*signature, *row, answers] if not any("\0" in text for text in texts) else None


def _decode(path: str, row: Row) -> tuple[str, Findings]:
    """The inverse of `_encode`, for whatever stands in a record; raises ValueError or TypeError."""
    *texts, answers = row[5:]
    _check(texts)
    digest, is_once, times, unfollowed, included, looked_for, mentioned = texts
    if len(digest) != _DIGEST_LENGTH or not digest.isalnum() or not digest.isascii():
        raise ValueError("not a digest")
    if not isinstance(answers, list):
        raise TypeError("not a list of answers")
    time_words = [word for word in sources.TIME_WORDS if word in _as_words(times)]
    found = Findings(path, _split(included), bool(is_once), time_words, _split(unfollowed))
    found.looked_for, found.mentioned = _as_words(looked_for), _as_words(mentioned)
    for answer in answers:
        _check(answer)
        words, asked, wrappers, is_questionable = answer
        questions = Questions(tuple(_split(asked)), tuple(_as_words(wrappers)), bool(is_questionable))
        found.answers[_as_words(words)] = questions
    return digest, found


def _check(texts: list[str]) -> None:
    """Raise ValueError or TypeError unless these are strings that can be parts of paths."""
    text = "".join(texts)
    os.fsencode(text)
    if "\0" in text:
        raise ValueError("a name with NUL")


def _split(text: str) -> list[str]:
    return text.split("\n") if text else []


def _words(words: Iterable[bytes]) -> str:
    return "\n".join(sorted(word.decode("ascii") for word in words))


@functools.lru_cache(maxsize=1024)
def _as_words(text: str) -> frozenset[bytes]:
    """Words as they stand in the text of a file; raises ValueError."""
    words = text.split("\n") if text else []
    if not all(word.isidentifier() for word in words):
        raise ValueError("not a word")
    return frozenset(word.encode("ascii") for word in words)

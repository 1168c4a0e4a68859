"""Digests of files that have not changed since the call began; if one has, nothing can be recorded.

Digests are remembered by stat signature: the second unit of a project reads mostly the headers of the first.
There is a memo for each directory, a JSON object: name of a file -> [device, inode, size, modification time,
change time, digest]. A row is valid as long as the file has its signature, like the memo of programs
(toolchain.py). If several calls write a memo at once, the last one wins, and lost rows are
computed again. There is no row for a source that compares dates, so such a file is found again each time.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping

from nvccache.files import keys, signatures, untrusted
from nvccache.files.signatures import Signature
from nvccache.observation.looked_up import CLOCK_TICK
from nvccache.records.input_records import SOURCE, InputRecord, UnreadableError
from nvccache.store import store
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


CHANGED_MEANWHILE = "files changed while it was compiled"
_MOST_FILES = 2000  # in one memo; a directory of generated headers can grow without limit
_LARGEST_SOURCE = 1 << 26  # bytes
# What makes the preprocessor compare dates of files: `#pragma GCC dependency "name"`, also by `_Pragma` or
# with a word from a macro.
_COMPARES_DATES = re.compile(
    rb"(?s)\bGCC(?:\s|\\\n|/\*.*?\*/)+dependency\b|#[ \t]*define\b[^\n]*\bdependency\b"
)


class UnchangedFiles:
    """The files of one call, which began at `since_ns`; each file and each memo is read once."""

    def __init__(self, cache: Store, cwd: str, since_ns: int) -> None:
        self._cache = cache
        self._cwd = cwd
        self._since_ns = since_ns
        self._signatures: dict[str, Signature] = {}
        self._digests: dict[tuple[str, Signature], str] = {}
        self._compares_dates: set[str] = set()
        self._records: dict[str, dict[str, list[Any]]] = {}  # by directory
        self._added: dict[str, dict[str, list[Any]]] = {}

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
        for path, kind, signature in zip(record.files, record.kinds, record.signatures, strict=True):
            if kind != SOURCE and (path, signature) not in self._digests:  # as keys of stages do
                self._digests[path, signature] = toolchain.digest_of_program(path, self._cache)
        record.digests = list(map(self.digest, record.files, record.signatures))
        if not all(record.digests):
            raise UnreadableError(CHANGED_MEANWHILE)

    def learn(self, path: str, digest: str) -> None:
        """Note the known digest of a file; raises UnreadableError if the file has changed."""
        self._digests[path, self.signature(path)] = digest

    def digest(self, path: str, signature: Signature) -> str:
        """The digest of a file with this signature; empty if it has changed. Raises OSError."""
        if (path, signature) not in self._digests:
            self._digests[path, signature] = self._find(path, signature) or self._read(path, signature)
        return self._digests[path, signature]

    def check_dates(self, paths: Iterable[str]) -> None:
        """Raise UnreadableError if a source that was digested makes the compiler compare dates of files."""
        for path in self._compares_dates.intersection(paths):
            raise UnreadableError(f"`{path}` compares dates of files")

    def _find(self, path: str, signature: Signature) -> str:
        directory, name = os.path.split(path)
        *remembered, digest = self._record(directory).get(name, [""])
        return digest if tuple(remembered) == signature else ""

    def _read(self, path: str, signature: Signature) -> str:
        descriptor = untrusted.open_named(path)
        try:
            if signature[2] <= _LARGEST_SOURCE:
                content = untrusted.read_whole(descriptor)
                digest = keys.digest_bytes(content)
                compares_dates = bool(_COMPARES_DATES.search(content))
            else:
                digest = keys.digest_descriptor(descriptor)
                compares_dates = True  # not read as text
            if signatures.of_status(os.fstat(descriptor)) != signature:
                return ""
        finally:
            os.close(descriptor)
        if compares_dates:
            self._compares_dates.add(path)
        elif signatures.is_settled(signature, self._since_ns):
            directory, name = os.path.split(path)
            self._added.setdefault(directory, {})[name] = [*signature, digest]
        return digest

    def remember(self) -> None:
        """Store new digests for later calls."""
        for directory, rows in self._added.items():
            older = {name: row for name, row in self._record(directory).items() if name not in rows}
            rest = dict(list(older.items())[: max(0, _MOST_FILES - len(rows))])
            body = json.dumps({**rows, **rest}, separators=(",", ":")).encode("ascii")
            # No lock: nothing depends on these memos.
            self._cache.add_record(store.MEMO, self._key(directory), body)
        self._added = {}

    def _record(self, directory: str) -> dict[str, list[Any]]:
        if directory not in self._records:
            body = self._cache.find_record(store.MEMO, self._key(directory))
            self._records[directory] = json.loads(body) if body else {}
        return self._records[directory]

    def _key(self, directory: str) -> str:
        return keys.key_of("digests", [("directory", (os.path.join(self._cwd, directory),))])

"""Digests of files that have not changed since the call began; if a file has changed, nothing is recorded."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from nvccache.files import keys, signatures, untrusted
from nvccache.files.signatures import Signature
from nvccache.observation.looked_up import CLOCK_TICK
from nvccache.records.input_records import SOURCE, InputRecord, UnreadableError
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

CHANGED_MEANWHILE = "files changed during the compile"
# `#pragma GCC dependency` compares dates of files. A macro may stand for its last word.
_WORD = b"dependency"
_COMPARES_DATES = re.compile(rb"(?:\bGCC\s+|#[ \t]*define\b.*\b)dependency\b")


class UnchangedFiles:
    """The files of one call, which began at `since_ns`; each is read only once."""

    def __init__(self, cache: Store, since_ns: int) -> None:
        self._cache = cache
        self._since_ns = since_ns
        self._signatures: dict[str, Signature] = {}
        self._digests: dict[tuple[str, Signature], str] = {}

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
    # Searching for a word first is much faster than applying the expression to the whole text.
    lines = content.split(b"\n") if _WORD in content else ()
    return any(_WORD in line and _COMPARES_DATES.search(line) for line in lines)

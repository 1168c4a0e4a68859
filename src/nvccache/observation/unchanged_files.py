"""What files hold, if they are still what they were when the call began: else nothing can be recorded."""

from __future__ import annotations

import os
import time

from nvccache.files import presence, signatures
from nvccache.observation.digests import Digests
from nvccache.observation.lookups import CLOCK_TICK
from nvccache.records.input_records import SOURCE, UnreadableError
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.files.signatures import Signature
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

CHANGED_MEANWHILE = "files changed while it was compiled"


class UnchangedFiles:
    """The files of one call, that began at `since_ns`; each is looked at once."""

    def __init__(self, cache: Store, cwd: str, since_ns: int) -> None:
        self._cache = cache
        self._since_ns = since_ns
        self._digests = Digests(cache, cwd, since_ns)
        self._signatures: dict[str, Signature] = {}

    def signature(self, path: str) -> Signature:
        """The signature of a file that has not changed since the call began; raises UnreadableError."""
        known = self._signatures.get(path)
        if known is None:
            try:
                known = signatures.of_status(os.stat(path))
            except (OSError, ValueError):
                raise UnreadableError(CHANGED_MEANWHILE) from None
            self._check(known)
            self._signatures[path] = known
        return known

    def status(self, path: str, how: str) -> str:
        """The status of what need be no file; raises UnreadableError if it has changed."""
        try:
            status = os.lstat(path) if how == presence.STATUS_OF_LINK else os.stat(path)
        except (OSError, ValueError):
            raise UnreadableError(CHANGED_MEANWHILE) from None
        self._check(signatures.of_status(status))
        return presence.status_of(path, how)

    def _check(self, found: Signature) -> None:
        if signatures.last_change(found, time.time_ns()) > self._since_ns - CLOCK_TICK:
            raise UnreadableError(CHANGED_MEANWHILE)

    def put_into(self, made: InputRecord, kinds: Mapping[str, str]) -> None:
        """Put files with what they hold into an input record; raises UnreadableError or OSError."""
        made.files = sorted(kinds)
        made.kinds = "".join(kinds[path] for path in made.files)
        made.signatures = [self.signature(path) for path in made.files]
        made.digests = list(map(self._digest, made.files, made.kinds, made.signatures))
        if not all(made.digests):
            raise UnreadableError(CHANGED_MEANWHILE)

    def _digest(self, path: str, kind: str, signature: Signature) -> str:
        """The digest of a file; that of a program is remembered where keys of stages have it from."""
        if kind != SOURCE and not self._digests.knows(path, signature):
            self._digests.learn(path, signature, toolchain.digest_of_program(path, self._cache))
        return self._digests.of(path, signature)

    def learn(self, path: str, digest: str) -> None:
        """Take a digest that is known to belong to a file; raises UnreadableError if that has changed."""
        self._digests.learn(path, self.signature(path), digest)

    def compares_dates(self, path: str, signature: Signature) -> bool:
        """Whether a source may have the compiler compare dates; raises OSError."""
        return self._digests.has_word(path, signature)

    def remember(self) -> None:
        """Keep the digests of files for the calls to come."""
        self._digests.store()

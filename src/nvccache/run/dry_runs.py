"""Stored dry runs: nvcc's transcript, with an input record of what nvcc was observed to read for it.

Most misses repeat the argv of an earlier call with another source, which a dry run does not read. A dry run
is stored with a placeholder for the scratch directory, and only by a call that is recorded itself: a script
that may behave differently next time has no record. It is used only from a
cache that no other user can write, since its commands are run. A record of a call may be valid in several
environments; a dry run only in one, since its transcript repeats PATH and other variables for the tools.
"""

from __future__ import annotations

import os

from nvccache import environment
from nvccache.files import keys
from nvccache.machine.process import Completed
from nvccache.records import record
from nvccache.records.facts import CurrentState
from nvccache.store import directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.observation.observer import Log
    from nvccache.records.input_records import InputRecord
    from nvccache.records.request import Request
    from nvccache.store.store import Store

_SCRATCH = b"<scratch>"


class DryRun:
    """The dry run of a call whose scratch directory is `path`.

    A stored one has an `input_record`; one that was run has the observer's `log`.
    """

    __slots__ = ("_cache", "_key", "_path", "input_record", "log", "stderr")

    def __init__(self, request: Request, path: str, cache: Store) -> None:
        self.stderr = b""
        self.log: Log | None = None
        self.input_record: InputRecord | None = None
        cwd = os.getcwd()
        self._cache, self._path = cache, os.fsencode(path)
        invocation = request.invocation
        self._key = keys.key_of(
            "dry run",
            [
                ("nvcc", (request.nvcc,)),
                ("arguments", invocation.dryrun_arguments),
                ("variables", ("replaced" if invocation.includes_variables else "",)),
                ("directory", (cwd, request.guarded_environ.get("PWD", ""))),
                ("environment", (environment.digest_of(environment.WHOLE, request.guarded_environ),)),
                ("scratch", (os.path.dirname(path),)),
            ],
        )

    def find(self, request: Request) -> Completed | None:
        """The stored dry run, if nvcc would print the same now.

        None if others may write into the cache: the commands of the transcript are run.
        """
        now = CurrentState(request.guarded_environ, request.now)
        is_private = directory.is_private(request.config.dir)
        stored = record.find_private(self._key, self._cache, now) if is_private else None
        if not stored:
            return None
        self.input_record, stderr = stored
        self.stderr = stderr.replace(_SCRATCH, self._path)
        return Completed(0, b"", self.stderr, 0.0)

    def store(self, inputs: InputRecord, since_ns: int) -> None:
        """Store the transcript of a call that began at `since_ns`, with the record of its inputs."""
        if _SCRATCH not in self.stderr:
            stderr = self.stderr.replace(self._path, _SCRATCH)
            record.add_private(self._key, inputs, stderr, self._cache, since_ns)

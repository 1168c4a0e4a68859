"""Dry runs that are kept: what nvcc said it would do, under what it was observed to read for that.

Most calls that no record answers have the words of an earlier one, and another source, which a dry run does
not read. It is kept as a rehearsal is (rehearsals.py), with a placeholder for the scratch directory, by a
call that is recorded itself: a script that may do something else the next time has no record. It is kept in
this cache alone, since asking nvcc takes less time than asking another cache, and only this user's own is
believed, since its commands are run. Unlike a record of a call it holds
for one environment only: what nvcc says repeats PATH and others, as the tools are to have them.
"""

from __future__ import annotations

import os

from nvccache import environment
from nvccache.files import keys, presence
from nvccache.machine.process import Completed
from nvccache.records import record
from nvccache.records.facts import Present
from nvccache.store import directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.observation.observer import Log
    from nvccache.records.input_records import InputRecord
    from nvccache.records.request import Request
    from nvccache.store.store import Store

_SCRATCH = b"<scratch>"


class DryRun:
    """The dry run of a call whose scratch directory is `path`, which lies in `checkout` (base_dir.py).

    `input_record` is that of a kept one; of one that was made, `log` is what it was seen to do.
    """

    __slots__ = ("_cache", "_front", "_path", "input_record", "log", "said")

    def __init__(self, request: Request, path: str, checkout: str, cache: Store) -> None:
        self.said = b""  # on its standard error
        self.log: Log | None = None
        self.input_record: InputRecord | None = None
        cwd = os.getcwd()
        self._cache, self._path = cache, os.fsencode(path)
        invocation = request.invocation
        self._front = keys.pair_of(
            "dry run",
            [
                ("nvcc", (request.nvcc,)),
                ("arguments", invocation.dryrun_arguments),
                ("variables", ("replaced" if invocation.replaces_variables else "",)),
                ("directory", (cwd, request.guarded_environ.get("PWD", ""))),
                ("environment", (environment.digest_of(environment.WHOLE, request.guarded_environ),)),
                ("scratch", (os.path.dirname(path),)),
                ("checkout", (checkout,)),
                ("limits", presence.tight_limits()),
            ],
        )

    def find(self, request: Request) -> Completed | None:
        """What nvcc said the last time, if it would say the same now.

        None where others may write into the cache: what nvcc says are commands, which are run.
        """
        now = Present(request.guarded_environ, self._cache)
        is_private = directory.is_private(request.config.dir)
        found = record.find_hidden(self._front, self._cache, now) if is_private else None
        if not found or not found[0].result.is_made_here:
            return None
        pair, said = found
        self.said, self.input_record = said.replace(_SCRATCH, self._path), pair.input_record
        return Completed(0, b"", self.said, 0.0)

    def keep(self, made: InputRecord, since_ns: int) -> None:
        """Keep what nvcc said in a call that began at `since_ns`, under what it has read."""
        if _SCRATCH not in self.said:
            said = self.said.replace(self._path, _SCRATCH)
            record.add_hidden(self._front, made, said, self._cache, since_ns, is_sent=False)

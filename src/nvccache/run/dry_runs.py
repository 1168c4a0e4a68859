"""Stored dry runs: the output of `nvcc --dryrun`, with an input record of what nvcc read to print it.

Most misses repeat the command line of an earlier call after the source has changed. A dry run does not read
the source, so the stored output is still right. In the stored output, a placeholder replaces the scratch
directory. A dry run is stored only with the record of its call; a script in place of nvcc that may print
something else next time gets neither. Since the stored commands are executed, a dry run is only taken from a
cache to which no other user can write. A dry run is valid in one environment only, because it repeats PATH
and other variables for the tools; a record of a call may be valid in several
environments.
"""

from __future__ import annotations

import contextlib
import os
import threading

from nvccache import environment
from nvccache.files import keys
from nvccache.machine.process import Completed
from nvccache.records import record
from nvccache.records.facts import CurrentState
from nvccache.store import directory
from nvccache.toolkit import dryrun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.commandline.invocation import Bypass
    from nvccache.observation.observer import Log, Watch
    from nvccache.records.direct_hit import Request
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store
    from nvccache.toolkit.dryrun import Transcript

_SCRATCH = b"<scratch>"


class DryRun:
    """The dry run of a call whose scratch directory is `path`.

    If it was stored, it has an `input_record`; if nvcc ran, it has the observer's `log`.
    """

    def __init__(self, request: Request, path: str, cache: Store, watch: Watch) -> None:
        self.log: Log | None = None
        self.input_record: InputRecord | None = None
        self._request, self._cache, self._path, self._watch = request, cache, path, watch
        self._completed: Completed | None = None
        self._transcript: Transcript | Bypass | None = None
        self._thread: threading.Thread | None = None
        cwd = os.getcwd()
        invocation = request.invocation
        self._key = keys.key_of(
            "dry run",
            [
                ("nvcc", (request.nvcc,)),
                ("arguments", invocation.dryrun_arguments),
                ("directory", (cwd, request.guarded_environ.get("PWD", ""))),
                ("environment", (environment.digest_of(environment.WHOLE, request.guarded_environ),)),
                ("scratch", (os.path.dirname(path),)),
            ],
        )

    def begin(self) -> None:
        """Find the stored dry run, or start nvcc on a thread of its own."""
        self._completed = self._find()
        if not self._completed:
            with contextlib.suppress(RuntimeError):  # no thread: `transcript` runs nvcc
                thread = threading.Thread(target=self._try, daemon=True)
                thread.start()
                self._thread = thread

    def transcript(self) -> Transcript | Bypass:
        """What nvcc would run; a Bypass if nvcc's output is unusable. Raises OSError if nvcc cannot run."""
        if self._thread:
            self._thread.join()
        self._transcript = self._transcript or self._transcribe()
        return self._transcript

    def _try(self) -> None:
        with contextlib.suppress(OSError):  # `transcript` tries again, and raises the error
            self._transcript = self._transcribe()

    def _transcribe(self) -> Transcript | Bypass:
        request = self._request
        arguments, environ = request.invocation.dryrun_arguments, request.guarded_environ
        return dryrun.transcribe(request.nvcc, arguments, self._path, environ, self._run)

    def store(self, inputs: InputRecord, since_ns: int) -> None:
        """Store the dry run of a call that began at `since_ns`, with the record of its inputs."""
        if self._completed and _SCRATCH not in self._completed.stderr:
            stderr = self._completed.stderr.replace(os.fsencode(self._path), _SCRATCH)
            record.add_private(self._key, inputs, stderr, self._cache, since_ns)

    def _run(self, argv: Sequence[str], environ: Mapping[str, str]) -> Completed:
        if not self._completed:
            self._completed, self.log = self._watch.run(argv, environ)
        return self._completed

    def _find(self) -> Completed | None:
        """The stored dry run, if nvcc would print the same now.

        None if other users may write to the cache, since the stored commands are executed.
        """
        config = self._request.config
        if config.recache or not directory.is_private(config.dir):
            return None
        now = CurrentState(self._request.guarded_environ, self._request.now)
        stored = record.find_private(self._key, self._cache, now)
        if not stored:
            return None
        self.input_record, stderr = stored
        return Completed(0, b"", stderr.replace(_SCRATCH, os.fsencode(self._path)), 0.0)

"""Running the tools of one call under the observer: each run has a directory of its own, with its own log."""

from __future__ import annotations

import itertools
import os
import threading

from nvccache.machine import process, watchdog
from nvccache.observation import observer, process_checks
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.machine.process import Completed, Handle
    from nvccache.observation.observer_log import Observation


_LOOKED_FOR = f"its text asks for `{observer.VARIABLE}`"
LONGEST_REHEARSAL = 10  # seconds


class Log:
    """What the observer has written of one run of `program`; `why_not` is why there is nothing, or empty."""

    __slots__ = ("_directory", "_observation", "_program", "_why_not")

    def __init__(self, directory: str, program: str, why_not: str = "") -> None:
        self._directory, self._program, self._why_not = directory, program, why_not
        self._observation: Observation | None = None

    def read(self) -> Observation:
        """What it shows; read once, as it does not change any more."""
        from nvccache.observation import observer_log

        if self._why_not:
            return observer_log.Observation([], set(), self._why_not)
        if self._observation is None:
            self._observation = observer_log.read(observer.log_in(self._directory), self._program)
        return self._observation


class Watch:
    """Runs the tools of one call, and has them observed unless there is a reason, a clause, `why_not`."""

    def __init__(self, scratch: str, why_not: str) -> None:
        self._scratch = scratch
        self.why_not = why_not
        self._numbers = itertools.count()  # counts on in one step, whichever thread asks

    @property
    def is_blind(self) -> bool:
        """Whether nothing is observed."""
        return bool(self.why_not)

    def run(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        handle: Handle | None = None,
        on_terminal: bool = False,
    ) -> tuple[Completed, Log]:
        """Run a tool to its end; raises OSError when it cannot be started."""
        program = toolchain.resolve(argv[0], environ.get("PATH", ""))
        if self.is_blind or observer.is_looked_for(program):
            completed = process.run(argv, environ, handle=handle, on_terminal=on_terminal)
            return completed, Log("", argv[0], self.why_not or _LOOKED_FOR)
        directory = os.path.join(self._scratch, f"watched-{next(self._numbers)}")
        armed = observer.arm(directory, environ)
        completed = process.run(argv, armed, handle=handle, on_terminal=on_terminal)
        completed.stderr = observer.without_loader_messages(completed.stderr, directory)
        return completed, Log(directory, program)

    def _end(self, handle: Handle) -> None:
        handle.end()
        watchdog.end_tools(self._scratch)  # also what it has left behind

    def rehearse(
        self, argv: Sequence[str], environ: Mapping[str, str], on_terminal: bool, of_nvcc: bool = False
    ) -> tuple[Completed, Log]:
        """What a wrapper says and does up to where it starts a compiler, or nvcc; raises OSError."""
        program = toolchain.resolve(argv[0], environ.get("PATH", ""))
        if observer.is_looked_for(program):
            return process.Completed(0, b"", b"", 0.0), Log("", argv[0], _LOOKED_FOR)
        directory = os.path.join(self._scratch, f"watched-{next(self._numbers)}")
        armed = observer.arm(directory, environ)
        observer.rehearse(directory, process_checks.handed_down(), of_nvcc)
        handle = process.Handle()
        # It may wait for what it is kept from doing.
        limit = threading.Timer(LONGEST_REHEARSAL, self._end, (handle,))
        limit.daemon = True
        limit.start()
        try:
            completed = process.run(argv, armed, handle=handle, on_terminal=on_terminal)
        finally:
            limit.cancel()
            limit.join()  # or it would end what runs next
        why_not = f"it took more than {LONGEST_REHEARSAL} s" if handle.is_ended else ""
        return completed, Log(directory, program, why_not)

"""What a call asks of other machines: whether a stage may be sent, a place among those that are away, a try.

Beside the slots of this user and machine (machine/slots.py) lie a file for each stage that is away, one for
an engine that is left alone (remote/breaker.py), and one with a byte for each stage in a row that an engine
took and did not give back. One such stage may be its own fault, or that of one worker; where it is one after
the other, the engine is of no use, though it answers.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping

from nvccache import endpoint, log
from nvccache.config import Config
from nvccache.files import keys, untrusted
from nvccache.machine import slots
from nvccache.machine.process import Handle
from nvccache.machine.slots import PoolSlot
from nvccache.plan.model import Stage
from nvccache.remote.breaker import OF_EXECUTOR, Breaker
from nvccache.remote_execution import faults, work
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.work import Work
from nvccache.store.store import Store
from nvccache.values import dataclass

TYPE_CHECKING = False  # a call loads the one of these that it needs
if TYPE_CHECKING:
    from nvccache.remote_execution.engine import EngineTry
    from nvccache.remote_execution.prefix import LauncherTry

_JOBS = 64  # away at once where nothing else is set
_MOST_LOST = 5  # stages in a row
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Those of NVCCACHE_EXECUTOR_… and others, as far as they are needed here."""

    jobs: int  # away at once, 0 for the default
    min_seconds: float
    directory: str  # NVCCACHE_EXECUTOR_DIR
    log: str
    is_strict: bool  # a bug of ours surfaces


class Executor:
    """Other machines, for one call."""

    def __init__(
        self, where: endpoint.Endpoint, settings: Settings, store: Store, environ: Mapping[str, str]
    ) -> None:
        self._endpoint = where
        self._settings = settings
        self._store = store
        self._environ = environ
        self._locks = slots.pool_directory()
        self._breaker = Breaker(OF_EXECUTOR.format(where.identity))
        self._pool = slots.Pool(self._locks, range(settings.jobs or _JOBS), f"away-{where.identity}-")
        self._losses = Losses(self._locks, where.identity)
        self._is_open: bool | None = None

    @property
    def shown(self) -> str:
        return self._endpoint.shown

    @property
    def is_strict(self) -> bool:
        return self._settings.is_strict

    @property
    def is_in_use(self) -> bool:
        """Whether anything is sent at present."""
        if self._is_open is None:
            outage = self._breaker.outage()
            self._is_open = outage is None or time.time() >= outage.until
        return self._is_open

    def expected(self, stage: Stage, cwd: str, input_bytes: int) -> float:
        return expected_seconds(stage, cwd, input_bytes, self._store)

    def remember(self, stage: Stage, cwd: str, seconds: float) -> None:
        """Remember what a stage took, for the next time."""
        remember_seconds(stage, cwd, seconds, self._store)

    def is_worth_it(self, stage: Stage, seconds: float, environ: Mapping[str, str]) -> bool:
        """Whether a stage that is expected to take so long may be sent, and is to be."""
        is_worth_it = seconds >= self._settings.min_seconds and not work.reason_to_stay(stage, environ)
        return is_worth_it and self._breaker.may_ask()

    def place(self) -> PoolSlot | None:
        """A place among those that are away at once, or None."""
        return self._pool.take()

    def attempt(self, sent: Work, handle: Handle) -> EngineTry | LauncherTry:
        if self._endpoint.is_launcher:
            from nvccache.remote_execution.prefix import LauncherTry

            return LauncherTry(
                self._endpoint, sent, self._settings.directory, self._environ, self._store, handle
            )
        from nvccache.remote_execution.engine import EngineTry

        attempt = EngineTry(self._endpoint, sent, self._locks)
        handle.tell(attempt.end)
        return attempt

    def succeeded(self) -> None:
        self._breaker.close()
        self._losses.forget()

    def lost(self) -> None:
        """Note that a stage was made here which the engine had begun: too many in a row end the sending."""
        count = self._losses.add()
        if count >= _MOST_LOST:
            self._losses.forget()
            self._leave_alone(faults.FAILED, f"{count} stages in a row failed there, or were faster here")

    def failed(self, error: AwayError) -> None:
        """Note why a stage has to run here; what others would meet as well ends the sending for a while."""
        if error.word == faults.OVERTAKEN:
            return
        log.write(self._settings.log, f"{self.shown}: {error.word}: {error}")
        if error.word in faults.OPEN_BREAKER:
            self._leave_alone(error.word, str(error))

    def _leave_alone(self, word: str, text: str) -> None:
        self._breaker.trip(word, text)
        self._is_open = False


class Losses:
    """How many stages in a row an engine took and did not give back, over all calls of this user here.

    Without a directory they are counted for this process only.
    """

    def __init__(self, directory: str, identity: str) -> None:
        self._path = f"{directory}/executor-{identity}.lost" if directory else ""
        self._own = 0

    def add(self) -> int:
        """Count one more; how many there are in a row."""
        self._own += 1
        if not self._path:
            return self._own
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | untrusted.FILE, 0o600)
        except OSError:
            return self._own
        try:
            os.write(descriptor, b".")
            return os.fstat(descriptor).st_size
        except OSError:
            return self._own
        finally:
            os.close(descriptor)

    def forget(self) -> None:
        """One has come back."""
        self._own = 0
        if self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def expected_seconds(stage: Stage, cwd: str, input_bytes: int, store: Store) -> float:
    """How long a stage may be expected to take: as long as the last time, else by the size of its input.

    Remembered for the command and the names of what it reads, whatever these hold: an edit seldom changes it
    much.
    """
    try:
        return float(store.find_memo(_key(stage, cwd)))
    except ValueError:
        return stage.tool.seconds_per_mib * input_bytes / _MIB


def remember_seconds(stage: Stage, cwd: str, seconds: float, store: Store) -> None:
    # An engine need not say how long it took to make a result that it has kept.
    if stage.tool.may_run_elsewhere and seconds > 0:
        store.add_memo(_key(stage, cwd), f"{seconds:.3f}")


def _key(stage: Stage, cwd: str) -> str:
    names = [os.path.basename(path) for path in stage.inputs]
    return keys.key_of("took", [("argv", stage.key_argv), ("inputs", tuple(names)), ("directory", (cwd,))])


def of_config(config: Config, store: Store, environ: Mapping[str, str]) -> Executor:
    """What the settings name."""
    limits = config.executor_jobs, config.executor_min_seconds
    settings = Settings(*limits, config.executor_dir, config.log, config.strict)
    return Executor(endpoint.parse(config.executor), settings, store, environ)

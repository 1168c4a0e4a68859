"""What a call asks of other machines: whether a stage may be sent, a place among those that are away, a try.

One file for each stage that is away lies beside the slots of this user and machine (machine/slots.py), and
one for an engine that is left alone (remote/breaker.py).
"""

from __future__ import annotations

import time

from nvccache import endpoint, log
from nvccache.machine import slots
from nvccache.remote.breaker import Breaker
from nvccache.remote_execution import expectations, faults, work
from nvccache.remote_execution.losses import Losses
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.config import Config
    from nvccache.machine.process import Handle
    from nvccache.machine.slots import PoolSlot
    from nvccache.plan.model import Stage
    from nvccache.remote_execution.engine import EngineTry
    from nvccache.remote_execution.faults import AwayError
    from nvccache.remote_execution.prefix import LauncherTry
    from nvccache.remote_execution.work import Work
    from nvccache.store.store import Store

BREAKER = "executor-{}"  # by the identity of the endpoint
_JOBS = 64  # away at once where nothing else is set
_MOST_LOST = 5  # stages in a row


@dataclass(frozen=True, slots=True)
class Settings:
    """`directory` is NVCCACHE_EXECUTOR_DIR."""

    jobs: int
    min_seconds: float
    directory: str
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
        self._breaker = Breaker(BREAKER.format(where.identity))
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
        return expectations.seconds_of(stage, cwd, input_bytes, self._store)

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


def of_config(config: Config, store: Store, environ: Mapping[str, str]) -> Executor | None:
    """What the settings name, or None."""
    if not config.executor:
        return None
    limits = config.executor_jobs, config.executor_min_seconds
    settings = Settings(*limits, config.executor_dir, config.log, config.strict)
    return Executor(endpoint.parse(config.executor), settings, store, environ)

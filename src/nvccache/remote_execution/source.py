"""Other machines as a source of results: what is sent, when one has been away for too long, what comes back.

A stage there has nothing but what was sent: that is in its key, as are the files of its tool. So what it
reads beside its key is known without watching it, and is what a watched run here asks for.

A stage that is away keeps its claim and has neither slot nor memory. It is sent where no core is idle here. A
second try begins here when one is overdue, or waits for a worker while a core is idle: the first that ends
counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from nvccache import module_id as ids
from nvccache.compile import sources
from nvccache.compile.jobs import Jobs
from nvccache.compile.tasks import Promise, Source, State, Task
from nvccache.config import Config
from nvccache.execution import run_stage
from nvccache.execution.run_stage import LostResultError, Made
from nvccache.execution.staged_call import StagedCall
from nvccache.machine.process import Completed, Handle
from nvccache.machine.slots import PoolSlot, Slot
from nvccache.module_id import ROLE
from nvccache.plan import stage_key
from nvccache.plan.model import Output, Stage
from nvccache.remote_execution import executor, faults, shipped, work
from nvccache.remote_execution.executor import Executor
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.work import PLACE, CameBack, Work
from nvccache.store.store import Store
from nvccache.values import replace

TYPE_CHECKING = False  # a call loads the one of these that it needs
if TYPE_CHECKING:
    from nvccache.compile.tasks import SourceOf
    from nvccache.remote_execution.engine import EngineTry
    from nvccache.remote_execution.prefix import LauncherTry

_PLACE = PLACE.encode()
_TELLS_PLACE = "stub"  # its lines name the file itself, and workspace.py takes that out
_PATIENCE = 1.0  # seconds in a queue before an idle core takes over
_LATE_FACTOR, _LATE_SECONDS = 1.5, 2.0  # of what a stage is expected to take, and on top of it
_UNMOVED_SECONDS = 3.0  # in a queue, from which on the engine is left alone


def of_config(config: Config, store: Store, environ: Mapping[str, str]) -> SourceOf:
    """What makes the source of a call, on the executor that is set."""
    where = executor.of_config(config, store, environ)
    return lambda call: OtherMachines(Sending(call, where))


class OtherMachines(Source):
    """The engine of one call."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._away: dict[Task, Trip] = {}

    def offer(self, task: Task) -> Trip | None:
        """A place for a stage that is worth sending, once."""
        if task.stays or task in self._away:
            return None
        expected = self._sending.expected_seconds(task.stage)
        place = self._sending.executor.place() if expected else None
        if not place:
            return None
        self._away[task] = Trip(task, self._sending, place, expected, self._away)
        return self._away[task]

    def note_end(self, task: Task) -> None:
        """Remember what a stage took, for the next time, and that it failed elsewhere if only there."""
        completed = task.completed
        if completed and completed.status == 0:
            self._sending.note_time(task.stage, completed.seconds)
            if task.why_here == faults.FAILED:
                self._sending.executor.lost()

    def close(self) -> None:
        for trip in tuple(self._away.values()):
            trip.give_place_back()


class Trip(Promise):
    """One stage on its way to another machine and back."""

    __slots__ = ("_away", "_expected", "_place", "_sending", "_started", "_told")
    poll_seconds = sources.POLL_FOR_SLOTS_SECONDS

    def __init__(
        self, task: Task, sending: Sending, place: PoolSlot, expected: float, away: dict[Task, Trip]
    ) -> None:
        super().__init__(task)
        self._sending = sending
        self._place = place
        self._expected = expected  # seconds
        self._away = away
        self._started = time.monotonic()
        self._told: list[EngineTry | LauncherTry] = []  # the try, once there is one

    def begin(self, jobs: Jobs) -> None:
        stage = self.task.stage
        self.job = jobs.start(lambda handle: self._sending.run(stage, handle, self._told))

    def admits(self, slot: Slot | None) -> bool:
        """Beside one that is overdue, in any slot; beside one in a queue, on an idle core."""
        allowance = self._told[0].allowance if self._told else 0.0
        if self._seconds > self._expected * _LATE_FACTOR + _LATE_SECONDS + allowance:
            return True
        return self._is_queued and self._seconds > _PATIENCE and (slot is None or slot.is_in_pool)

    def end(self) -> bool:
        """Raises what is no trouble of other machines."""
        assert self.job
        self.give_place_back()
        if self.job.error is None:
            self._sending.executor.succeeded()
            return True
        trouble = self._as_trouble(self.job.error)
        self._sending.executor.failed(trouble)
        self.task.stays = True
        if self.task.state == State.READY and not self.task.winner:
            self.task.why_here = trouble.word
        return False

    def take(self) -> Made:
        assert self.job
        return self._sending.take(self.task.stage, self.job.result)

    def cancel(self) -> None:
        if self.job:
            self.job.handle.end()
        else:
            self.give_place_back()

    def lose(self) -> None:
        """The try here was first."""
        if self._seconds > _UNMOVED_SECONDS and self._has_not_moved:
            word = faults.NO_WORKERS if self._is_queued else faults.TIMEOUT
            self._sending.executor.failed(AwayError(word, f"nothing has begun after {self._seconds:.1f} s"))
        elif not self._has_not_moved:
            self._sending.executor.lost()
        self.task.why_here = faults.OVERTAKEN
        self.cancel()

    def give_place_back(self) -> None:
        if self._away.pop(self.task, None):
            self._place.release()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def _is_queued(self) -> bool:
        return bool(self._told) and bool(self._told[0].is_queued)

    @property
    def _has_not_moved(self) -> bool:
        """Whether it waits for a worker, or for an answer of any kind."""
        return self._is_queued or (bool(self._told) and not self._told[0].has_answered)

    def _as_trouble(self, error: BaseException) -> AwayError:
        """What went wrong with a stage that was sent; raises what is to surface."""
        if isinstance(error, AwayError):
            return error
        if isinstance(error, OSError):
            return AwayError(faults.FAILED, str(error))
        is_bug = isinstance(error, Exception) and not isinstance(error, LostResultError)
        if not is_bug or self._sending.executor.is_strict:
            raise error
        return AwayError(faults.BROKEN, f"{type(error).__name__}: {error}")


class Sending:
    """Sends stages of one call."""

    def __init__(self, call: StagedCall, executor: Executor) -> None:
        self._call = call
        self.executor = executor

    def expected_seconds(self, stage: Stage) -> float:
        """What it is expected to take, or 0 where it has to run here."""
        call = self._call
        if not self.executor.is_in_use:
            return 0.0
        may_generate = ids.generates(stage) and not call.module_ids.known_for(stage)
        if may_generate and not call.module_ids.takes_seed(stage):
            return 0.0  # the id would be of another process, and perhaps made once more
        seconds = self.executor.expected(stage, call.cwd, call.input_bytes(stage))
        return seconds if self.executor.is_worth_it(stage, seconds, call.environ) else 0.0

    def note_time(self, stage: Stage, seconds: float) -> None:
        """Remember what a stage took, for the next time."""
        self.executor.remember(stage, self._call.cwd, seconds)

    def run(self, stage: Stage, handle: Handle, told: list[EngineTry | LauncherTry]) -> CameBack:
        """Have a stage run elsewhere; raises AwayError, LostResultError or OSError.

        The try is put into `told`, so that others see how it fares.
        """
        run_stage.make_inputs(self._call, stage)
        attempt = self.executor.attempt(self._work(stage), handle)
        told.append(attempt)
        back = attempt.run()
        if self._call.terminal and back.stderr:
            raise AwayError(faults.FAILED, "what it says may look different on a terminal")
        for output in self._made_there(stage, back):
            if output.role != _TELLS_PLACE and _PLACE in back.outputs[self._name(output)]:
                raise AwayError(faults.FAILED, "its result tells where it was made")
        return back

    def take(self, stage: Stage, back: CameBack) -> Made:
        """Take in what has come back, as if the stage had run here; raises OSError."""
        scratch = os.fsencode(self._call.plan.scratch)
        for output in self._made_there(stage, back):
            content = back.outputs[self._name(output)]
            if output.role == _TELLS_PLACE:
                content = content.replace(_PLACE, scratch)
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
            with open(output.path, "wb") as stream:
                stream.write(content)
        said = [text.replace(_PLACE, scratch) for text in (back.stdout, back.stderr)]
        completed = Completed(0, said[0], said[1], back.costs.run)
        run_stage.take_in(self._call, stage)
        return Made(completed, costs=back.costs)

    def _work(self, stage: Stage) -> Work:
        call = self._call
        loaded = stage_key.loaded_by(stage, call.environ, call.store)
        tool = shipped.of_tool(stage.argv[0], loaded, call.environ, call.store)
        reads_id = call.module_ids.provide(stage)
        argv = run_stage.argv_to_run(call, stage, reads_id=reads_id)
        read = call.read_by(stage)
        if reads_id:
            read += [output.path for output in stage.outputs if output.role == ROLE]
            stage = replace(stage, outputs=tuple(each for each in stage.outputs if each.role != ROLE))
        return work.of_stage(stage, argv, read, call.plan.scratch, tool, call.environ)

    def _made_there(self, stage: Stage, back: CameBack) -> list[Output]:
        """What a stage wrote: an id that it was told lies here."""
        return [
            output
            for output in stage.kept_outputs
            if output.role != ROLE or self._name(output) in back.outputs
        ]

    def _name(self, output: Output) -> str:
        return output.path.removeprefix(self._call.plan.scratch + "/")

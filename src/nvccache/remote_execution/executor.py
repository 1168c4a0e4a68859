"""Other machines for one call: which stages may be sent, what goes with one, and what its result is worth.

A stage there has nothing but what was sent: that is in its key, as are the files of its tool. So what it
reads beside its key is known without watching it, and is what a watched run here asks for.

Beside the slots of this user and machine (machine/slots.py) lie a file for each stage that is away, and what
keeps an engine alone that has failed, or taken several stages in a row and given none back
(remote/breaker.py). One such stage may be its own fault, or that of one worker; where it is one after the
other, the engine is of no use, though it answers.
"""

from __future__ import annotations

import os
import time

from nvccache import log
from nvccache import module_id as ids
from nvccache.config import Config
from nvccache.endpoint import Endpoint
from nvccache.execution import run_stage
from nvccache.execution.run_stage import Made
from nvccache.execution.staged_call import StagedCall
from nvccache.files import keys
from nvccache.machine import slots
from nvccache.machine.process import Completed, Handle
from nvccache.machine.slots import PoolSlot
from nvccache.module_id import ROLE
from nvccache.plan import stage_key
from nvccache.plan.model import Output, Stage
from nvccache.remote.breaker import OF_EXECUTOR, Breaker
from nvccache.remote_execution import faults, work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import PLACE, CameBack, Work
from nvccache.values import replace

TYPE_CHECKING = False  # a call loads the one of these that it needs
if TYPE_CHECKING:
    from nvccache.remote_execution.engine import EngineTry
    from nvccache.remote_execution.prefix import LauncherTry

_JOBS = 64  # away at once where nothing else is set
_MOST_LOST = 5  # stages in a row
_MIB = 1 << 20
_PLACE = PLACE.encode()
_TELLS_PLACE = "stub"  # its lines name the file itself, and workspace.py takes that out


class Executor:
    """The engine or launcher that is set, for one call."""

    def __init__(self, call: StagedCall, where: Endpoint, config: Config) -> None:
        self._call = call
        self._endpoint = where
        self._config = config
        self.is_strict = config.strict
        self._locks = slots.pool_directory()
        self._breaker = Breaker(OF_EXECUTOR.format(where.identity))
        self._pool = slots.Pool(self._locks, range(config.executor_jobs or _JOBS), f"away-{where.identity}-")
        self._is_in_use: bool | None = None  # None before the breaker was looked at

    def expected_seconds(self, stage: Stage) -> float:
        """What it is expected to take, or 0 where it has to run here."""
        call = self._call
        if not self._may_be_used():
            return 0.0
        may_generate = ids.generates(stage) and not call.module_ids.known_for(stage)
        if may_generate and not call.module_ids.takes_seed(stage):
            return 0.0  # the id would be of another process, and perhaps made once more
        seconds = self._remembered(stage)
        is_worth_it = seconds >= self._config.executor_min_seconds
        if not is_worth_it or work.reason_to_stay(stage, call.environ) or not self._breaker.may_ask():
            return 0.0
        return seconds

    def remember(self, stage: Stage, seconds: float) -> None:
        """Remember what a stage took, for the next time."""
        # An engine need not say how long it took to make a result that it has kept.
        if stage.tool.may_run_elsewhere and seconds > 0:
            self._call.store.add_memo(self._key(stage), f"{seconds:.3f}")

    def place(self) -> PoolSlot | None:
        """A place among those that are away at once, or None."""
        return self._pool.take()

    def attempt(self, stage: Stage, handle: Handle) -> EngineTry | LauncherTry:
        """A stage that is about to be sent; raises ExecutorError, LostResultError or OSError."""
        call = self._call
        run_stage.make_inputs(call, stage)
        sent = self._work(stage)
        if self._endpoint.is_launcher:
            from nvccache.remote_execution.prefix import LauncherTry

            directory, environ = self._config.executor_dir, call.context.environ
            return LauncherTry(self._endpoint, sent, directory, environ, call.store, handle)
        from nvccache.remote_execution.engine import EngineTry

        attempt = EngineTry(self._endpoint, sent, self._locks)
        handle.on_end(attempt.end)
        return attempt

    def checked(self, stage: Stage, back: CameBack) -> CameBack:
        """What has come back, if it is what a run here would have given; raises ExecutorError."""
        if self._call.terminal and back.stderr:
            raise ExecutorError(faults.FAILED, "what it says may look different on a terminal")
        for output in self._made_there(stage, back):
            if output.role != _TELLS_PLACE and _PLACE in back.outputs[self._name(output)]:
                raise ExecutorError(faults.FAILED, "its result tells where it was made")
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
        stdout, stderr = (text.replace(_PLACE, scratch) for text in (back.stdout, back.stderr))
        completed = Completed(0, stdout, stderr, back.costs.run)
        run_stage.take_in(self._call, stage)
        return Made(completed, costs=back.costs)

    def succeeded(self) -> None:
        self._breaker.close()

    def lost(self) -> None:
        """Note that a stage was made here which the engine had begun: too many in a row end the sending."""
        count = self._breaker.count_loss()
        if count >= _MOST_LOST:
            self._leave_alone(faults.FAILED, f"{count} stages in a row failed there, or were faster here")

    def failed(self, error: ExecutorError) -> None:
        """Note why a stage has to run here; what others would meet as well ends the sending for a while."""
        if error.word == faults.OVERTAKEN:
            return
        log.write(self._config.log, f"{self._endpoint.shown}: {error.word}: {error}")
        if error.word in faults.OPEN_BREAKER:
            self._leave_alone(error.word, str(error))

    def _leave_alone(self, word: str, text: str) -> None:
        self._breaker.trip(word, text)
        self._is_in_use = False

    def _may_be_used(self) -> bool:
        """Whether anything is sent at present; to look does not keep other calls from trying again."""
        if self._is_in_use is None:
            outage = self._breaker.outage()
            self._is_in_use = outage is None or time.time() >= outage.until
        return self._is_in_use

    def _remembered(self, stage: Stage) -> float:
        """How long a stage may be expected to take: as long as the last time, else by the size of its input.

        Remembered for the command and the names of what it reads, whatever these hold: an edit seldom
        changes it much.
        """
        try:
            return float(self._call.store.find_memo(self._key(stage)))
        except ValueError:
            return stage.tool.seconds_per_mib * self._call.input_bytes(stage) / _MIB

    def _key(self, stage: Stage) -> str:
        names = tuple(os.path.basename(path) for path in stage.inputs)
        components = [("argv", stage.key_argv), ("inputs", names), ("directory", (self._call.cwd,))]
        return keys.key_of("took", components)

    def _work(self, stage: Stage) -> Work:
        call = self._call
        loaded = stage_key.loaded_by(stage, call.environ, call.store)
        tool = work.of_tool(stage.argv[0], loaded, call.environ, call.store)
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

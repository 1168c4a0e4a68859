"""Running one stage on another machine: what is sent, and taking in what has come back.

A stage there has nothing but what was sent: that is in its key, as are the files of its tool. So what it
reads beside its key is known without watching it, and is what a watched run here asks for.
"""

from __future__ import annotations

import os

from nvccache import module_id as ids
from nvccache.execution import run_stage
from nvccache.execution.run_stage import Made
from nvccache.machine.process import Completed
from nvccache.module_id import ROLE
from nvccache.plan import stage_key
from nvccache.remote_execution import faults, shipped, work
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.work import PLACE
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.staged_call import StagedCall
    from nvccache.machine.process import Handle
    from nvccache.plan.model import Output, Stage
    from nvccache.remote_execution.executor import Executor
    from nvccache.remote_execution.work import CameBack, Work

_PLACE = PLACE.encode()
_TELLS_PLACE = "stub"  # its lines name the file itself, and workspace.py takes that out


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
        may_generate = ids.generates(stage) and not call.own_ids.known_for(stage)
        if may_generate and not call.seeds.takes_seed(stage):
            return 0.0  # the id would be of another process, and perhaps made once more
        seconds = self.executor.expected(stage, call.cwd, call.input_bytes(stage))
        return seconds if self.executor.is_worth_it(stage, seconds, call.environ) else 0.0

    def note_time(self, stage: Stage, seconds: float) -> None:
        """Remember what a stage took, for the next time."""
        self.executor.remember(stage, self._call.cwd, seconds)

    def run(self, stage: Stage, handle: Handle, told: list[object]) -> CameBack:
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
        return Made(completed, (), run_stage.take_in(self._call, stage), costs=back.costs)

    def _work(self, stage: Stage) -> Work:
        call = self._call
        loaded = stage_key.loaded_by(stage, call.environ, call.store)
        tool = shipped.of_tool(stage.argv[0], loaded, call.environ, call.store)
        is_told = call.own_ids.tell(stage)
        argv = run_stage.argv_to_run(call, stage, is_told=is_told)
        read = call.read_by(stage)
        if is_told:
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

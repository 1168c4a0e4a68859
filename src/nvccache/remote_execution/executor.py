"""The executor of one call: which stages may be sent, with which files, and whether to accept a result.

A stage on another machine can read only what was sent with it: its inputs and the files of its tool, all of
them part of its key. Its dependencies are therefore known without an observer, and equal those that the
observer records of a local run.

The pool directory of this user and machine (machine/slots.py) also has a lock file for each stage that runs
elsewhere, and the breaker (remote/breaker.py). The breaker opens when the engine fails, and when several
stages in a row got no result: one lost stage may be due to the stage or to one worker, but an engine that
loses all of them is useless even if it answers.
"""

from __future__ import annotations

import os

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
from nvccache.remote import outages
from nvccache.remote_execution import faults, work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult, Work
from nvccache.values import replace

TYPE_CHECKING = False  # a call loads the one of these that it needs
if TYPE_CHECKING:
    from nvccache.remote_execution.engine import EngineExecution
    from nvccache.remote_execution.prefix import LauncherExecution

_JOBS = 64  # stages that run elsewhere at the same time, by default
_MIB = 1 << 20
_SCRATCH_NAME = SCRATCH_NAME.encode()
_NAMES_SCRATCH = "stub"  # the role whose `#line`s name the file itself; workspace.py removes that


class Executor:
    """The configured engine or launcher, for one call."""

    def __init__(self, call: StagedCall, where: Endpoint, config: Config) -> None:
        self._call = call
        self._endpoint = where
        self._config = config
        self.is_strict = config.strict
        self._locks = slots.pool_directory()
        self._outage = outages.OF_EXECUTOR.format(where.identity)
        self._pool = slots.Pool(self._locks, range(config.executor_jobs or _JOBS), f"away-{where.identity}-")
        self._is_usable: bool | None = None  # None until the breaker has been checked

    def expected_seconds(self, stage: Stage) -> float:
        """The expected time of a stage, or 0 if it has to run here."""
        call = self._call
        if not self._may_be_used():
            return 0.0
        may_generate = ids.generates(stage) and not call.module_ids.known_id_of(stage)
        if may_generate and not call.module_ids.takes_seed(stage):
            return 0.0  # the id would depend on the remote process, and a run here could make another
        seconds = self._estimated_seconds(stage)
        is_worth_it = seconds >= self._config.executor_min_seconds
        if not is_worth_it or work.reason_not_remote(stage, call.environ):
            return 0.0
        return seconds

    def remember(self, stage: Stage, seconds: float) -> None:
        """Remember how long a stage took, for the next estimate."""
        # For a cached result an engine may leave out the time.
        if stage.tool.may_run_elsewhere and seconds > 0:
            self._call.store.add_memo(self._key(stage), f"{seconds:.3f}")

    def take_slot(self) -> PoolSlot | None:
        """One of the slots for stages that run elsewhere, or None if all are taken."""
        return self._pool.take()

    def prepare(self, stage: Stage, handle: Handle) -> EngineExecution | LauncherExecution:
        """Make the inputs of a stage to send; raises ExecutorError, LostResultError or OSError."""
        call = self._call
        run_stage.make_inputs(call, stage)
        sent = self._work(stage)
        if self._endpoint.is_launcher:
            from nvccache.remote_execution.prefix import LauncherExecution

            directory, environ = self._config.executor_dir, call.context.environ
            return LauncherExecution(self._endpoint, sent, directory, environ, call.store, handle)
        from nvccache.remote_execution.engine import EngineExecution

        execution = EngineExecution(self._endpoint, sent, self._locks)
        handle.on_end(execution.end)
        return execution

    def checked(self, stage: Stage, result: RemoteResult) -> RemoteResult:
        """The result, if a local run would have given the same; raises ExecutorError."""
        for output in self._outputs_made(stage, result):
            if output.role != _NAMES_SCRATCH and _SCRATCH_NAME in result.outputs[self._name(output)]:
                raise ExecutorError(faults.FAILED, "an output contains the path where it was made")
        return result

    def take(self, stage: Stage, result: RemoteResult) -> Made:
        """Write the outputs as if the stage had run here; raises OSError."""
        scratch = os.fsencode(self._call.plan.scratch)
        for output in self._outputs_made(stage, result):
            content = result.outputs[self._name(output)]
            if output.role == _NAMES_SCRATCH:
                content = content.replace(_SCRATCH_NAME, scratch)
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
            with open(output.path, "wb") as stream:
                stream.write(content)
        stdout, stderr = (text.replace(_SCRATCH_NAME, scratch) for text in (result.stdout, result.stderr))
        completed = Completed(0, stdout, stderr, result.costs.run)
        run_stage.take_in(self._call, stage)
        return Made(completed, costs=result.costs)

    def note_success(self) -> None:
        outages.end(self._outage)

    def note_loss(self) -> None:
        """Note that a stage ran here after the engine had begun it."""
        self._begin_outage(faults.FAILED, "a stage failed there or was faster here")

    def note_failure(self, error: ExecutorError) -> None:
        """Note why a stage has to run here; a fault that other stages would meet too opens the breaker."""
        if error.fault == faults.OVERTAKEN:
            return
        log.write(self._config.log, f"{self._endpoint.shown}: {error.fault}: {error}")
        if error.fault in faults.OPEN_BREAKER:
            self._begin_outage(error.fault, str(error))

    def _begin_outage(self, fault: str, text: str) -> None:
        outages.begin(self._outage, fault, text)
        self._is_usable = False

    def _may_be_used(self) -> bool:
        if self._is_usable is None:
            self._is_usable = outages.current(self._outage) is None
        return self._is_usable

    def _estimated_seconds(self, stage: Stage) -> float:
        """As long as the last time, else by the size of the inputs.

        Remembered by command and input names, not contents: an edit seldom changes the time much.
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
        reads_id = call.module_ids.write_known_id(stage)
        argv = run_stage.argv_to_run(call, stage, reads_id=reads_id)
        read = call.read_by(stage)
        if reads_id:
            read += [output.path for output in stage.outputs if output.role == ROLE]
            stage = replace(stage, outputs=tuple(each for each in stage.outputs if each.role != ROLE))
        return work.of_stage(stage, argv, read, call.plan.scratch, tool, call.environ)

    def _outputs_made(self, stage: Stage, result: RemoteResult) -> list[Output]:
        """The outputs of a stage, without the module id file if it was an input instead."""
        return [
            output
            for output in stage.kept_outputs
            if output.role != ROLE or self._name(output) in result.outputs
        ]

    def _name(self, output: Output) -> str:
        return output.path.removeprefix(self._call.plan.scratch + "/")

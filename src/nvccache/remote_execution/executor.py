"""The executor of one call: which stages may be sent, with which files, and whether to accept a result.

A stage on another machine can read only what was sent with it: its inputs and the files of its tool, all of
them part of its key. Its dependencies are therefore known without an observer, and equal those that the
observer records of a local run.

The pool directory of this user and machine (machine/slots.py) also has a lock file for each stage that runs
elsewhere.
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
from nvccache.machine import slots
from nvccache.machine.process import Completed, Handle
from nvccache.machine.slots import PoolSlot
from nvccache.module_id import ROLE
from nvccache.plan.model import Output, Stage
from nvccache.remote import outages
from nvccache.remote_execution import faults, work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult, Work
from nvccache.values import replace

_JOBS = 64  # stages that run elsewhere at the same time, by default
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
        self._pool = slots.Pool(
            slots.pool_directory(), range(config.executor_jobs or _JOBS), f"away-{where.identity}-"
        )
        self._is_usable = outages.current(self._outage) is None

    def may_send(self, stage: Stage) -> bool:
        """Whether another machine may run a stage: it would give the same result, and works now."""
        call = self._call
        may_generate = ids.generates(stage) and not call.module_ids.known_id_of(stage)
        if may_generate and not call.module_ids.takes_seed(stage):
            return False  # the id would depend on the remote process, and a run here could make another
        return self._is_usable and not work.reason_not_remote(stage, call.environ)

    def take_slot(self) -> PoolSlot | None:
        """One of the slots for stages that run elsewhere, or None if all are taken."""
        return self._pool.take()

    def run(self, stage: Stage, handle: Handle) -> RemoteResult:
        """Run a stage elsewhere; raises ExecutorError, LostResultError or OSError."""
        call = self._call
        run_stage.make_inputs(call, stage)
        sent = self._work(stage)
        if self._endpoint.is_launcher:
            from nvccache.remote_execution.prefix import LauncherExecution

            directory, environ = self._config.executor_dir, call.context.environ
            launcher = LauncherExecution(self._endpoint, sent, directory, environ, call.store, handle)
            return self.checked(stage, launcher.run())
        from nvccache.remote_execution.engine import EngineExecution

        execution = EngineExecution(self._endpoint, sent)
        handle.on_end(execution.end)
        return self.checked(stage, execution.run())

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

    def note_failure(self, error: ExecutorError) -> None:
        """Log why a stage has to run here. Nothing is sent for a while, unless its tool failed there."""
        if error.fault == faults.CANCELLED:
            return
        log.write(self._config.log, f"{self._endpoint.shown}: {error.fault}: {error}")
        if error.fault != faults.FAILED:
            self.begin_outage(error.fault, str(error))

    def begin_outage(self, fault: str, text: str) -> None:
        outages.begin(self._outage, fault, text)
        self._is_usable = False

    def _work(self, stage: Stage) -> Work:
        call = self._call
        tool = work.of_tool(stage.argv[0], call.environ, call.store)
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

"""Runs stages of a call on other machines: decides which stages are sent, and whether a result is accepted.

A stage is sent if no core is idle here. While it runs elsewhere, it keeps its claim (store/locks.py), but no
slot and no memory. If no result comes back, the stage runs here, and nothing is sent for a while
(remote/outages.py).

On another machine, a stage can read only what was sent with it: its inputs and the files of its tool, which
are all part of its key. Therefore, its dependencies are known without an observer, and are the same as an
observer would record in a local run.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from nvccache import endpoint, log, module_id
from nvccache.config import Config
from nvccache.endpoint import Endpoint
from nvccache.machine import slots
from nvccache.machine.process import Completed, Handle
from nvccache.machine.slots import PoolSlot
from nvccache.plan.model import Output, Stage
from nvccache.remote import outages
from nvccache.remote_execution import faults, work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult
from nvccache.run import run_stage
from nvccache.run.call import Compile
from nvccache.run.report import LostResultError
from nvccache.run.stage_run import Executor, MakeExecutor, StageRun, ToolRun, Work

_JOBS = 64  # the maximum number of this user's stages that run elsewhere at the same time
_SCRATCH_NAME = SCRATCH_NAME.encode()
_NAMES_SCRATCH = "stub"  # the role of a file whose `#line`s contain its own path, which call.py removes


def make_executor(config: Config) -> MakeExecutor:
    """A function that returns a new executor, as configured, for each call."""
    where = endpoint.parse(config.executor)
    return lambda call: OtherMachines(call, where, config)


class OtherMachines(Executor):
    """The configured engine or launcher, for one call."""

    def __init__(self, call: Compile, where: Endpoint, config: Config) -> None:
        self._call = call
        self._endpoint = where
        self._config = config
        self._outage = outages.OF_EXECUTOR.format(where.identity)
        # In the pool directory of this user and machine, a file for each stage that runs elsewhere.
        self._pool = slots.Pool(slots.pool_directory(), range(_JOBS), f"away-{where.identity}-")
        self._slots: list[PoolSlot] = []
        self._is_usable = outages.current(self._outage) is None

    def offer(self, run: StageRun) -> tuple[Work, Callable[[], None]] | None:
        """A job to run a stage elsewhere, and a function that frees its slot; None if it cannot be sent."""
        if run.stays_here or not self._is_usable or not work.may_be_sent(run.stage, self._call.environ):
            return None
        slot = self._pool.take()
        if not slot:
            return None
        self._slots.append(slot)
        return lambda handle: self._run(run, handle), slot.release

    def note_end(self, run: StageRun) -> None:
        """Begin an outage if a stage failed only elsewhere, since the other machine must have a fault."""
        if run.why_here == faults.FAILED and run.completed and run.completed.status == 0:
            self._begin_outage(faults.FAILED, "a stage failed on the other machine but not here")

    def close(self) -> None:
        for slot in self._slots:
            slot.release()

    def _run(self, run: StageRun, handle: Handle) -> ToolRun | None:
        """Run a stage elsewhere; None if it has to run here. Raises errors that concern the whole call."""
        try:
            return self.take_result(run.stage, self.run_stage(run.stage, handle))
        except BaseException as error:
            run.stays_here, run.why_here = True, self.note_failure(error)
            return None

    def run_stage(self, stage: Stage, handle: Handle) -> RemoteResult:
        """Run a stage elsewhere; raises ExecutorError, LostResultError or OSError."""
        call = self._call
        run_stage.make_inputs(call, stage)
        tool = work.ship_tool(stage.argv[0], call.environ, call.store)
        argv = run_stage.argv_to_run(call, stage)
        read = [*call.read_by(stage), *filter(None, [module_id.file_of(stage)])]
        described = work.describe_stage(stage, argv, read, call.plan.scratch, tool, call.environ)
        if self._endpoint.is_launcher:
            from nvccache.remote_execution import prefix

            directory = self._config.executor_dir
            result = prefix.run(self._endpoint, described, directory, call.environ, call.store, handle)
        else:
            from nvccache.remote_execution import engine  # imports grpcio

            result = engine.run(self._endpoint, described, handle)
        for output, content in self._contents(stage, result):
            if output.role != _NAMES_SCRATCH and _SCRATCH_NAME in content:
                raise ExecutorError(faults.FAILED, "an output contains the path where it was created")
        return result

    def take_result(self, stage: Stage, result: RemoteResult) -> ToolRun:
        """Write the outputs of a stage as if it had run on this machine; raises OSError."""
        scratch = os.fsencode(self._call.plan.scratch)
        for output, content in self._contents(stage, result):
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
            with open(output.path, "wb") as stream:
                stream.write(content.replace(_SCRATCH_NAME, scratch))
        done = result.completed
        stdout, stderr = (text.replace(_SCRATCH_NAME, scratch) for text in (done.stdout, done.stderr))
        run_stage.take_in(self._call, stage)
        completed = Completed(0, stdout, stderr, done.seconds, done.cpu)
        return ToolRun(completed, executor=self._endpoint.shown, was_cached=result.was_cached)

    def note_failure(self, error: BaseException) -> str:
        """Log why a stage runs here, and return the fault; raises `error` if it concerns the whole call.

        Also begins an outage, so that nothing is sent for a while, unless the fault is FAILED or CANCELLED.
        """
        if isinstance(error, OSError):
            error = ExecutorError(faults.FAILED, str(error))
        elif not isinstance(error, ExecutorError):
            is_bug = isinstance(error, Exception) and not isinstance(error, LostResultError)
            if not is_bug or self._config.strict:
                raise error
            error = ExecutorError(faults.BROKEN, f"{type(error).__name__}: {error}")
        if error.fault != faults.CANCELLED:
            log.write(self._config.log, f"{self._endpoint.shown}: {error.fault}: {error}")
            if error.fault != faults.FAILED:
                self._begin_outage(error.fault, str(error))
        return error.fault

    def _begin_outage(self, fault: str, text: str) -> None:
        outages.begin(self._outage, fault, text)
        self._is_usable = False

    def _contents(self, stage: Stage, result: RemoteResult) -> list[tuple[Output, bytes]]:
        """The outputs of a stage, with their contents."""
        scratch = self._call.plan.scratch + "/"
        return [(output, result.outputs[output.path.removeprefix(scratch)]) for output in stage.kept_outputs]

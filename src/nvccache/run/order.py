"""Which stages of a call can be looked up, and in which order they run.

Unaware of slots, other processes and the store.
"""

from __future__ import annotations

from nvccache import module_id
from nvccache.plan.model import ANY_WRAPPER
from nvccache.run.stage_run import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.plan.model import Stage
    from nvccache.run.call import Compile
    from nvccache.run.stage_run import StageRun

_LONG_SECONDS = 0.5  # long compared with a query of a remote


class Order:
    """The order of the stages of one call."""

    def __init__(self, call: Compile) -> None:
        self._call = call
        self._plan = call.plan
        self.runs = call.runs
        self.by_urgency = sorted(call.runs, key=_urgency)
        self._by_output = {output.path: run for run in call.runs for output in run.stage.outputs}
        self._first_passes: dict[str, StageRun | None] = {}  # by the file that holds the id
        self._delivered_up_to = 0  # the products of stages before this one have been delivered
        self._limit = len(call.plan.steps)  # stages after this one do not run

    def run_writing(self, path: str) -> StageRun:
        return self._by_output[path]

    def count_done(self) -> int:
        return sum(run.state == State.DONE for run in self.runs)

    def may_run(self, run: StageRun) -> bool:
        """Whether nothing before it in nvcc's order has failed."""
        return run.number < self._limit

    def note_delivery(self, run: StageRun) -> None:
        """Note that the products of a stage, and of those before it, have been delivered."""
        self._delivered_up_to = run.number + 1

    def drop_after(self, run: StageRun) -> list[StageRun]:
        """The stages after one that failed, in nvcc's order, which do not run."""
        self._limit = min(self._limit, run.number)
        return [other for other in self.runs if other.number > self._limit]

    def can_be_looked_up(self, run: StageRun) -> bool:
        if run.state != State.WAITING or run.number > self._limit:
            return False
        before = [other for other in self.runs if other.number < run.number]
        unfinished = [other for other in before if other.state != State.DONE]
        if run.stage.grammar.stays_in_order or any(each.stage.grammar.stays_in_order for each in unfinished):
            # Its inputs and outputs are not all known, so it stays in nvcc's order. It may also use products,
            # which have to be delivered before.
            return not unfinished and all(other.number < self._delivered_up_to for other in before)
        if _is_unknown_wrapper(run) and any(
            _is_unknown_wrapper(other) and other.stage.is_preprocessor == run.stage.is_preprocessor
            for other in unfinished  # compiles wait for passes
        ):
            return False  # they may use the same file, one after the other
        if run.stage.tool.waits_for_passes and not self._passes_are_done(run):
            return False
        # Not all passes: cudafe++, which finds most errors, can run before those for the device.
        first = self._first_pass_for_id(run.stage)
        if first and first.state != State.DONE:
            return False
        return all(maker.state == State.DONE for maker in self._makers(run))

    def reads_quick_output(self, run: StageRun) -> bool:
        """Whether a stage reads the output of another, not a pass, that has just run in a short time.

        No cache had that one's result, so none is likely to have this one's, and a query takes long compared
        with what it could save. Where the other took long a query is made: an edit of host code, for example,
        does not change device code.
        """
        makers = [maker for maker in self._makers(run) if not maker.stage.is_preprocessor]
        ran = [maker.completed for maker in makers if maker.completed and not maker.is_hit]
        return any(completed.seconds < _LONG_SECONDS for completed in ran)

    def _makers(self, run: StageRun) -> list[StageRun]:
        """The stages that write what a stage reads."""
        return [self._by_output[path] for path in self._call.read_by(run.stage) if path in self._by_output]

    def _first_pass_for_id(self, stage: Stage) -> StageRun | None:
        """The pass whose text is in the module id that a stage reads, if it reads one."""
        path = module_id.file_of(stage)
        if path and path not in self._first_passes:
            first = module_id.first_pass_of(self._plan, stage)
            self._first_passes[path] = self._by_output[first.outputs[0].path] if first else None
        return self._first_passes.get(path)

    def _passes_are_done(self, run: StageRun) -> bool:
        """Whether all passes that can run before a stage are done; those after a failure cannot."""
        end = min(self._limit + 1, self._plan.end_of_passes(run.number))
        passes = [other for other in self.runs if other.stage.is_preprocessor and other.number < end]
        return all(other.state == State.DONE for other in passes)


def _urgency(run: StageRun) -> tuple[int, int]:
    """A sort key: the most urgent stage is the smallest."""
    tool = run.stage.tool
    return -tool.priority, -run.number if tool.starts_in_reverse else run.number


def _is_unknown_wrapper(run: StageRun) -> bool:
    """Whether its stage runs a wrapper of a host compiler that may do anything."""
    return run.stage.wrapper == ANY_WRAPPER

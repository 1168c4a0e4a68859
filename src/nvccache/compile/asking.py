"""Asking other caches for the stages that this one does not have, on threads, while other stages go on.

Asking takes no slot and no memory. What is found is taken on the main thread. A pass may run meanwhile, and
is ended if it is found: it comes first, when connections have still to be made, and costs little.
"""

from __future__ import annotations

from nvccache.compile.tasks import State
from nvccache.execution import find_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.jobs import Job, Jobs
    from nvccache.compile.tasks import Task, Tasks
    from nvccache.execution.find_stage import Lookup
    from nvccache.execution.staged_call import StagedCall


class Asking:
    """The stages of one call that are asked for just now."""

    def __init__(self, call: StagedCall, tasks: Tasks, jobs: Jobs) -> None:
        self._call = call
        self._tasks = tasks
        self._jobs = jobs
        self._asked: dict[Job, Task] = {}

    def start(self, task: Task) -> None:
        """Ask for a stage that was looked up here and not found, if there is a chance that it is found."""
        stage, lookup = task.stage, task.lookup
        if not self._call.remote or not lookup or not lookup.is_cached:
            return
        if self._tasks.reads_what_is_new(task):
            return
        missing = lookup
        if not stage.is_preprocessor:
            task.state = State.ASKED
        job = self._jobs.start(lambda _: find_stage.find_remote(self._call, stage, missing))
        self._asked[job] = task

    def give_up(self) -> None:
        """Have nothing waited for any more."""
        if self._asked and self._call.remote:
            self._call.remote.stop_asking()

    def end(self, job: Job) -> Task | None:
        """The stage that a job asked for, with what was `found` of it; None for another job.

        Raises what asking raised.
        """
        task = self._asked.pop(job, None)
        if task is None:
            return None
        if job.error:
            raise job.error
        if task.state == State.ASKED:
            task.state = State.READY
        if task.state != State.DONE and job.result.found:
            task.found = job.result
            if task.job:
                task.job.handle.end()
        return task

    def take(self, task: Task) -> Lookup:
        """What was found of a stage that neither runs any more nor has run."""
        lookup, task.found = task.found, None
        assert lookup
        find_stage.accept(self._call, task.stage, lookup)
        return lookup

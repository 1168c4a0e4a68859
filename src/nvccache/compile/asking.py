"""Asking other caches for the stages that this one does not have, on threads, while other stages go on.

Asking takes no slot and no memory. What is found is taken on the main thread.
"""

from __future__ import annotations

from nvccache.compile.tasks import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.jobs import Job, Jobs
    from nvccache.compile.tasks import Task, Tasks
    from nvccache.execution.execution import Execution
    from nvccache.execution.find_stage import Lookup


class Asking:
    """The stages of one call that are asked for just now."""

    def __init__(self, execution: Execution, tasks: Tasks, jobs: Jobs) -> None:
        self._execution = execution
        self._tasks = tasks
        self._jobs = jobs
        self._asked: dict[Job, Task] = {}

    def start(self, task: Task) -> None:
        """Ask for a stage that was looked up here and not found, if there is a chance that it is found."""
        stage, lookup = task.stage, task.lookup
        if not self._execution.asks_beyond or not lookup or not lookup.is_cached:
            return
        if self._tasks.reads_what_is_new(task):
            return
        missing = lookup
        task.state = State.ASKED
        job = self._jobs.start(lambda _: self._execution.find_beyond(stage, missing))
        self._asked[job] = task

    def give_up(self) -> None:
        """Have nothing waited for any more."""
        if self._asked:
            self._execution.give_up_asking()

    def end(self, job: Job) -> tuple[Task, Lookup] | None:
        """The stage that a job asked for, and what is known of it now; None for another job.

        Raises what asking raised.
        """
        task = self._asked.pop(job, None)
        if task is None:
            return None
        task.state = State.READY
        if job.error:
            raise job.error
        self._execution.accept(task.stage, job.result)
        return task, job.result

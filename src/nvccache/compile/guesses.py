"""Stages of one call that run with a module id that is a guess, before nvcc's is known (seeding.py).

A wrong guess costs a run, mostly. So a stage guesses only on a core that is idle beside those that the
call uses already, or on another machine, and not where that was in vain before. Everywhere else it waits for
the stage that makes the id, which takes little beside it, and is told. What a guess has made is not gone by
before it is known to be right: until then its task is GUESSED, and holds neither slot nor memory.
"""

from __future__ import annotations

from nvccache.compile.tasks import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import Promise, Task, Tasks
    from nvccache.execution.run_stage import Made
    from nvccache.execution.seeding import ModuleIds
    from nvccache.machine.slots import Slot


class Guesses:
    """For the main thread of one call."""

    def __init__(self, own_ids: ModuleIds, tasks: Tasks) -> None:
        self._own_ids = own_ids
        self._tasks = tasks

    def has_to_wait(self, task: Task) -> bool:
        """Whether a stage that is about to start should be told the id, which is not known yet."""
        task.guesses = self._own_ids.has_to_guess(task.stage)
        return task.guesses and self._own_ids.were_in_vain(task.stage)

    def may_take(self, task: Task, slot: Slot, is_beside: bool) -> bool:
        """Whether a stage may run in a slot, where others of the call run beside or not."""
        return not task.guesses or (is_beside and slot.is_idle_core)

    def end(self, task: Task, made: Made) -> bool:
        """Whether what a stage has made can be gone by; else its task stays open, or starts again."""
        task.made = made
        if made.completed.status == 0 and self._is_open(task):
            task.state = State.GUESSED
            return False
        if made.completed.status == 0 and self._own_ids.is_unlike(task.stage):
            self.throw_away(task, made)
            return False
        return True

    def throw_away(self, task: Task, made: Made | None) -> None:
        """A stage has run in vain, to its end or not: it has to run again, and is told the id then."""
        task.in_vain += made.completed.seconds if made else 0.0
        task.made = None
        task.state = State.READY
        self._own_ids.note_in_vain(task.stage)

    def last(self, tasks: list[Task]) -> list[Task]:
        """These with those behind the others that would have to guess now."""
        return sorted(tasks, key=lambda task: self._own_ids.has_to_guess(task.stage))

    def decided(self) -> list[tuple[Task, Made]]:
        """Those that have ended, and of which it is known by now whether they were right."""
        guessed = [(task, task.made) for task in self._tasks.all if task.state == State.GUESSED]
        return [(task, made) for task, made in guessed if made and not self._own_ids.has_to_guess(task.stage)]

    def running(self) -> list[tuple[Task, Promise]]:
        """Those that still run, though what they guess is known."""
        running = [(task, task.run) for task in self._tasks.all if task.guesses]
        return [(task, run) for task, run in running if run and not self._own_ids.has_to_guess(task.stage)]

    def end_wrong_ones(self) -> None:
        """End tools that are seen to have guessed wrong."""
        for task, run in self.running():
            is_unlike = self._own_ids.is_seen_to_be_unlike(task.stage)
            if is_unlike is None:
                continue
            task.guesses = False  # whatever it is, this is seen once
            if is_unlike:
                run.is_wrong = True
                run.cancel()

    def _is_open(self, task: Task) -> bool:
        return self._own_ids.has_to_guess(task.stage) and not self._own_ids.are_not_in(task.stage)

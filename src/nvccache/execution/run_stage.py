"""Running one stage, with what it reads made before, and what it writes taken in."""

from __future__ import annotations

import contextlib
import os
import threading

from nvccache.execution import object_place, rehearsals
from nvccache.files import keys
from nvccache.module_id import ids
from nvccache.plan.model import OPAQUE, Output, Stage
from nvccache.preprocessed import passes
from nvccache.store import store
from nvccache.values import dataclass, field, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.execution.execution import Context, Execution
    from nvccache.files.signatures import Signature
    from nvccache.machine.process import Completed, Handle
    from nvccache.observation.watch import Log
    from nvccache.preprocessed.passes import Pass
    from nvccache.remote_execution.work import Costs
    from nvccache.store.store import Store


class LostResultError(Exception):
    """The call cannot go on here, and nvcc has to do it; carries a fault in one sentence."""


@dataclass(frozen=True, slots=True)
class Made:
    """What running a stage gave, and what its runs were seen to do.

    `passes` are the facts about the text that it made, `changed` the files that were there before and are
    not the same any more. It `is_repeatable` if another run was seen to make the same, see seeding.py.
    `in_place` are the products that it wrote where the user wants them, `lay_there` those where another was
    before, and `clue`, a clause, is why the path of its object may have mattered, see object_place.py. It
    `is_as_rehearsed` unless a wrapper has become another command, see rehearsals.py.
    """

    completed: Completed
    logs: Sequence[Log]
    passes: Mapping[str, Pass] = field(default_factory=dict)
    changed: Sequence[str] = ()
    is_repeatable: bool = False
    costs: Costs | None = None  # of a run on another machine
    wall: float = 0.0  # of the call's wall time, in seconds; see stage_clock.py
    in_place: Mapping[str, Signature] = field(default_factory=dict)
    lay_there: frozenset[str] = frozenset()
    clue: str = ""
    is_as_rehearsed: bool = True


class StageRuns:
    """Runs the stages of one call."""

    def __init__(self, execution: Execution, context: Context) -> None:
        self._execution = execution
        self._context = context
        self._workspace = execution.workspace
        self._store = execution.store
        self._making = threading.RLock()

    def run(self, stage: Stage, handle: Handle | None = None) -> Made:
        """Run a stage for real, having made what it reads; raises LostResultError or OSError."""
        self.make_inputs(stage)
        for output in stage.outputs:
            if not output.is_in_place:
                os.makedirs(os.path.dirname(output.path), exist_ok=True)
                if rehearsals.is_of_host(stage):  # a wrapper may look for it, and nvcc's names are new ones
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(output.path)
            if output.begins_as:
                import shutil

                shutil.copyfile(output.begins_as, output.path)

        logs: list[Log] = []

        def carry_out(argv: Sequence[str]) -> Completed:
            on_terminal = bool(self._context.terminal)
            completed, log = self._context.watch.run(argv, self._execution.environ, handle, on_terminal)
            logs.append(log)
            return completed

        before, lay_there = self._lying_before(stage), object_place.lying_in_place(stage)
        completed = carry_out(self.argv_to_run(stage, is_told=self._execution.own_ids.tell(stage)))
        is_repeatable = False
        if completed.status == 0 and ids.generates(stage):
            kept = stage.kept_outputs
            completed, is_repeatable = self._execution.seeds.settle(stage, completed, kept, carry_out)
        if completed.status != 0:
            return Made(completed, logs)
        changed = self._adopt_changes(stage, before)
        found, in_place = self.take_in(stage), object_place.signatures_in_place(stage)
        is_as_rehearsed = self._is_as_rehearsed(stage, logs)
        clue = object_place.clue(stage, self._workspace, logs[-1], is_as_rehearsed)
        made = Made(completed, logs, found, changed, is_repeatable, clue=clue)
        return replace(made, in_place=in_place, lay_there=lay_there, is_as_rehearsed=is_as_rehearsed)

    def _is_as_rehearsed(self, stage: Stage, logs: Sequence[Log]) -> bool:
        """Whether a wrapper has become what it was to become in each of its runs."""
        execution, added = self._execution, self._added_options(stage)
        return not stage.becomes or all(
            rehearsals.is_as_rehearsed(stage, log.read(), execution.environ, added, execution.plan.scratch)
            for log in logs
        )

    def make_inputs(self, stage: Stage) -> None:
        """Have what a stage reads on disk; raises LostResultError or OSError."""
        read = (*self._execution.read_by(stage), *self._execution.own_ids.known_for(stage))
        with self._making:
            for path in (*read, *read):
                self._make(path)  # twice, since making one again can write another anew, in its stored form

    def run_again(self, stage: Stage, handle: Handle | None = None) -> Made:
        """Run a stage whose output is lost, and keep it; what came after it relies on the same bytes."""
        expected = [self._workspace.digest_of(output.path) for output in self._known_outputs(stage)]
        ran = self.run(stage, handle)
        made = [self._workspace.digest_of(output.path) for output in self._known_outputs(stage)]
        if ran.completed.status != 0 or made[: len(expected)] != expected:
            raise LostResultError(f"running {stage.kind} again did not give the same result")
        for output in self._known_outputs(stage):
            content = self._workspace.content_of(output.path)
            if content is not None and stage.grammar.is_cached:
                digest = self._workspace.digest_of(output.path)
                self._store.add_blob(digest, content, compress=not output.destination)
        return ran

    def lost_producers(self, stage: Stage) -> list[Stage]:
        """The stages that have to run again before this one can: the text of a pass is not stored."""
        writers = self._execution.outputs
        read = [path for path in self._execution.read_by(stage) if path in writers]
        return [writers[path][0] for path in read if not self._workspace.can_make(path)]

    def content_of(self, output: Output) -> bytes:
        """The content of a product, made again if the store has lost it; raises LostResultError."""
        content = self._workspace.content_of(output.path)
        if content is None:
            with self._making:
                self._make_again(output.path)
            content = self._workspace.content_of(output.path)
        assert content is not None
        return content

    def as_kept(self, output: Output, prefix: str) -> bytes:
        """An intermediate as nvcc would have left it under its name; raises LostResultError."""
        with self._making:
            self._make(output.path)
        with open(output.path, "rb") as stream:
            content = stream.read()
        return content.replace(os.fsencode(self._execution.plan.scratch) + b"/", os.fsencode(prefix))

    def _make(self, path: str) -> None:
        """Have an intermediate on disk."""
        if path not in self._execution.outputs:
            return  # written by an opaque stage, which always runs
        if not self._workspace.materialise(path, self._execution.outputs[path][1]):
            self._make_again(path)
            if not self._workspace.materialise(path, self._execution.outputs[path][1]):
                raise LostResultError(f"cannot make `{os.path.basename(path)}` again")

    def _make_again(self, path: str) -> None:
        """Run the stage whose output the store has lost."""
        stage, _ = self._execution.outputs[path]
        self.run_again(stage)

    def argv_to_run(self, stage: Stage, *, is_told: bool) -> list[str]:
        """The argv of a stage, which reads the module id if it `is_told` the one that it would make up."""
        if is_told:
            return ids.without_generating(stage.argv)
        if ids.generates(stage):
            return self._execution.seeds.argv_to_run(stage)
        argv = list(stage.argv)
        if stage.grammar.is_cached:
            argv += self._added_options(stage)
        return argv

    def _added_options(self, stage: Stage) -> Sequence[str]:
        return stage.tool.added_options(stage.command or stage.argv, self._execution.plan.scratch)

    def _lying_before(self, stage: Stage) -> dict[str, str]:
        """The digests of the intermediates that a command not understood may change where they lie."""
        if stage.kind != OPAQUE:
            return {}
        paths = [path for path in {*self._execution.outputs, *stage.inputs} if os.path.isfile(path)]
        return {path: keys.digest_file(path) for path in paths}

    def _adopt_changes(self, stage: Stage, before: dict[str, str]) -> list[str]:
        changed = []
        for path, digest in self._lying_before(stage).items():
            if before.get(path) == digest:
                continue
            with open(path, "rb") as stream:
                content = stream.read()
            self._workspace.adopt(path, content)
            changed.append(path)
        return changed

    def take_in(self, stage: Stage) -> dict[str, Pass]:
        found = {}
        for output in stage.kept_outputs:
            content = self._workspace.read_written(output)
            if stage.is_preprocessor:
                places = (self._context.checkout, self._context.cwd)
                found[output.path] = facts_of(content, places, self._store, self._context.is_recaching)
                self._workspace.take_pass(output.path, found[output.path])
        return found

    def _known_outputs(self, stage: Stage) -> list[Output]:
        kept = stage.kept_outputs
        return [output for output in kept if self._workspace.knows(output.path)]


def facts_of(content: bytes, places: Sequence[str], cache: Store, is_recaching: bool = False) -> Pass:
    """The facts about the text of a pass, kept by all that they follow from.

    A macro that nothing uses, or a comment that is worded otherwise, leaves the text as it was.
    """
    text = ("text", (keys.digest_bytes(content),))
    # Facts change their meaning with the bucket of the records that hold them.
    key = keys.key_of("facts", [("bucket", (store.RECORD,)), text, ("places", tuple(places))])
    kept = None if is_recaching else cache.find_record(store.MEMO, key)
    if kept is not None:
        try:
            return passes.decoded(kept)
        except ValueError:
            cache.remove_damaged(store.MEMO, key)
    made = passes.of_text(content, places)
    cache.add_record(store.MEMO, key, made.encoded(), lock=False)
    return made

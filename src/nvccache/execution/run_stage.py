"""Running one stage: writing its inputs to disk before, and reading its outputs after."""

from __future__ import annotations

import contextlib
import os

from nvccache import module_id, passes
from nvccache.execution import object_path, wrappers
from nvccache.files import keys
from nvccache.plan.model import OPAQUE, Output, Stage
from nvccache.store import store
from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.execution.staged_call import StagedCall
    from nvccache.files.signatures import Signature
    from nvccache.machine.process import Completed, Handle
    from nvccache.observation.observer import Log
    from nvccache.passes import Pass
    from nvccache.store.store import Store


class LostResultError(Exception):
    """A lost result cannot be made again, so nvcc has to run the call; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a stage on another machine cost: seconds by phase, and bytes in each direction."""

    queue: float = 0.0  # waiting for a worker
    send: float = 0.0
    run: float = 0.0
    fetch: float = 0.0
    sent_bytes: int = 0
    fetched_bytes: int = 0
    is_cached: bool = False  # whether the engine had the result
    where: str = ""  # the executor, for display

    def text(self) -> str:
        """In the form of the event log, see events.RemoteCosts."""
        values = [f"{seconds:.3f}" for seconds in (self.queue, self.send, self.run, self.fetch)]
        return " ".join((*values, str(self.sent_bytes), str(self.fetched_bytes), str(int(self.is_cached))))

    def shown(self) -> str:
        """For the log."""
        if self.is_cached:
            return f"the engine had it, fetched in {self.fetch:.2f} s"
        return f"queue {self.queue:.2f}, send {self.send:.2f}, fetch {self.fetch:.2f} s"


@dataclass(frozen=True, slots=True)
class Made:
    """The result of running a stage, and what was observed of its runs; its outputs are in the workspace."""

    completed: Completed
    logs: Sequence[Log] = ()
    costs: Costs | None = None  # of a run on another machine
    in_place: Mapping[str, Signature] = field(default_factory=dict)  # the products written to nvcc's path
    existed: frozenset[str] = frozenset()  # those of them that existed before
    path_dependence: str = ""  # why the path of its object may have mattered, a clause; see object_path.py
    wrapper: tuple[str, ...] = ()  # effects of its wrapper, see wrappers.py


def run(call: StagedCall, stage: Stage, handle: Handle | None = None) -> Made:
    """Run a stage, with its inputs written first; raises LostResultError or OSError."""
    make_inputs(call, stage)
    for output in stage.outputs:
        if not output.is_in_place:
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
            if stage.runs_host_compiler:  # nvcc's intermediates are new; a wrapper may look
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(output.path)
        if output.begins_as:
            import shutil

            shutil.copyfile(output.begins_as, output.path)

    logs: list[Log] = []
    # NVIDIA's tools leave temporary files if they fail, and start no servers that would outlive them.
    own = {"TMPDIR": call.plan.scratch} if stage.tool.program else {}

    def carry_out(argv: Sequence[str]) -> Completed:
        completed, log = call.context.watch.run(argv, {**call.environ, **own}, handle)
        logs.append(log)
        return completed

    before, existed = _digests_before(call, stage), object_path.existing_outputs(stage)
    argv = argv_to_run(call, stage)
    completed = carry_out(argv)
    if completed.status != 0:
        return Made(completed, logs)
    _adopt_changes(call, stage, before)
    take_in(call, stage)
    in_place = object_path.signatures_in_place(stage)
    effects = wrappers.effects_of(stage, argv, logs[-1], call.read_by(stage))
    call.note_wrapper(effects)
    return Made(
        completed,
        logs,
        in_place=in_place,
        existed=existed,
        path_dependence=object_path.path_dependence(stage, call.workspace, logs[-1], effects),
        wrapper=effects,
    )


def make_inputs(call: StagedCall, stage: Stage) -> None:
    """Write a stage's inputs to disk; raises LostResultError or OSError."""
    read = call.read_by(stage)
    with call.intermediates_lock:
        path = module_id.file_of(stage)
        if path and not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(call.module_id_of(stage))
        for path in (*read, *read):
            _make(call, path)  # twice: rerunning a stage for one can overwrite another with its stored form


def run_again(call: StagedCall, stage: Stage, handle: Handle | None = None) -> Made:
    """Run a stage whose output is lost, and store it; raises LostResultError if the bytes differ."""
    expected = [call.workspace.digest_of(output.path) for output in _known_outputs(call, stage)]
    ran = run(call, stage, handle)
    made = [call.workspace.digest_of(output.path) for output in _known_outputs(call, stage)]
    if ran.completed.status != 0 or made[: len(expected)] != expected:
        raise LostResultError(f"running {stage.kind} again did not give the same result")
    for output in _known_outputs(call, stage):
        content = call.workspace.content_of(output.path)
        if content is not None and stage.grammar.is_cached:
            digest = call.workspace.digest_of(output.path)
            call.store.add_blob(digest, content, compress=not output.destination)
    return ran


def lost_producers(call: StagedCall, stage: Stage) -> list[Stage]:
    """The stages to run again before this one, such as passes, whose text is not stored."""
    read = [path for path in call.read_by(stage) if path in call.outputs]
    return [call.outputs[path][0] for path in read if not call.workspace.can_make(path)]


def content_of(call: StagedCall, output: Output) -> bytes:
    """The content of an output, made again if the store has lost it; raises LostResultError."""
    content = call.workspace.content_of(output.path)
    if content is None:
        with call.intermediates_lock:
            run_again(call, call.outputs[output.path][0])
        content = call.workspace.content_of(output.path)
    assert content is not None
    return content


def _make(call: StagedCall, path: str) -> None:
    """Write an intermediate to disk unless it is there."""
    if path not in call.outputs:
        return  # written by an opaque stage, which always runs
    stage, output = call.outputs[path]
    if not call.workspace.materialise(path, output):
        run_again(call, stage)
        if not call.workspace.materialise(path, output):
            raise LostResultError(f"cannot make `{os.path.basename(path)}` again")


def argv_to_run(call: StagedCall, stage: Stage) -> list[str]:
    argv = list(stage.argv)
    if stage.grammar.is_cached:
        # Unless it asks for debug information, a wrapper gets no argument of ours, which it could look at.
        more = ("-g",) if stage.wrapper and call.wrapper == {wrappers.PLACES} else ()
        argv += stage.tool.added_options((*argv, *more), call.plan.scratch)
    return argv


def _digests_before(call: StagedCall, stage: Stage) -> dict[str, str]:
    """The digests of existing intermediates, which an opaque command may change in place."""
    if stage.kind != OPAQUE:
        return {}
    paths = [path for path in {*call.outputs, *stage.inputs} if os.path.isfile(path)]
    return {path: keys.digest_file(path) for path in paths}


def _adopt_changes(call: StagedCall, stage: Stage, before: dict[str, str]) -> None:
    for path, digest in _digests_before(call, stage).items():
        if before.get(path) != digest:
            with open(path, "rb") as stream:
                call.workspace.adopt(path, stream.read())


def take_in(call: StagedCall, stage: Stage) -> None:
    """Read a stage's outputs into the workspace, with the facts about its text; raises OSError."""
    for output in stage.kept_outputs:
        if stage.grammar.writes_beside and not os.path.exists(output.path):
            continue  # see object_path.path_dependence
        content = call.workspace.read_written(output)
        if stage.is_preprocessor:
            directories = [call.context.checkout] if call.context.checkout else []
            known = facts_of(content, directories, call.store, call.context.is_recaching)
            call.workspace.passes[output.path] = known


def _known_outputs(call: StagedCall, stage: Stage) -> list[Output]:
    kept = stage.kept_outputs
    return [output for output in kept if call.workspace.knows(output.path)]


def facts_of(content: bytes, directories: Sequence[str], cache: Store, is_recaching: bool = False) -> Pass:
    """The facts about the text of a pass, from a memo keyed by all that they follow from.

    Memos hit often: editing a comment or adding an unused macro does not change the text.
    """
    text = ("text", (keys.digest_bytes(content),))
    # The encoding of facts changes only together with the bucket of records, which hold them too.
    key = keys.key_of("facts", [("bucket", (store.RECORD,)), text, ("places", tuple(directories))])
    kept = None if is_recaching else cache.find_record(store.MEMO, key)
    if kept is not None:
        try:
            return passes.decoded(kept)
        except ValueError:
            cache.remove_damaged(store.MEMO, key)
    made = passes.of_text(content, directories)
    cache.add_record(store.MEMO, key, made.encoded(), lock=False)
    return made

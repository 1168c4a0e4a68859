"""Running one stage: writing its inputs to disk before it starts, and reading its outputs afterwards."""

from __future__ import annotations

import contextlib
import os
import threading

from nvccache import module_id, passes
from nvccache.files import keys, signatures
from nvccache.plan.model import OPAQUE, Output, Stage
from nvccache.run import wrappers
from nvccache.run.stage_run import ToolRun
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.machine.process import Handle
    from nvccache.passes import Pass
    from nvccache.run.call import Compile
    from nvccache.store.store import Store


class LostResultError(Exception):
    """A lost result cannot be made again, so nvcc has to run the call; the message is a sentence."""


def run(call: Compile, stage: Stage, handle: Handle | None = None) -> ToolRun:
    """Run a stage, with its inputs written first; raises LostResultError or OSError."""
    make_inputs(call, stage, handle)
    for output in stage.outputs:
        if not output.is_in_place:
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
            if stage.runs_host_compiler:  # with nvcc, intermediates are new; a wrapper may check
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(output.path)
        if output.begins_as:
            import shutil

            shutil.copyfile(output.begins_as, output.path)

    # NVIDIA's tools leave temporary files if they fail, and start no servers that would outlive them.
    own = {"TMPDIR": call.plan.scratch} if stage.tool.program else {}

    in_place = [output.path for output in stage.outputs if output.is_in_place]
    before, existed = _digests_before(call, stage), frozenset(filter(os.path.lexists, in_place))
    argv = argv_to_run(call, stage)
    completed, log = call.watch.run(argv, {**call.environ, **own}, handle)
    if completed.status != 0:
        return ToolRun(completed, log)
    _adopt_changes(call, stage, before)
    take_in(call, stage)
    effects = wrappers.effects_of(stage, argv, log, call.read_by(stage))
    call.note_wrapper(effects)
    return ToolRun(
        completed,
        log,
        in_place={path: signatures.signature_of(path) or signatures.UNKNOWN for path in in_place},
        existed=existed,
        path_dependence=wrappers.path_dependence(stage, call.intermediates, log, effects),
        wrapper=effects,
    )


def make_inputs(call: Compile, stage: Stage, handle: Handle | None = None) -> None:
    """Write a stage's inputs to disk; raises LostResultError or OSError."""
    path = module_id.file_of(stage)
    if path and not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        new = f"{path}.{threading.get_ident()}"  # several stages may write it at the same time
        with open(new, "wb") as stream:
            stream.write(call.module_id_of(stage))
        os.rename(new, path)
    read = [path for path in call.read_by(stage) if path in call.outputs]  # else opaque stages write it
    # Twice: running a stage again for one can overwrite another with its stored form.
    for path in (*read, *read):
        _make(call, path, handle)


def run_again(call: Compile, stage: Stage, handle: Handle | None = None) -> None:
    """Run a stage whose output is lost, and store it; raises LostResultError if the bytes differ."""
    expected = [call.intermediates.digest_of(output.path) for output in _outputs_with_digests(call, stage)]
    ran = run(call, stage, handle)
    digests = [call.intermediates.digest_of(output.path) for output in _outputs_with_digests(call, stage)]
    if ran.completed.status != 0 or digests[: len(expected)] != expected:
        raise LostResultError(f"running {stage.kind} again did not give the same result")
    for output in _outputs_with_digests(call, stage):
        content = call.intermediates.content_of(output.path)
        if content is not None and stage.grammar.is_cached:
            digest = call.intermediates.digest_of(output.path)
            call.store.add_blob(digest, content, compress=not output.destination)


def has_inputs(call: Compile, stage: Stage) -> bool:
    """Whether this stage can run without running another again, such as a pass, whose text is not stored."""
    return all(map(call.intermediates.can_make, call.read_by(stage)))


def content_of(call: Compile, output: Output) -> bytes:
    """The content of an output, made again if the store has lost it; raises LostResultError."""
    content = call.intermediates.content_of(output.path)
    if content is None:
        run_again(call, call.outputs[output.path][0])
        content = call.intermediates.content_of(output.path)
    assert content is not None
    return content


def _make(call: Compile, path: str, handle: Handle | None) -> None:
    """Write an intermediate to disk unless it is there."""
    stage, output = call.outputs[path]
    with call.locks[path]:
        if not call.intermediates.materialise(path, output):
            run_again(call, stage, handle)
            if not call.intermediates.materialise(path, output):
                raise LostResultError(f"cannot make `{os.path.basename(path)}` again")


def argv_to_run(call: Compile, stage: Stage) -> list[str]:
    argv = list(stage.argv)
    if stage.grammar.is_cached:
        # A wrapper could look at arguments that we add: it gets none unless it asks for debug information.
        more = ("-g",) if stage.wrapper and call.wrapper_effects == {wrappers.PLACES} else ()
        argv += stage.tool.added_options((*argv, *more), call.plan.scratch)
    return argv


def _digests_before(call: Compile, stage: Stage) -> dict[str, str]:
    """The digests of the intermediates that exist, since an opaque command may change them in place."""
    if stage.kind != OPAQUE:
        return {}
    paths = [path for path in {*call.outputs, *stage.inputs} if os.path.isfile(path)]
    return {path: keys.digest_file(path) for path in paths}


def _adopt_changes(call: Compile, stage: Stage, before: dict[str, str]) -> None:
    for path, digest in _digests_before(call, stage).items():
        if before.get(path) != digest:
            with open(path, "rb") as stream:
                call.intermediates.adopt(path, stream.read())


def take_in(call: Compile, stage: Stage) -> None:
    """Add a stage's outputs to the intermediates, with the facts about its text; raises OSError."""
    for output in stage.kept_outputs:
        if stage.grammar.writes_beside and not os.path.exists(output.path):
            continue  # see wrappers.path_dependence
        content = call.intermediates.read_written(output)
        if stage.is_preprocessor:
            facts = facts_of(content, call.store, call.request.config.recache)
            call.intermediates.passes[output.path] = facts


def _outputs_with_digests(call: Compile, stage: Stage) -> list[Output]:
    return [output for output in stage.kept_outputs if call.intermediates.has_digest(output.path)]


def facts_of(content: bytes, cache: Store, is_recaching: bool = False) -> Pass:
    """The facts about the text of a pass, from a memo if there is one for this text.

    Memos hit often: editing a comment or adding an unused macro does not change the text.
    """
    text = ("text", (keys.digest_bytes(content),))
    # The encoding of facts changes only together with the bucket of records, which hold them too.
    key = keys.key_of("facts", [("bucket", (store.RECORD,)), text])
    memo = None if is_recaching else cache.find_record(store.MEMO, key)
    if memo is not None:
        try:
            return passes.decoded(memo)
        except ValueError:
            cache.remove_damaged(store.MEMO, key)
    facts = passes.facts_of_text(content)
    cache.add_record(store.MEMO, key, facts.encoded())
    return facts

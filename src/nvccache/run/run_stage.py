"""Runs one stage: writes its inputs to disk before it starts, and reads its outputs afterwards."""

from __future__ import annotations

import contextlib
import os
import threading

from nvccache import module_id, passes
from nvccache.files import keys, signatures
from nvccache.machine.process import Handle
from nvccache.passes import Pass
from nvccache.plan.model import OPAQUE, Output, Stage
from nvccache.run import wrappers
from nvccache.run.call import Compile
from nvccache.run.report import LostResultError
from nvccache.run.stage_run import ToolRun
from nvccache.store import store
from nvccache.store.store import Store


def run(call: Compile, stage: Stage, handle: Handle | None = None) -> ToolRun:
    """Write a stage's inputs to disk, and run the stage; raises LostResultError or OSError."""
    make_inputs(call, stage, handle)
    for output in stage.outputs:
        if not output.is_in_place:
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
            if stage.runs_host_compiler:  # with nvcc, no output exists yet, which a wrapper may check
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(output.path)
        if output.begins_as:
            import shutil

            shutil.copyfile(output.begins_as, output.path)

    # NVIDIA's tools leave temporary files behind if they fail, so these go to the scratch directory. They
    # start no servers that would use the directory after the call.
    own = {"TMPDIR": call.plan.scratch} if stage.tool.program else {}

    in_place = [output.path for output in stage.outputs if output.is_in_place]
    before, existed = _digests_before(call, stage), frozenset(filter(os.path.lexists, in_place))
    argv = argv_to_run(call, stage)
    completed, log = call.watch.run(argv, {**call.environ, **own}, handle)
    misled = wrappers.misled_by_directory(stage, log) if call.checkout else ""
    if completed.status != 0:
        return ToolRun(completed, log, path_dependence=misled)
    _adopt_changes(call, stage, before)
    take_in(call, stage)
    effects = wrappers.effects_of(stage, argv, log, call.read_by(stage))
    call.note_wrapper(effects)
    return ToolRun(
        completed,
        log,
        in_place={path: signatures.signature_of(path) or signatures.UNKNOWN for path in in_place},
        existed=existed,
        path_dependence=misled or wrappers.path_dependence(stage, call.intermediates, log, effects),
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
    read = [path for path in call.read_by(stage) if path in call.outputs]  # an unknown tool writes the others
    # Two rounds, because a stage that runs again to make one input may leave another one in canonical form.
    for path in (*read, *read):
        _make(call, path, handle)


def run_again(call: Compile, stage: Stage, handle: Handle | None = None) -> None:
    """Run a stage again and store its lost output; raises LostResultError if the new one differs."""
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
    """Whether a stage's inputs can be written without running another stage again, such as a pass."""
    return all(map(call.intermediates.can_make, call.read_by(stage)))


def content_of(call: Compile, output: Output) -> bytes:
    """The canonical content of an output; runs its stage if the store lost it. Raises LostResultError."""
    content = call.intermediates.content_of(output.path)
    if content is None:
        run_again(call, call.outputs[output.path][0])
        content = call.intermediates.content_of(output.path)
    assert content is not None
    return content


def _make(call: Compile, path: str, handle: Handle | None) -> None:
    """Write an intermediate to disk, unless it is there already."""
    stage, output = call.outputs[path]
    with call.locks[path]:
        if not call.intermediates.materialise(path, output):
            run_again(call, stage, handle)
            if not call.intermediates.materialise(path, output):
                raise LostResultError(f"cannot make `{os.path.basename(path)}` again")


def argv_to_run(call: Compile, stage: Stage) -> list[str]:
    argv = list(stage.argv)
    if stage.grammar.is_cached:
        # An option hides the scratch directory in debug information. Since a wrapper might look at it, the
        # option is added only if the command requests debug information or the wrapper was seen to do so.
        more = ("-g",) if stage.wrapper and call.wrapper_effects == {wrappers.PLACES} else ()
        argv += stage.tool.added_options((*argv, *more), call.plan.scratch)
    return argv


def _digests_before(call: Compile, stage: Stage) -> dict[str, str]:
    """The digests of existing intermediates if the tool is unknown, since it may change them; else empty."""
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
            continue  # wrappers.path_dependence notes that the file is missing
        content = call.intermediates.read_written(output)
        if stage.is_preprocessor:
            facts = facts_of(content, call.store, call.request.config.recache)
            call.intermediates.passes[output.path] = facts


def _outputs_with_digests(call: Compile, stage: Stage) -> list[Output]:
    return [output for output in stage.kept_outputs if call.intermediates.has_digest(output.path)]


def facts_of(content: bytes, cache: Store, is_recaching: bool = False) -> Pass:
    """The facts about the text of a pass, from a memo if there is one for this text.

    Memos hit often, since editing a comment or adding an unused macro does not change the text.
    """
    text = ("text", (keys.digest_bytes(content),))
    # Records contain facts in the same encoding, so a new version of their bucket also makes memos invalid.
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

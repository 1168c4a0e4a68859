"""Finding a stage's result in the store: its keys, and whether the result found is complete.

All that is known of a stage before it runs makes its front key. The record under that key (record.py) holds
what else the stage was observed to read, and its result. Stages that read a module id have further keys
with it (module_id.py). Stages that read preprocessed text have two: one from the meaning of the text
(passes.py), one from its bytes. Where line numbers do not matter, a result without diagnostics is kept under
the first.
"""

from __future__ import annotations

import os

from nvccache import passes
from nvccache.execution import run_stage
from nvccache.execution.context import ANYWHERE, SAME_ID, Action
from nvccache.files import keys
from nvccache.plan import stage_key
from nvccache.records import record
from nvccache.records.base_dir import Relocation
from nvccache.records.record import LookupKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nvccache.execution.staged_call import StagedCall
    from nvccache.files.keys import KeyComponent
    from nvccache.plan.model import Stage
    from nvccache.records.record import Entry, Result


def action_of(call: StagedCall, stage: Stage) -> Action:
    """The keys of a stage; raises OSError if its tool or a file it names cannot be read."""
    named = [path for path in stage.possible_files if os.path.isfile(path)]
    reason = stage.tool.obstacle(stage.argv, call.environ, named)
    is_cached = stage.grammar.is_cached
    if not reason and not is_cached:
        reason = f"its stage {stage.kind} is not cached"
    if reason or not is_cached:
        return Action(reason_against_record=reason)
    dated = _dated_sources(call, stage)
    components = _components(call, stage, dated)
    meaning_key = _meaning_key(call, stage, components)
    texts = [path for path in call.read_by(stage) if path in call.workspace.passes]
    return Action(
        stage_key.key_of(components),
        meaning_key,
        bool(meaning_key) and call.ignores_lines,
        tuple(map(call.workspace.digest_of, texts)),
        tuple(dated),
        tuple(components),
    )


def find(call: StagedCall, stage: Stage, action: Action) -> Entry | None:
    """The result of a stage from the store, accepted; None if there is none."""
    found = _find(call, stage, action) if action.is_cached and not call.context.is_recaching else None
    if found:
        accept(call, stage, found)
    return found


def find_remote(call: StagedCall, stage: Stage, action: Action) -> Entry | None:
    """The same from remotes, but not yet accepted; for any thread."""
    remote = call.remote
    if not remote:
        return None
    remote.prefetch_records(each.key for each in make_lookup_keys(call, stage, action))
    found = _find(call, stage, action, remote.remote_records)
    outputs = dict(found.result.outputs) if found else {}
    products = [outputs[out.role] for out in stage.kept_outputs if out.destination and out.role in outputs]
    return found if all(map(remote.has_blob, products)) else None


def accept(call: StagedCall, stage: Stage, found: Entry) -> None:
    """Record in the workspace what the stage would have written, and the facts about its text."""
    outputs = dict(found.result.outputs)
    for output in stage.kept_outputs:
        if output.role in outputs:
            call.store.rely_on(outputs[output.role])
            call.workspace.expect(output.path, outputs[output.role])
        if stage.is_preprocessor:
            call.workspace.passes[output.path] = passes.decoded(found.result.facts)
    call.note_wrapper(found.result.wrapper)


def make_lookup_keys(call: StagedCall, stage: Stage, action: Action) -> Iterator[LookupKey]:
    """The keys under which a result may be, in the order of trying them."""
    for key in filter(None, (action.meaning_key, action.front_key)):
        in_directory = (key_in_directory(call, key),) if may_follow_directory(stage) else ()
        for one in (key, *in_directory):
            yield make_lookup_key(call, stage, one, ANYWHERE)
            if call.module_id_of(stage):
                yield make_lookup_key(call, stage, one, SAME_ID)


def make_lookup_key(call: StagedCall, stage: Stage, key: str, scope: str) -> LookupKey:
    """The key of a result in this scope: one that contains the module id, or not."""
    if scope == SAME_ID:
        identifier = os.fsdecode(call.module_id_of(stage))
        key = keys.key_of("stage with an id", [("key", (key,)), ("id", (identifier,))])
    return LookupKey(key, Relocation("", call.cwd), scope)


def may_follow_directory(stage: Stage) -> bool:
    """Whether which files a stage reads may depend on the directory, though its key does not name it."""
    return stage.tool.is_host_compiler and not stage.grammar.sees_directory


def key_in_directory(call: StagedCall, key: str) -> str:
    """The key of a result that is only valid in this directory; see input_records.follows_directory."""
    directory = (call.cwd, call.environ.get("PWD", ""))
    return keys.key_of("stage in a directory", [("key", (key,)), ("directory", directory)])


def front_key(call: StagedCall, stage: Stage) -> str:
    return stage_key.key_of(_components(call, stage, _dated_sources(call, stage)))


def is_free_of_directory(call: StagedCall, stage: Stage) -> bool:
    """Whether the working directory is only joined to relative names, and the stage reads no such names."""
    return stage.grammar.joins_directory and call.workspace.are_absolute(call.read_by(stage))


def _find(
    call: StagedCall,
    stage: Stage,
    action: Action,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> Entry | None:
    """The first complete and valid result under a stage's keys."""
    for lookup_key in make_lookup_keys(call, stage, action):
        for entry in record.valid_entries(lookup_key, call.store, call.now, remote_records):
            # A result that was not observed would leave the call without a record.
            is_good = entry.input_record.is_observed or call.context.watch.is_blind
            is_moved = tuple(entry.result.text) != action.text
            if not is_good or (is_moved and not call.ignores_lines):
                continue
            if not _is_whole(call, stage, entry.result):
                continue
            if entry.is_received:
                record.adopt(entry, call.store, call.now)
            return entry
    return None


def _is_whole(call: StagedCall, stage: Stage, result: Result) -> bool:
    if stage.is_preprocessor:
        try:
            passes.decoded(result.facts)
        except ValueError:
            return False
    roles = {role for role, _ in result.outputs}
    return all(output.role in roles for output in stage.kept_outputs)


def _components(call: StagedCall, stage: Stage, dated: Sequence[str]) -> list[KeyComponent]:
    read = call.read_by(stage)
    digests = [call.workspace.digest_of(path) for path in read]
    ids = call.ids_passed_on(stage)
    found = stage_key.of_stage(stage, digests, call.environ, call.cwd, call.store, dated, ids)
    if is_free_of_directory(call, stage):
        found = [component for component in found if component[0] != "directory"]
    if stage.is_preprocessor and call.context.base:
        # Only facts about a text are kept, and one says whether it is free of this directory.
        found.append(("base directory", (call.context.base,)))
    return found


def _meaning_key(call: StagedCall, stage: Stage, by_bytes: Sequence[KeyComponent]) -> str:
    """The key from the meaning of the text; empty if the stage reads none, or its meaning is unknown."""
    texts, read = call.workspace.passes, call.read_by(stage)
    meanings = [texts[path].meaning if path in texts else call.workspace.digest_of(path) for path in read]
    if not stage.tool.is_found_by_meaning or texts.keys().isdisjoint(read) or not all(meanings):
        return ""
    return stage_key.key_of(stage_key.by_meaning(stage, by_bytes, meanings))


def _dated_sources(call: StagedCall, stage: Stage) -> list[str]:
    """The files whose date and size get into the result, found in the stage's inputs."""
    dated_sources = stage.tool.dated_sources
    if not dated_sources:
        return []
    # PTX from the user or an unknown tool may name files, whatever the options.
    foreign = [*stage.possible_files, *(path for path in stage.inputs if path not in call.outputs)]
    contents = []
    for path in filter(os.path.isfile, foreign):
        with open(path, "rb") as stream:
            contents.append(stream.read())
    if stage.grammar.dates_sources:
        own = [call.outputs[path][1] for path in stage.inputs if path in call.outputs]
        contents += [run_stage.content_of(call, output) for output in own]
    return [name for content in contents for name in dated_sources(content)]

"""Finds a stage's result in the store: under which keys it may be, and whether it is complete.

A stage's front key is made from everything that is known before it runs. The record under that key
(record.py) contains what else the stage was observed to read, and its result. For a stage that reads a module
id, there are further keys that contain the id (module_id.py). A stage that reads preprocessed text has two
keys. The meaning key is made from the text without line numbers (passes.py), and the front key from all bytes
of the text. Where line numbers do not matter, a result without diagnostics is stored under the meaning key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from nvccache import passes
from nvccache.files import keys
from nvccache.files.keys import KeyComponent
from nvccache.plan import stage_key
from nvccache.plan.model import Stage
from nvccache.records import record
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.run import run_stage
from nvccache.run.call import Compile
from nvccache.run.stage_run import StageRun

ANYWHERE, SAME_ID = "anywhere", "same id"  # scopes of results: for any module id, or for one


def make_keys(call: Compile, run: StageRun) -> None:
    """Make the keys of a stage; raises OSError if its tool or a file named by its command cannot be read."""
    stage = run.stage
    run.components = []
    if not stage.grammar.is_cached:
        run.reasons_against_record.append(f"the stage {stage.kind} is not cached")
        return
    run.dated_files = _dated_sources(call, stage)
    run.components = _components(call, stage, run.dated_files)
    run.front_key = stage_key.key_of(run.components)
    run.meaning_key = _meaning_key(call, stage, run.components)
    run.is_keyed_by_meaning = bool(run.meaning_key) and call.ignores_lines
    run.contains_id = any(tag == stage_key.MODULE_IDS for tag, _ in run.components)
    texts = [path for path in call.read_by(stage) if path in call.intermediates.passes]
    run.text = tuple(map(call.intermediates.digest_of, texts))


def find(call: Compile, run: StageRun) -> Entry | None:
    """Look up a stage's result in the store, and `accept` it; returns None if there is none."""
    entry = _find(call, run) if run.is_cached and not call.request.config.recache else None
    if entry:
        accept(call, run.stage, entry)
    return entry


def find_remote(call: Compile, run: StageRun) -> Entry | None:
    """Look up a stage's result in remotes, without `accept`; None if there is none. Thread-safe."""
    remote = call.remote
    if not remote:
        return None
    remote.prefetch_records(each.key for each in make_lookup_keys(call, run))
    entry = _find(call, run, remote.remote_records)
    outputs = dict(entry.result.outputs) if entry else {}
    products = [
        outputs[out.role] for out in run.stage.kept_outputs if out.destination and out.role in outputs
    ]
    return entry if all(map(remote.has_blob, products)) else None


def accept(call: Compile, stage: Stage, entry: Entry) -> None:
    """Note the outputs of a stored result as intermediates, with the facts about preprocessed text."""
    outputs = dict(entry.result.outputs)
    for output in stage.kept_outputs:
        if output.role in outputs:
            call.store.rely_on(outputs[output.role])
            call.intermediates.expect(output.path, outputs[output.role])
        if stage.is_preprocessor:
            call.intermediates.passes[output.path] = passes.decoded(entry.result.facts)
    call.note_wrapper(entry.result.wrapper)


def make_lookup_keys(call: Compile, run: StageRun) -> Iterator[LookupKey]:
    """The keys under which a result may be stored, in the order in which they are tried."""
    stage = run.stage
    for key in filter(None, (run.meaning_key, run.front_key)):
        in_directory = (key_in_directory(call, key),) if may_follow_directory(stage) else ()
        for one in (key, *in_directory):
            yield make_lookup_key(call, stage, one, ANYWHERE)
            if call.module_id_of(stage):
                yield make_lookup_key(call, stage, one, SAME_ID)


def make_lookup_key(call: Compile, stage: Stage, key: str, scope: str) -> LookupKey:
    """The key of a result in this scope; with SAME_ID, it contains the module id that the stage reads."""
    if scope == SAME_ID:
        identifier = os.fsdecode(call.module_id_of(stage))
        key = keys.key_of("stage with an id", [("key", (key,)), ("id", (identifier,))])
    return LookupKey(key, scope)


def may_follow_directory(stage: Stage) -> bool:
    """Whether the working directory may decide which files a stage reads although no key contains it."""
    return stage.tool.is_host_compiler and not stage.grammar.sees_directory


def key_in_directory(call: Compile, key: str) -> str:
    """The key of a result that is valid only in this directory; see input_records.follows_directory."""
    directory = (call.cwd, call.environ.get("PWD", ""))
    return keys.key_of("stage in a directory", [("key", (key,)), ("directory", directory)])


def front_key(call: Compile, stage: Stage) -> str:
    return stage_key.key_of(_components(call, stage, _dated_sources(call, stage)))


def is_free_of_directory(call: Compile, stage: Stage) -> bool:
    """Whether a stage uses the working directory only for relative names, and its input contains none."""
    return stage.grammar.joins_directory and call.intermediates.are_absolute(call.read_by(stage))


def _find(
    call: Compile, run: StageRun, remote_records: Callable[[str], Iterable[bytes]] | None = None
) -> Entry | None:
    """The first complete and valid result under a stage's keys, or None."""
    for lookup_key in make_lookup_keys(call, run):
        for entry in record.valid_entries(lookup_key, call.store, call.now, remote_records):
            has_other_lines = tuple(entry.result.text) != run.text
            if has_other_lines and not call.ignores_lines:
                continue
            if not _is_whole(run.stage, entry.result):
                continue
            if entry.is_received:
                record.adopt(entry, call.store, call.now)
            return entry
    return None


def _is_whole(stage: Stage, result: Result) -> bool:
    if stage.is_preprocessor:
        try:
            passes.decoded(result.facts)
        except ValueError:
            return False
    roles = {role for role, _ in result.outputs}
    return all(output.role in roles for output in stage.kept_outputs)


def _components(call: Compile, stage: Stage, dated: Sequence[str]) -> list[KeyComponent]:
    read = call.read_by(stage)
    digests = [call.intermediates.digest_of(path) for path in read]
    ids = call.ids_passed_on(stage)
    components = stage_key.of_stage(stage, digests, call.environ, call.cwd, call.store, dated, ids)
    if is_free_of_directory(call, stage):
        components = [component for component in components if component[0] != "directory"]
    return components


def _meaning_key(call: Compile, stage: Stage, by_bytes: Sequence[KeyComponent]) -> str:
    """The meaning key; empty if the stage reads no preprocessed text or if line numbers may matter."""
    texts, read = call.intermediates.passes, call.read_by(stage)
    meanings = [texts[path].meaning if path in texts else call.intermediates.digest_of(path) for path in read]
    if not stage.tool.is_found_by_meaning or texts.keys().isdisjoint(read) or not all(meanings):
        return ""
    return stage_key.key_of(stage_key.by_meaning(stage, by_bytes, meanings))


def _dated_sources(call: Compile, stage: Stage) -> list[str]:
    """The names of the source files whose dates and sizes the result of a stage contains."""
    dated_sources = stage.tool.dated_sources
    if not dated_sources:
        return []
    # PTX that the user or an unknown tool has written may name sources, whatever this stage's options are.
    foreign = [*stage.possible_files, *(path for path in stage.inputs if path not in call.outputs)]
    contents = []
    for path in filter(os.path.isfile, foreign):
        with open(path, "rb") as stream:
            contents.append(stream.read())
    if stage.grammar.dates_sources:
        own = [call.outputs[path][1] for path in stage.inputs if path in call.outputs]
        contents += [run_stage.content_of(call, output) for output in own]
    return [name for content in contents for name in dated_sources(content)]

"""Finding a stage's result in the store: under which keys, and whether what is found is whole.

What is known of a stage before it runs makes its front key, behind which lies a record (record.py): what the
stage was observed to read beside, and what it gave. Stages that make up a module id have further keys
(seeding.py). Stages that read preprocessed text have two: by what the text says (passes.py), and by
its every byte. A result without diagnostics is kept under the first, where lines do not matter.
"""

from __future__ import annotations

import os

from nvccache.execution import rehearsals, run_stage
from nvccache.execution.seeding import SEEDED
from nvccache.plan import stage_key
from nvccache.preprocessed import passes
from nvccache.records import output_names, record
from nvccache.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nvccache.execution.staged_call import StagedCall
    from nvccache.files.keys import KeyComponent
    from nvccache.plan.model import Stage
    from nvccache.preprocessed.passes import Pass
    from nvccache.records.record import Front, Pair, Result


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is known of a stage before it runs.

    `front_key` goes by the bytes of its inputs, and is empty for a stage that is not cached; `meaning_key` by
    what they say, or is empty; with `goes_by_meaning` a silent result is kept under the latter. `text` are
    the digests of the preprocessed text that it reads, `dated` the files whose date and size are in its keys.
    `found` is what the store has, and `facts` are about the text of a pass. A hit `is_moved` if it was made
    from text whose lines are elsewhere. `reason_against_record` of the call is a clause, or empty.
    """

    front_key: str = ""
    meaning_key: str = ""
    goes_by_meaning: bool = False
    text: tuple[str, ...] = ()
    dated: tuple[str, ...] = ()
    found: Pair | None = None
    facts: Pass | None = None
    is_moved: bool = False
    reason_against_record: str = ""
    components: tuple[KeyComponent, ...] = ()  # of the front key

    @property
    def is_bound(self) -> bool:
        """Whether a result was found that depends on what the products are called."""
        return self.found is not None and self.found.front.scope == SEEDED

    @property
    def is_cached(self) -> bool:
        """Whether the stage's result may come from the store."""
        return self.front_key != ""

    @property
    def claim_key(self) -> str:
        """Names the work: equal for all who would run this stage on inputs that say the same."""
        return self.meaning_key if self.goes_by_meaning else self.front_key


def find(
    call: StagedCall, stage: Stage, passes_made: Mapping[str, Pass], before: Lookup | None = None
) -> Lookup:
    """Find a stage's result in the store; raises OSError where its tool or a file it names cannot be read.

    `passes_made` are the facts about preprocessed texts; `before` is what a look-up a moment ago has found,
    which saves making its keys.
    """
    is_cached, reason = _is_cached(call, stage)
    if not is_cached:
        return Lookup(reason_against_record=reason)
    missing = before if before and before.is_cached else _with_keys(call, stage, passes_made)
    missing = replace(missing, found=None, facts=None, is_moved=False)
    lookup = missing if call.context.is_recaching else _find(call, stage, missing)
    accept(call, stage, lookup)
    return lookup


def find_remote(call: StagedCall, stage: Stage, missing: Lookup) -> Lookup:
    """The same on remotes, for a stage that this cache does not have; on any thread.

    What is found has still to be accepted.
    """
    remote = call.remote
    if not remote:
        return missing
    remote.prefetch_records(front.key for front in fronts(call, stage, missing))
    lookup = _find(call, stage, missing, remote.remote_records)
    outputs = dict(lookup.found.result.outputs) if lookup.found else {}
    products = [outputs[out.role] for out in stage.kept_outputs if out.destination and out.role in outputs]
    return lookup if all(map(remote.has_blob, products)) else missing


def accept(call: StagedCall, stage: Stage, lookup: Lookup) -> None:
    """Take the digests of what a stage would have written whose result was found."""
    if not lookup.found:
        return
    outputs = dict(lookup.found.result.outputs)
    for output in stage.kept_outputs:
        if output.role in outputs:
            call.store.rely_on(outputs[output.role])
            call.workspace.expect(output.path, outputs[output.role])
        if lookup.facts:
            call.workspace.take_pass(output.path, lookup.facts)


def fronts(call: StagedCall, stage: Stage, lookup: Lookup) -> Iterator[Front]:
    """The keys under which a result may be, in the order in which they are tried."""
    for key in filter(None, (lookup.meaning_key, lookup.front_key)):
        for front in call.seeding.fronts(key, stage):
            yield from record.on_terminal(front, call.terminal)


def front_key(call: StagedCall, stage: Stage) -> str:
    return stage_key.key_of(_components(call, stage, _dated_sources(call, stage)))


def is_free_of_directory(call: StagedCall, stage: Stage) -> bool:
    """Whether it would name the working directory only before relative names, and reads none."""
    return stage.grammar.joins_directory and call.workspace.are_absolute(call.read_by(stage))


def _find(
    call: StagedCall,
    stage: Stage,
    missing: Lookup,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> Lookup:
    """The look-up with the result that was found under one of its keys, if there is one."""
    for front in fronts(call, stage, missing):
        for pair in record.holding(front, call.store, call.now, remote_records):
            # One that was not observed would leave the call without a record.
            is_good = pair.input_record.is_observed or call.context.watch.is_blind
            is_moved = tuple(pair.result.text) != missing.text
            if not is_good or (is_moved and not _goes_on_without_lines(call)):
                continue
            if not _is_whole(call, stage, pair.result):
                continue
            if pair.is_received:
                record.adopt(pair, call.store, call.now)
            of_text = passes.decoded(pair.result.facts) if stage.is_preprocessor else None
            return replace(missing, found=pair, facts=of_text, is_moved=is_moved)
    return missing


def _is_whole(call: StagedCall, stage: Stage, result: Result) -> bool:
    if stage.is_preprocessor:
        try:
            known = passes.decoded(result.facts)
        except ValueError:
            return False
        names = [name for name, _ in known.listed]
        if call.plan.dependency_files and not output_names.are_plain(names):
            return False
    roles = {role for role, _ in result.outputs}
    return all(output.role in roles or call.own_ids.is_own(output) for output in stage.kept_outputs)


def _is_cached(call: StagedCall, stage: Stage) -> tuple[bool, str]:
    """Whether a stage's result may come from the store; if not, why there can be no record, or empty."""
    named = [path for path in stage.possible_files if os.path.isfile(path)]
    obstacle = stage.tool.obstacle(stage.argv, call.environ, named)
    if obstacle or stage.grammar.is_cached:
        return not obstacle, obstacle
    may_be_recorded = stage.tool.links_program and call.plan.host_link
    return False, "" if may_be_recorded else f"its stage {stage.kind} is not cached"


def _goes_on_without_lines(call: StagedCall) -> bool:
    """Whether a result may come from text whose lines are elsewhere.

    A wrapper of which it is not known what it becomes may ask for debug information by itself, which shows
    the lines in what cudafe++ made, and in cicc's stub.
    """
    return call.ignores_lines and rehearsals.are_known(call.plan)


def _with_keys(call: StagedCall, stage: Stage, passes_made: Mapping[str, Pass]) -> Lookup:
    dated = _dated_sources(call, stage)
    by_bytes = _components(call, stage, dated)
    meaning_key = _meaning_key(call, stage, passes_made, by_bytes)
    return Lookup(
        stage_key.key_of(by_bytes),
        meaning_key,
        bool(meaning_key) and _goes_on_without_lines(call),
        tuple(call.workspace.digest_of(path) for path in call.read_by(stage) if path in passes_made),
        tuple(dated),
        components=tuple(by_bytes),
    )


def _components(call: StagedCall, stage: Stage, dated: Sequence[str]) -> list[KeyComponent]:
    read = call.read_by(stage)
    digests = [call.workspace.digest_of(path) for path in read]
    places = call.workspace.source_paths_in(read)
    found = stage_key.of_stage(stage, digests, call.environ, call.cwd, call.store, dated, places)
    if is_free_of_directory(call, stage):
        found = [component for component in found if component[0] != "directory"]
    if stage.is_preprocessor and call.context.base:
        # What is kept of a text includes whether it is free of this one, and the text itself is not kept.
        found.append(("base directory", (call.context.base,)))
    return found


def _meaning_key(
    call: StagedCall, stage: Stage, passes_made: Mapping[str, Pass], by_bytes: Sequence[KeyComponent]
) -> str:
    """The key by what the text says, or empty where the stage reads none, or that is not known."""
    if not stage.tool.is_found_by_meaning:
        return ""
    digests = []
    is_text = False
    for path in call.read_by(stage):
        text = passes_made.get(path)
        if text and not text.meaning:
            return ""
        is_text |= text is not None
        digests.append(text.meaning if text else call.workspace.digest_of(path))
    return stage_key.key_of(stage_key.by_meaning(stage, by_bytes, digests)) if is_text else ""


def _dated_sources(call: StagedCall, stage: Stage) -> list[str]:
    """The files whose date and size reach a result, by what the stage reads."""
    dated_sources = stage.tool.dated_sources
    if not dated_sources:
        return []
    # PTX of the user's, or of a tool that we do not know, may name files whatever the options are.
    foreign = [*stage.possible_files, *(path for path in stage.inputs if path not in call.outputs)]
    contents = []
    for path in filter(os.path.isfile, foreign):
        with open(path, "rb") as stream:
            contents.append(stream.read())
    if stage.grammar.dates_sources:
        own = [call.outputs[path][1] for path in stage.inputs if path in call.outputs]
        contents += [run_stage.content_of(call, output) for output in own]
    return [name for content in contents for name in dated_sources(content)]

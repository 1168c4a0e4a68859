"""Finding a stage's result in the store: under which keys, and whether what is found is whole.

What is known of a stage before it runs makes its front key, behind which lies a record (record.py): what the
stage was observed to read beside, and what it gave. Stages that make up a module id have further keys
(seeding.py). Stages that read preprocessed text have two: by what the text says (normalized_text.py), and by
its every byte. A result without diagnostics is kept under the first, where lines do not matter.
"""

from __future__ import annotations

import os

from nvccache.execution import rehearsals
from nvccache.execution.seeding import SEEDED
from nvccache.plan import stage_key
from nvccache.preprocessed import passes
from nvccache.records import differences, machine_facts, output_names, record
from nvccache.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nvccache.execution.execution import Execution, Known
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


class StageKeys:
    """Makes the keys of the stages of one call."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._workspace = execution.workspace

    def front_key(self, stage: Stage) -> str:
        return stage_key.key_of(self.components(stage, self.dated_sources(stage)))

    def components(self, stage: Stage, dated: Sequence[str]) -> list[KeyComponent]:
        execution = self._execution
        read = execution.read_by(stage)
        digests = [self._workspace.digest_of(path) for path in read]
        found = stage_key.of_stage(
            stage,
            digests,
            execution.environ,
            execution.cwd,
            execution.store,
            dated,
            self._workspace.source_paths_in(read),
        )
        if self.is_free_of_directory(stage):
            found = [component for component in found if component[0] != "directory"]
        if stage.is_preprocessor and execution.base:
            # What is kept of a text includes whether it is free of this one, and the text itself is not kept.
            found.append(("base directory", (execution.base,)))
        return found

    def is_free_of_directory(self, stage: Stage) -> bool:
        """Whether it would name the working directory only before relative names, and reads none."""
        read = self._execution.read_by(stage)
        return stage.grammar.joins_directory and self._workspace.are_absolute(read)

    def meaning_key(self, stage: Stage, known: Known, by_bytes: Sequence[KeyComponent]) -> str:
        """The key by what the text says, or empty where the stage reads none, or that is not known."""
        if not stage.tool.is_found_by_meaning:
            return ""
        digests = []
        is_text = False
        for path in self._execution.read_by(stage):
            text = known.passes.get(path)
            if text and not text.meaning:
                return ""
            is_text |= text is not None
            digests.append(text.meaning if text else self._workspace.digest_of(path))
        return stage_key.key_of(stage_key.by_meaning(stage, by_bytes, digests)) if is_text else ""

    def text_read_by(self, stage: Stage, known: Known) -> tuple[str, ...]:
        """The digests of the preprocessed text that a stage reads."""
        read = self._execution.read_by(stage)
        return tuple(self._workspace.digest_of(path) for path in read if path in known.passes)

    def dated_sources(self, stage: Stage) -> list[str]:
        """The files whose date and size reach a result, by what the stage reads."""
        execution = self._execution
        dated_sources = stage.tool.dated_sources
        if not dated_sources:
            return []
        # PTX of the user's, or of a tool that we do not know, may name files whatever the options are.
        foreign = [*stage.possible_files, *(path for path in stage.inputs if path not in execution.outputs)]
        contents = []
        for path in filter(os.path.isfile, foreign):
            with open(path, "rb") as stream:
                contents.append(stream.read())
        if stage.grammar.dates_sources:
            contents += [execution.runs.content_of(execution.outputs[path][1]) for path in stage.inputs
                         if path in execution.outputs]  # fmt: skip
        return [name for content in contents for name in dated_sources(content)]


class Finder:
    """Looks for the stages of one call."""

    def __init__(self, execution: Execution, ignores_lines: bool, is_recaching: bool) -> None:
        self._execution = execution
        self._keys = execution.keys
        self._store = execution.store
        stages = execution.plan.stages
        self._ignores_lines = ignores_lines and not any(stage.lines_matter for stage in stages)
        self._knows_compilers = rehearsals.are_known(execution.plan)
        self._is_recaching = is_recaching
        self._now = differences.Present(execution.environ)

    def _goes_on_without_lines(self) -> bool:
        """Whether a result may come from text whose lines are elsewhere.

        A wrapper of which it is not known what it becomes may ask for debug information by itself, which
        shows the lines in what cudafe++ made, and in cicc's stub.
        """
        return self._ignores_lines and self._knows_compilers

    def find(self, stage: Stage, known: Known, before: Lookup | None) -> Lookup:
        """Find the stage's result; raises OSError when its tool or a file it names cannot be read.

        `before` is what a look-up a moment ago has found, which saves making its keys.
        """
        is_cached, reason = self._is_cached(stage)
        if not is_cached:
            return Lookup(reason_against_record=reason)
        missing = self._with_keys(stage, known, before)
        return missing if self._is_recaching else self._find(stage, missing)

    def find_beyond(self, stage: Stage, missing: Lookup) -> Lookup:
        """The same of other caches, for a stage that this one does not have; on any thread."""
        beyond = self._store.beyond
        if not beyond:
            return missing
        beyond.want(front.key for front in self.fronts(stage, missing))
        found = self._find(stage, missing, True)
        return found if self._has_products(stage, found) else missing

    def _has_products(self, stage: Stage, found: Lookup) -> bool:
        """Whether the products of what was found can be had; they are here then.

        Servers forget blobs by age, and the stage may as well run beside others.
        """
        outputs = dict(found.found.result.outputs) if found.found else {}
        wanted = [outputs[out.role] for out in stage.kept_outputs if out.destination and out.role in outputs]
        has_here, read = self._store.has_here, self._store.read_blob
        return all(has_here(digest) or read(digest) is not None for digest in wanted)

    def _is_cached(self, stage: Stage) -> tuple[bool, str]:
        """Whether a stage's result may come from the store; if not, why there can be no record, or empty."""
        named = [path for path in stage.possible_files if os.path.isfile(path)]
        obstacle = stage.tool.obstacle(stage.argv, self._execution.environ, named)
        if obstacle or stage.grammar.is_cached:
            return not obstacle, obstacle
        may_be_recorded = stage.tool.links_program and self._execution.plan.host_link
        return False, "" if may_be_recorded else f"its stage {stage.kind} is not cached"

    def _with_keys(self, stage: Stage, known: Known, before: Lookup | None) -> Lookup:
        if before and before.is_cached:
            return Lookup(
                before.front_key,
                before.meaning_key,
                before.goes_by_meaning,
                before.text,
                before.dated,
                components=before.components,
            )
        dated = self._keys.dated_sources(stage)
        by_bytes = self._keys.components(stage, dated)
        meaning_key = self._keys.meaning_key(stage, known, by_bytes)
        return Lookup(
            stage_key.key_of(by_bytes),
            meaning_key,
            bool(meaning_key) and self._goes_on_without_lines(),
            self._keys.text_read_by(stage, known),
            tuple(dated),
            components=tuple(by_bytes),
        )

    def fronts(self, stage: Stage, missing: Lookup) -> Iterator[Front]:
        """The keys under which a result may be, in the order in which they are tried."""
        for key in filter(None, (missing.meaning_key, missing.front_key)):
            for front in self._execution.seeding.fronts(key, stage):
                yield from record.on_terminal(front, self._execution.terminal)

    def _find(self, stage: Stage, missing: Lookup, asks_beyond: bool = False) -> Lookup:
        """The look-up with the result that was found under one of its keys, if there is one."""
        for front in self.fronts(stage, missing):
            for pair in record.holding(front, self._store, self._now, self._ask, asks_beyond):
                # One that was not observed would leave the call without a record.
                is_good = pair.input_record.is_observed or self._execution.is_blind
                is_moved = tuple(pair.result.text) != missing.text
                if not is_good or (is_moved and not self._goes_on_without_lines()):
                    continue
                if not self._is_whole(stage, pair.result):
                    continue
                if pair.is_received:
                    record.adopt(pair, self._store, self._now)
                facts = passes.decoded(pair.result.facts) if stage.is_preprocessor else None
                return replace(missing, found=pair, facts=facts, is_moved=is_moved)
        return missing

    def accept(self, stage: Stage, lookup: Lookup) -> None:
        """Take the digests of what a stage would have written that does not have to run."""
        assert lookup.found is not None
        outputs = dict(lookup.found.result.outputs)
        for output in stage.kept_outputs:
            if output.role in outputs:
                self._store.rely_on(outputs[output.role])
                self._execution.workspace.expect(output.path, outputs[output.role])
            if lookup.facts:
                self._execution.workspace.take_pass(output.path, lookup.facts)

    def _ask(self, topic: str, subject: str) -> str:
        return machine_facts.answer(topic, subject, self._execution.environ, self._store)

    def _is_whole(self, stage: Stage, result: Result) -> bool:
        if stage.is_preprocessor:
            try:
                known = passes.decoded(result.facts)
            except ValueError:
                return False
            names = [name for name, _ in known.listed]
            if self._execution.plan.dependency_files and not output_names.are_plain(names):
                return False
        roles = {role for role, _ in result.outputs}
        return all(
            output.role in roles or self._execution.own_ids.is_own(output) for output in stage.kept_outputs
        )

"""Finding a stage's result in the store: under which keys, and whether what is found is whole.

What is known of a stage before it runs makes its front key. Behind that lies a manifest of input records:
what the stage was observed to read beside. The input record that still holds leads to the result; for stages
that make up a module id perhaps by further keys (seeding.py). Stages that read preprocessed text have two
front keys: by what the text says (normalized_text.py), and by its every byte. A result without diagnostics is
kept under the first, where lines do not matter.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.module_id.own_ids import ROLE
from nvccache.plan import stage_key
from nvccache.plan.stages import ptxas
from nvccache.preprocessed import lines, passes
from nvccache.records import differences, machine_facts, manifest, output_names
from nvccache.records.base_dir import Relocation
from nvccache.store.entries import Entry
from nvccache.toolkit import toolchain
from nvccache.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nvccache.execution.execution import Execution
    from nvccache.files.keys import KeyComponent
    from nvccache.plan.model import Output, Stage
    from nvccache.records.input_records import InputRecord
    from nvccache.records.manifest import Found


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is known of a stage before it runs: `key` is empty while it depends on the run.

    `front_key` goes by the bytes of its inputs; `meaning_key` by what they say, or is empty; with
    `goes_by_meaning` a silent result is kept under the latter. `entry` was found under `key`, behind a
    `input_record` that holds. A hit `is_moved` if it was made from text whose lines are elsewhere.
    """

    front_key: str
    meaning_key: str = ""
    goes_by_meaning: bool = False
    key: str = ""
    entry: Entry | None = None
    input_record: InputRecord | None = None
    is_moved: bool = False
    components: tuple[KeyComponent, ...] = ()  # of the front key
    record_key: str = ""  # of the input record

    @property
    def claim_key(self) -> str:
        """Names the work: equal for all who would run this stage on inputs that say the same."""
        return self.meaning_key if self.goes_by_meaning else self.front_key


class Finder:
    """Looks for the stages of one call."""

    def __init__(self, execution: Execution, ignores_lines: bool, is_recaching: bool) -> None:
        self._execution = execution
        self._workspace = execution.workspace
        self._store = execution.store
        stages = execution.plan.stages
        self._ignores_lines = ignores_lines and not lines.matter_to(stages)
        self._knows_compilers = self._are_compilers_known(stages)
        self._is_recaching = is_recaching
        self._now = differences.Present(execution.environ)
        self._nowhere = Relocation("", execution.cwd)

    def _are_compilers_known(self, stages: Sequence[Stage]) -> bool:
        compilers = {stage.argv[0] for stage in stages if stage.kind == "host_compile"}
        return all(toolchain.is_compiler(word, self._execution.environ) for word in compilers)

    def ignores_lines(self) -> bool:
        """Whether a result may come from text whose lines are elsewhere.

        A script as host compiler may ask for debug information by itself, which shows the lines in what
        cudafe++ made, and in cicc's stub.
        """
        return self._ignores_lines and self._knows_compilers

    def look_up(self, stage: Stage) -> Lookup:
        """Find the stage's result; raises OSError when its tool or a file it names cannot be read."""
        found = self._key_components(stage)
        front_key, meaning_key = stage_key.key_of(found), self._meaning_key(stage, found)
        ignores_lines = bool(meaning_key) and self.ignores_lines()
        return self.look_again(stage, Lookup(front_key, meaning_key, ignores_lines, components=tuple(found)))

    def look_again(self, stage: Stage, before: Lookup) -> Lookup:
        """Find the result of a stage whose keys have been made a moment ago."""
        missing = Lookup(
            before.front_key, before.meaning_key, before.goes_by_meaning, components=before.components
        )
        if self._is_recaching:
            return missing
        for tried in (before.meaning_key, before.front_key):
            if tried and self._execution.original_id(stage):
                self._execution.seeding.find(tried, stage)  # notes if its own id is of no use
            for found in self._input_records(tried):
                key, entry = self._find(found.key, stage)
                is_moved = (
                    tried == before.meaning_key
                    and entry is not None
                    and entry.text != self.text_read_by(stage)
                )
                if entry and (not is_moved or self.ignores_lines()):
                    return replace(
                        missing,
                        key=key,
                        entry=entry,
                        input_record=found.input_record,
                        is_moved=is_moved,
                        record_key=found.key,
                    )
        return missing

    def accept(self, stage: Stage, lookup: Lookup) -> None:
        """Take the digests of a stage that does not have to run, and what it is known to have read."""
        assert lookup.entry is not None
        for output in self._execution.kept_outputs(stage):
            if output.role in lookup.entry.outputs:
                self._store.rely_on(lookup.entry.outputs[output.role])
                self._workspace.expect(output.path, lookup.entry.outputs[output.role])
        assert lookup.input_record is not None
        self._execution.take_input_record(stage, lookup.input_record)
        if stage.is_preprocessor:
            self._execution.passes[stage.outputs[0].path] = passes.of_facts(lookup.entry.facts)

    def _input_records(self, front_key: str) -> Iterator[Found]:
        """The input records that hold. One that was not observed would leave the call without a record."""
        if front_key:
            for found in manifest.holding(front_key, self._store, self._nowhere, self._now, self._ask):
                if found.input_record.is_observed or self._execution.is_blind:
                    yield found

    def _ask(self, topic: str, subject: str) -> str:
        return machine_facts.answer(topic, subject, self._execution.environ, self._store)

    def _find(self, key: str, stage: Stage) -> tuple[str, Entry | None]:
        """The whole result under a key that looks as it would look now, with the key it was found under."""
        terminal = self._execution.terminal
        for tried in keys.possible_on_terminal(key, terminal):
            found_under, entry = self._execution.seeding.find(tried, stage)
            if (
                entry
                and tried == keys.for_terminal(key, terminal, entry.stderr)
                and self._is_whole(stage, entry)
            ):
                return found_under, entry
        return key, None

    def _is_whole(self, stage: Stage, entry: Entry) -> bool:
        if stage.is_preprocessor:
            try:
                known = passes.of_facts(entry.facts)
            except (ValueError, KeyError, TypeError):
                return False
            names = [name for name, _ in known.listed]
            if self._execution.plan.dependency_files and not output_names.are_plain(names):
                return False
        return all(
            output.role in entry.outputs or self.is_own_id(output)
            for output in self._execution.kept_outputs(stage)
        )

    def is_own_id(self, output: Output) -> bool:
        """Whether this is an id that nothing reads, and that a result need not have where it is not in it."""
        return output.role == ROLE and output.path in self._execution.plan.own_ids

    def front_key(self, stage: Stage) -> str:
        return stage_key.key_of(self._key_components(stage))

    def _meaning_key(self, stage: Stage, by_bytes: Sequence[KeyComponent]) -> str:
        """The key by what the text says, or empty where the stage reads none, or that is not known."""
        if stage.kind not in ("cudafe", "cicc"):
            return ""
        digests = []
        is_text = False
        for path in self._execution.read_by(stage):
            known = self._execution.passes.get(path)
            if known and not known.meaning:
                return ""
            is_text |= known is not None
            digests.append(known.meaning if known else self._workspace.digest_of(path))
        return stage_key.key_of(stage_key.with_inputs(by_bytes, ["meaning", *digests])) if is_text else ""

    def _key_components(self, stage: Stage) -> list[KeyComponent]:
        execution = self._execution
        read = execution.read_by(stage)
        digests = [self._workspace.digest_of(path) for path in read]
        dated = self._dated_sources(stage)
        return stage_key.of_stage(
            stage,
            digests,
            execution.environ,
            execution.cwd,
            self._store,
            dated,
            self._workspace.source_paths_in(read),
        )

    def text_read_by(self, stage: Stage) -> tuple[str, ...]:
        """The digests of the preprocessed text that a stage reads."""
        read = self._execution.read_by(stage)
        return tuple(self._workspace.digest_of(path) for path in read if path in self._execution.passes)

    def _dated_sources(self, stage: Stage) -> list[str]:
        execution = self._execution
        if stage.kind != "ptxas":
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
        dated = [name for content in contents for name in ptxas.dated_sources(content)]
        execution.dated_files += dated
        return dated

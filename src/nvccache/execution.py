"""One stage: taking its result from the store, running it, putting the result into the store.

Stages run on threads of their own, and are stored by another; each touches only what its stage reads and
writes. Which stage comes when is not known here.
"""

from __future__ import annotations

import os
import shutil
import threading

from nvccache import (
    device_code,
    entries,
    ingredients,
    keys,
    line_table,
    manifest,
    module_id,
    observed_inputs,
    passes,
    reading,
    scratch,
)
from nvccache.entries import Entry
from nvccache.lookup import Finder, Lookup
from nvccache.observed_inputs import ObservedInputs, Subject
from nvccache.own_ids import ROLE, independent, source_paths
from nvccache.passes import Pass
from nvccache.plan import HOST_LINK, OPAQUE, Output, Plan, Stage
from nvccache.reading import Reading, UnreadableError
from nvccache.relocation import Relocation
from nvccache.seeding import Seeding
from nvccache.stages import host, nvlink
from nvccache.store import Store
from nvccache.values import dataclass, replace
from nvccache.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.process import Completed, Handle
    from nvccache.watch import Log, Watch

# What objects with debug information say in the place of the scratch directory, whose name is never
# the same twice.
DEBUG_DIRECTORY = "/tmp/nvccache"


class LostResultError(Exception):
    """The call cannot go on here, and nvcc has to do it; carries a fault in one sentence."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the stages of one call share.

    `since_ns` is when it began, `watch` runs the tools, `base` is the base directory or empty, `terminal` see
    terminals.py.
    """

    plan: Plan
    environ: dict[str, str]
    cwd: str
    store: Store
    since_ns: int
    watch: Watch
    is_recaching: bool = False
    base: str = ""
    terminal: str = ""


class Execution:
    """The stages of one call over one scratch directory.

    While they are carried out it collects what the whole call read, and why, if so, there can be no
    record of it (`objections`, clauses). `relies_on_ids` and `ignores_lines` are two ways to go faster that
    may turn out, on the way, not to hold for a context.
    """

    def __init__(self, context: Context, relies_on_ids: bool = True, ignores_lines: bool = True) -> None:
        self._context = context
        self.plan = independent(context.plan) if relies_on_ids else context.plan
        self.store = context.store
        self.since_ns = context.since_ns
        self.cwd = context.cwd
        self.terminal = context.terminal
        self.passes: dict[str, Pass] = {}  # by the preprocessed file
        self.outputs = {out.path: (stage, out) for stage in self.plan.stages for out in stage.outputs}
        self.workspace = Workspace(
            self.plan.scratch, context.store, self.plan.included, source_paths(self.plan.stages)
        )
        self.seeding = Seeding(
            context.plan, self.plan.own_ids, context.cwd, context.environ, context.store, self.workspace
        )
        self.is_blind = context.watch.is_blind
        self.inputs = ObservedInputs(
            context.store, context.cwd, self.plan.scratch, context.since_ns, context.base
        )
        self._logs: dict[int, list[Log]] = {}  # of the runs of a stage, by its identity: some write nothing
        self.readings: list[Reading] = []
        self.dated_files: list[str] = []
        self.objections: list[str] = []
        temporary = scratch.temporary_below(self.plan.scratch)
        self.environ = {**context.environ, "TMPDIR": temporary}
        self.finder = Finder(self, ignores_lines, context.is_recaching)
        self._making = threading.RLock()
        os.makedirs(temporary, exist_ok=True)

    def is_cached(self, stage: Stage) -> bool:
        """Whether a stage's result may come from the store."""
        if stage.grammar.searches_libraries and self._reads_thin_archive(stage):
            self.objections.append("it links a thin archive, whose members are not looked at")
            return False
        if not stage.grammar.is_cached and not (stage.kind == HOST_LINK and self.plan.host_link):
            self.objections.append(f"its stage {stage.kind} is not cached")
        return stage.grammar.is_cached

    def _reads_thin_archive(self, stage: Stage) -> bool:
        named = [path for path in stage.possible_files if os.path.isfile(path)]
        searched = nvlink.libraries(stage.words, self.environ)
        return any(device_code.is_thin_archive(path) for path in (*named, *searched))

    def accept(self, stage: Stage, lookup: Lookup) -> None:
        """Take the digests of a stage that does not have to run, and what it is known to have read."""
        assert lookup.entry is not None
        for output in self.kept_outputs(stage):
            if output.role in lookup.entry.outputs:
                self.store.rely_on(lookup.entry.outputs[output.role])
                self.workspace.expect(output.path, lookup.entry.outputs[output.role])
        assert lookup.reading is not None
        self._take_reading(stage, lookup.reading)
        if stage.is_preprocessor:
            self.passes[stage.outputs[0].path] = passes.of_facts(lookup.entry.facts)

    def lost_producers(self, stage: Stage) -> list[Stage]:
        """The stages that have to run again before this one can: the text of a pass is not stored."""
        read = [path for path in self.read_by(stage) if path in self.outputs]
        return [self.outputs[path][0] for path in read if not self.workspace.can_make(path)]

    def run(self, stage: Stage, handle: Handle | None = None) -> Completed:
        """Run a stage for real, having made what it reads; raises LostResultError or OSError."""
        with self._making:
            for path in (*self.read_by(stage), *self.read_by(stage)):
                self._make(path)  # twice, since making one again can write another anew, in its stored form
        for output in stage.outputs:
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
            if output.begins_as:
                shutil.copyfile(output.begins_as, output.path)

        logs = self._logs[id(stage)] = []

        def carry_out(words: Sequence[str]) -> Completed:
            completed, log = self._context.watch.run(words, self.environ, handle, bool(self.terminal))
            logs.append(log)
            return completed

        before = self._lying_before(stage)
        completed = carry_out(self._words_to_run(stage))
        if completed.status == 0 and module_id.generates(stage):
            completed = self.seeding.settle(stage, completed, self.kept_outputs(stage), carry_out)
        if completed.status == 0:
            self._take_in(stage, before)
        return completed

    def run_again(self, stage: Stage, handle: Handle | None = None) -> Completed:
        """Run a stage whose output is lost, and keep it; what came after it relies on the same bytes."""
        expected = [self.workspace.digest_of(output.path) for output in self._known_outputs(stage)]
        completed = self.run(stage, handle)
        made = [self.workspace.digest_of(output.path) for output in self._known_outputs(stage)]
        if completed.status != 0 or made[: len(expected)] != expected:
            raise LostResultError(f"running {stage.kind} again did not give the same result")
        for output in self._known_outputs(stage):
            content = self.workspace.content_of(output.path)
            if content is not None and stage.grammar.is_cached:
                digest = self.workspace.digest_of(output.path)
                self.store.add_blob(digest, content, compress=not output.destination)
        return completed

    def publish(self, stage: Stage, lookup: Lookup, completed: Completed) -> None:
        """Put what a stage has just produced into the store, if it tells nothing of this one call."""
        reason = self._publish(stage, lookup, completed)
        if reason:
            self.store.trouble = f"{stage.kind} is not stored: {reason}"
            self.objections.append(reason)

    def _publish(self, stage: Stage, lookup: Lookup, completed: Completed) -> str:
        """The reason why a result cannot be stored, or empty."""
        kept = [output for output in self.kept_outputs(stage) if not stage.is_preprocessor]
        contents = {output.role: self.workspace.content_of(output.path) for output in kept}
        directory = os.fsencode(self.plan.scratch)
        if any(content is None or directory in content for content in contents.values()):
            return f"a product of {stage.kind} names the scratch directory"
        if self.finder.front_key(stage) != lookup.front_key:
            return observed_inputs.CHANGED_MEANWHILE
        is_silent = not completed.stdout and not completed.stderr
        front_key = lookup.claim_key if is_silent else lookup.front_key
        try:
            key = self._key_to_publish(stage, front_key, completed)
        except UnreadableError as error:
            return str(error)
        if not key:
            return f"the module id of {stage.kind} is not understood"
        for output in kept:
            content = contents[output.role]
            assert content is not None
            self.store.add_blob(self.workspace.digest_of(output.path), content, not output.destination)
        self._add_entry(stage, key, completed)
        return ""

    def _add_entry(self, stage: Stage, key: str, completed: Completed) -> None:
        outputs = self.kept_outputs(stage)
        if self._is_free_of_id(stage):
            outputs = [output for output in outputs if output.role != ROLE]
        digests = {output.role: self.workspace.digest_of(output.path) for output in outputs}
        entry = Entry(
            digests,
            self.without_scratch(completed.stdout),
            self.without_scratch(completed.stderr),
            completed.seconds,
            facts=self.passes[stage.outputs[0].path].facts() if stage.is_preprocessor else {},
            text=self.finder.text_read_by(stage),
        )
        entries.add(self.store, key, entry)

    def _is_free_of_id(self, stage: Stage) -> bool:
        output = stage.output(ROLE)
        is_own = output is not None and self.finder.is_own_id(output)
        return is_own and not self.seeding.names_id(stage, self.kept_outputs(stage))

    def has_unlike_id(self, stage: Stage) -> bool:
        """Whether a stage that made up the module id itself has another one, in what it made, than nvcc's."""
        own, original = self._ids_of(stage)
        if not self.workspace.knows(own) or not self.workspace.knows(original):
            return False
        if self.workspace.digest_of(own) == self.workspace.digest_of(original):
            return False
        return not self._is_free_of_id(stage)

    def may_name_id(self, stage: Stage) -> bool:
        """Whether device code of a stage may hold the module id, by which its source's path tells."""
        return self.seeding.may_be_named(stage, self.kept_outputs(stage))

    def will_have_unlike_id(self, stage: Stage) -> bool:
        """Whether that is known before the stage has run: nvcc's id is made up, and it takes no seed."""
        _, original = self._ids_of(stage)
        identifier = self.workspace.content_of(original) if self.workspace.knows(original) else None
        return identifier is not None and self.seeding.is_beyond(stage, identifier)

    def original_id(self, stage: Stage) -> str:
        """The file with the id that nvcc would have this stage read, or empty."""
        return self._ids_of(stage)[1]

    def _ids_of(self, stage: Stage) -> tuple[str, str]:
        output = stage.output(ROLE)
        return (output.path, self.plan.own_ids.get(output.path, "")) if output else ("", "")

    def content_of(self, output: Output) -> bytes:
        """The content of a product, made again if the store has lost it; raises LostResultError."""
        content = self.workspace.content_of(output.path)
        if content is None:
            with self._making:
                self._make_again(output.path)
            content = self.workspace.content_of(output.path)
        assert content is not None
        return content

    def as_kept(self, output: Output, prefix: str) -> bytes:
        """An intermediate as nvcc would have left it under its name; raises LostResultError."""
        with self._making:
            self._make(output.path)
        with open(output.path, "rb") as stream:
            return stream.read().replace(os.fsencode(self.plan.scratch) + b"/", os.fsencode(prefix))

    def without_scratch(self, text: bytes) -> bytes:
        """Diagnostics as they may be told and kept."""
        return scratch.hide(text, self.plan.scratch, self._context.environ)

    def read_by(self, stage: Stage) -> list[str]:
        """The intermediates a stage reads: those its command names, and those that they include."""
        if stage.kind == OPAQUE:
            return [path for path in self.outputs if self.workspace.knows(path)]
        included = [inner for path in stage.inputs for inner in self.plan.included.get(path, ())]
        return [*stage.inputs, *(included if stage.grammar.may_include else ())]

    def kept_outputs(self, stage: Stage) -> list[Output]:
        return [output for output in stage.outputs if output.role not in stage.grammar.unread]

    def input_bytes(self, stage: Stage) -> int:
        """The size of what a stage reads, as far as it lies on disk."""
        return sum(os.path.getsize(path) for path in self.read_by(stage) if os.path.exists(path))

    def _known_outputs(self, stage: Stage) -> list[Output]:
        return [output for output in self.kept_outputs(stage) if self.workspace.knows(output.path)]

    def _make(self, path: str) -> None:
        """Have an intermediate on disk."""
        if path not in self.outputs:
            return  # written by an opaque stage, which always runs
        if not self.workspace.materialise(path, self.outputs[path][1]):
            self._make_again(path)
            if not self.workspace.materialise(path, self.outputs[path][1]):
                raise LostResultError(f"cannot make `{os.path.basename(path)}` again")

    def _make_again(self, path: str) -> None:
        """Run the stage whose output the store has lost."""
        stage, _ = self.outputs[path]
        self.run_again(stage)

    def _lying_before(self, stage: Stage) -> dict[str, str]:
        """The digests of the intermediates that a command not understood may change where they lie."""
        if stage.kind != OPAQUE:
            return {}
        paths = [path for path in {*self.outputs, *stage.inputs} if os.path.isfile(path)]
        return {path: keys.digest_file(path) for path in paths}

    def _adopt_changes(self, stage: Stage, before: dict[str, str]) -> None:
        for path, digest in self._lying_before(stage).items():
            if before.get(path) == digest:
                continue
            with open(path, "rb") as stream:
                content = stream.read()
            self.workspace.adopt(path, content)
            if path in self.passes:
                self.passes[path] = replace(self.passes[path], free_of="", meaning="")

    def _take_in(self, stage: Stage, before: dict[str, str]) -> None:
        self._adopt_changes(stage, before)
        for output in self.kept_outputs(stage):
            content = self.workspace.read_written(output)
            if stage.is_preprocessor:
                self.passes[output.path] = passes.of_text(content, self._context.base)

    def _words_to_run(self, stage: Stage) -> list[str]:
        if module_id.generates(stage):
            return self.seeding.words_of(stage)
        words = list(stage.words)
        if stage.kind == "host_compile" and stage.grammar.is_cached and host.asks_for_debug_info(words):
            words.append(f"-fdebug-prefix-map={self.plan.scratch}={DEBUG_DIRECTORY}")
        return words

    def _key_to_publish(self, stage: Stage, front_key: str, completed: Completed) -> str:
        """The key for a result just made, or empty; raises UnreadableError."""
        made = self._reading_of(stage)
        self._take_reading(stage, made)
        found = manifest.Found(reading.key_of(front_key, made), made, b"")
        key = keys.for_terminal(found.key, self.terminal, completed.stderr)
        if module_id.generates(stage):
            messages = completed.stdout + completed.stderr
            key = self.seeding.key_to_publish(stage, key, self.kept_outputs(stage), messages)
        if key:
            manifest.add(front_key, found, self.store, Relocation("", self.cwd), self.since_ns)
        return key

    def _take_reading(self, stage: Stage, made: Reading) -> None:
        self.readings.append(made)
        if not made.is_observed:
            self.objections.append(f"{stage.kind} was not observed")

    def _reading_of(self, stage: Stage) -> Reading:
        """What a stage has just read; raises UnreadableError."""
        try:
            made = self._observed(stage, self.subject_of(stage))
        except OSError as error:
            raise UnreadableError(str(error)) from None
        if stage.grammar.dates_what_it_names:
            images = [self.workspace.content_of(output.path) or b"" for output in self.kept_outputs(stage)]
            made.dates += line_table.dates_in(images, self.since_ns)
        return made

    def subject_of(self, stage: Stage) -> Subject:
        """What is to be observed of a stage; raises OSError."""
        return Subject(
            self.environ,
            stage.words[0],
            frozenset(ingredients.files_in_key(stage, self.environ)),
            ingredients.loaded_by(stage, self.environ, self.store),
            host.asks_for_colours(stage.words),
            stage.grammar.folds_mathematics,
        )

    def _observed(self, stage: Stage, subject: Subject) -> Reading:
        logs = self._logs.pop(id(stage), [])
        if self.is_blind:
            return self.inputs.assumed(subject, self._context.watch.why_not)
        if not logs:  # a reading of nothing would always hold
            raise UnreadableError(f"no run of {stage.kind} was observed")
        made = [self.inputs.reading(log.read(), subject) for log in logs]
        return made[0] if len(made) == 1 else self.inputs.union(made, subject.environ)

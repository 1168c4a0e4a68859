"""One stage: finding its result in the store, running it, putting the result into the store.

Three kinds of stages differ in how they come by their key. Most have it before they run. The stage
that makes up the module id has a second one (seeding.py). Those that read headers learn from a manifest
what they will read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from nvccache import (
    entries,
    headers,
    ingredients,
    manifest,
    module_id,
    passes,
    process,
    processor,
    reading,
)
from nvccache.entries import Entry
from nvccache.headers import Headers
from nvccache.passes import Pass
from nvccache.plan import OPAQUE, Output, Plan, Stage
from nvccache.process import Completed
from nvccache.reading import Reading, UnreadableError
from nvccache.relocation import Relocation
from nvccache.seeding import Seeding
from nvccache.stages import host, ptxas
from nvccache.store import Store
from nvccache.workspace import Workspace

# What objects with debug information say in the place of the scratch directory, whose name is never
# the same twice.
DEBUG_DIRECTORY = "/tmp/nvccache"


class LostResultError(Exception):
    """The call cannot go on here, and nvcc has to do it; carries a fault in one sentence."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is known of a stage before it runs: `key` is empty while it depends on the run."""

    front_key: str
    key: str = ""
    entry: Entry | None = None
    reading: Reading | None = None


class Execution:
    """The stages of one call that began at `since_ns`, over one store and one scratch directory.

    While they are carried out it collects what the whole call read, and why, if so, there can be no
    record of it (`objections`, clauses).
    """

    def __init__(
        self,
        plan: Plan,
        environ: dict[str, str],
        cwd: str,
        store: Store,
        since_ns: int,
        is_recaching: bool = False,
        base: str = "",
    ) -> None:
        self.plan = plan
        self.store = store
        self.workspace = Workspace(plan.scratch, store, plan.included)
        self.seeding = Seeding(plan, cwd, store, self.workspace)
        self.since_ns = since_ns
        self.headers = Headers(environ, store, since_ns)
        self.readings: list[Reading] = []
        self.passes: dict[str, Pass] = {}  # by the preprocessed file
        self.dated_files: list[str] = []
        self.objections: list[str] = []
        # Where the tools put what they leave behind when they fail; it goes with the scratch directory.
        self._temporary = os.path.join(plan.scratch, "tmp")
        self._users_temporary = environ.get("TMPDIR") or "/tmp"
        self.environ = {**environ, "TMPDIR": self._temporary}
        self._cwd = cwd
        self._base = base
        self._is_recaching = is_recaching
        self._outputs = {output.path: (stage, output) for stage in plan.stages for output in stage.outputs}
        self._seen = reading.Observations()
        self._nowhere = Relocation("", cwd)

    def is_cached(self, stage: Stage) -> bool:
        """Whether a stage's result may come from the store; known once the stages before it are done."""
        if stage.kind == "host_compile" and any(known.reads_in_assembler for known in self.passes.values()):
            self.objections.append("the assembler reads further files")
            return False
        if not stage.grammar.is_cached:
            self.objections.append(f"its stage {stage.kind} is not cached")
        return stage.grammar.is_cached

    def look_up(self, stage: Stage) -> Lookup:
        """Find the stage's result; raises OSError when its tool or a file it names cannot be read."""
        front_key = key = self._front_key(stage)
        if self._is_recaching:
            return Lookup(front_key)
        found = None
        if stage.grammar.may_include:
            found = manifest.find(front_key, self.store, self._nowhere, self._seen, processor.describe)
            key = found.key if found else ""
        entry = entries.find(self.store, key) if key else None
        if entry and entry.is_redirect:
            key = self.seeding.seeded_key(front_key, stage)
            entry = entries.find(self.store, key)
        if entry and not self._is_whole(stage, entry):
            entry = None
        return Lookup(front_key, key, entry, found.reading if found else None)

    def _is_whole(self, stage: Stage, entry: Entry) -> bool:
        if stage.is_preprocessor:
            try:
                passes.of_facts(entry.facts)
            except (ValueError, KeyError, TypeError):
                return False
        return all(output.role in entry.outputs for output in self._kept_outputs(stage))

    def _front_key(self, stage: Stage) -> str:
        digests = [self.workspace.digest_of(path) for path in self._read_by(stage)]
        dated = self._dated_sources(stage)
        found = ingredients.of_stage(stage, digests, self.environ, self._cwd, self.store, dated)
        return ingredients.key_of(found)

    def accept(self, stage: Stage, lookup: Lookup) -> None:
        """Take the digests of a stage that does not have to run, and what it is known to have read."""
        assert lookup.entry is not None
        for output in self._kept_outputs(stage):
            self.workspace.expect(output.path, lookup.entry.outputs[output.role])
        if lookup.reading:
            self.readings.append(lookup.reading)
        if stage.is_preprocessor:
            self.passes[stage.outputs[0].path] = passes.of_facts(lookup.entry.facts)

    def run(self, stage: Stage) -> Completed:
        """Run a stage for real, having made what it reads; raises LostResultError or OSError."""
        for path in (*self._read_by(stage), *self._read_by(stage)):
            self._make(path)  # twice, since making one again can write another anew, in its stored form
        for output in stage.outputs:
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
        os.makedirs(self._temporary, exist_ok=True)
        completed = process.run(self._words_to_run(stage), self.environ)
        if completed.status == 0 and module_id.generates(stage):
            completed = self.seeding.settle(stage, completed, self._kept_outputs(stage), self.environ)
        if completed.status == 0:
            self._take_in(stage)
        return completed

    def publish(self, stage: Stage, lookup: Lookup, completed: Completed) -> None:
        """Put what a stage has just produced into the store, if it tells nothing of this one call."""
        reason = self._publish(stage, lookup, completed)
        if reason:
            self.store.trouble = f"{stage.kind} is not stored: {reason}"
            self.objections.append(reason)

    def _publish(self, stage: Stage, lookup: Lookup, completed: Completed) -> str:
        """The reason why a result cannot be stored, or empty."""
        kept = [output for output in self._kept_outputs(stage) if not stage.is_preprocessor]
        contents = {output.role: self.workspace.content_of(output.path) for output in kept}
        scratch = os.fsencode(self.plan.scratch)
        if any(content is None or scratch in content for content in contents.values()):
            return f"a product of {stage.kind} names the scratch directory"
        if self._front_key(stage) != lookup.front_key:
            return headers.CHANGED_MEANWHILE
        try:
            key = self._key_to_publish(stage, lookup)
        except UnreadableError as error:
            return str(error)
        if not key:
            return f"the module id of {stage.kind} is not understood"
        for output in kept:
            content = contents[output.role]
            assert content is not None
            self.store.add_blob(self.workspace.digest_of(output.path), content, not output.destination)
        digests = {output.role: self.workspace.digest_of(output.path) for output in self._kept_outputs(stage)}
        stderr = self.without_scratch(completed.stderr)
        stdout = self.without_scratch(completed.stdout)
        facts = self.passes[stage.outputs[0].path].facts() if stage.is_preprocessor else {}
        entries.add(self.store, key, Entry(digests, stdout, stderr, completed.seconds, facts=facts))
        return ""

    def content_of(self, output: Output) -> bytes:
        """The content of a product, made again if the store has lost it; raises LostResultError."""
        content = self.workspace.content_of(output.path)
        if content is None:
            self._make_again(output.path)
            content = self.workspace.content_of(output.path)
        assert content is not None
        return content

    def without_scratch(self, text: bytes) -> bytes:
        """Diagnostics with intermediates under their base names: the directory's name means nothing."""
        text = text.replace(os.fsencode(self._temporary) + b"/", os.fsencode(self._users_temporary) + b"/")
        return text.replace(os.fsencode(self.plan.scratch) + b"/", b"")

    def _read_by(self, stage: Stage) -> list[str]:
        """The intermediates a stage reads: those its command names, and those that they include."""
        if stage.kind == OPAQUE:
            return [path for path in self._outputs if self.workspace.knows(path)]
        included = [inner for path in stage.inputs for inner in self.plan.included.get(path, ())]
        return [*stage.inputs, *(included if stage.grammar.may_include else ())]

    def _dated_sources(self, stage: Stage) -> list[str]:
        if not stage.grammar.dates_sources:
            return []
        known = [self._outputs[path][1] for path in stage.inputs if path in self._outputs]
        dated = [name for output in known for name in ptxas.dated_sources(self.content_of(output))]
        self.dated_files += dated
        return dated

    def _kept_outputs(self, stage: Stage) -> list[Output]:
        return [output for output in stage.outputs if output.role not in stage.grammar.unread]

    def _make(self, path: str) -> None:
        """Have an intermediate on disk."""
        if path not in self._outputs:
            return  # written by an opaque stage, which always runs
        if not self.workspace.materialise(path, self._outputs[path][1]):
            self._make_again(path)
            if not self.workspace.materialise(path, self._outputs[path][1]):
                raise LostResultError(f"cannot make `{os.path.basename(path)}` again")

    def _make_again(self, path: str) -> None:
        """Run the stage whose output the store has lost; what came after relies on the same bytes."""
        stage, _ = self._outputs[path]
        expected = self.workspace.digest_of(path)
        completed = self.run(stage)
        if completed.status != 0 or self.workspace.digest_of(path) != expected:
            raise LostResultError(f"running {stage.kind} again did not give the same result")
        for output in self._kept_outputs(stage):
            content = self.workspace.content_of(output.path)
            if content is not None and stage.grammar.is_cached:
                digest = self.workspace.digest_of(output.path)
                self.store.add_blob(digest, content, compress=not output.destination)

    def _take_in(self, stage: Stage) -> None:
        if stage.kind == OPAQUE:
            for path in stage.inputs:
                if os.path.isfile(path) and not self.workspace.knows(path):
                    self.workspace.adopt(path)
        for output in self._kept_outputs(stage):
            content = self.workspace.read_written(output)
            if stage.is_preprocessor:
                self.passes[output.path] = passes.of_text(
                    content, self._base, stage.kind == "host_preprocess"
                )

    def _words_to_run(self, stage: Stage) -> list[str]:
        if module_id.generates(stage):
            return self.seeding.words_of(stage)
        words = list(stage.words)
        if stage.kind == "host_compile" and stage.grammar.is_cached:
            words += ["-MD", "-MF", self._rule_path(stage)]
            if host.asks_for_debug_info(words):
                words.append(f"-fdebug-prefix-map={self.plan.scratch}={DEBUG_DIRECTORY}")
        return words

    def _rule_path(self, stage: Stage) -> str:
        return stage.outputs[0].path + ".read"

    def _key_to_publish(self, stage: Stage, lookup: Lookup) -> str:
        """The key for a result just made, or empty; raises UnreadableError."""
        if not stage.grammar.may_include:
            if module_id.generates(stage):
                return self.seeding.key_to_publish(stage, lookup.front_key, self._kept_outputs(stage))
            return lookup.front_key
        made = self._reading_of(stage)
        found = manifest.Found(reading.key_of(lookup.front_key, made), made, b"")
        manifest.add(lookup.front_key, found, self.store, self._nowhere, self.since_ns)
        self.readings.append(made)
        return found.key

    def _reading_of(self, stage: Stage) -> Reading:
        """What a stage has just read; raises UnreadableError."""
        try:
            if stage.is_preprocessor:
                path = stage.outputs[0].path
                with open(path, "rb") as stream:
                    return self.headers.of_pass(stage.words, self.passes[path].entered, stream.read())
            with open(self._rule_path(stage), "rb") as stream:
                names = headers.read_make_rule(stream.read())
            read_again = [name for name in names if not name.startswith(self.plan.scratch + "/")]
            return self.headers.of_rule(stage.words, read_again)
        except OSError as error:
            raise UnreadableError(str(error)) from None

"""One stage: finding its result in the store, running it, putting the result into the store.

Three kinds of stages differ in how they come by their key. Most have it before they run. The stage
that makes up the module id has a second one, for units whose id depends on more than their text. The
host compile learns from a manifest what it will read.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from nvccache import ingredients, keys, manifest, module_id, process
from nvccache.plan import OPAQUE, Output, Plan, Stage
from nvccache.process import Completed
from nvccache.stages import host, ptxas
from nvccache.store import Entry, Store
from nvccache.workspace import Workspace

# What objects with debug information say in the place of the scratch directory, whose name is never
# the same twice.
DEBUG_DIRECTORY = "/tmp/nvccache"
_ASSEMBLER_READS = (b".incbin", b".include")  # the assembler takes them in capitals, too


class LostResultError(Exception):
    """The call cannot go on here, and nvcc has to do it; carries a fault in one sentence."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is known of a stage before it runs, at `time`: `key` is empty while it depends on the run."""

    time: float  # seconds since the epoch
    front_key: str
    key: str = ""
    entry: Entry | None = None


class Execution:
    """The stages of one call, over one store and one scratch directory."""

    def __init__(
        self, plan: Plan, environ: dict[str, str], cwd: str, store: Store, is_recaching: bool = False
    ) -> None:
        self.plan = plan
        self.store = store
        self.workspace = Workspace(plan.scratch, store, plan.included)
        # Where the tools put what they leave behind when they fail; it goes with the scratch directory.
        self._temporary = os.path.join(plan.scratch, "tmp")
        self._users_temporary = environ.get("TMPDIR") or "/tmp"
        self._environ = {**environ, "TMPDIR": self._temporary}
        self._cwd = cwd
        self._is_recaching = is_recaching
        self._outputs = {output.path: (stage, output) for stage in plan.stages for output in stage.outputs}
        self._preprocessors = [stage for stage in plan.stages if stage.kind.endswith("_preprocess")]
        self._reads_in_assembler = False

    def is_cached(self, stage: Stage) -> bool:
        """Whether a stage's result may come from the store; known once the stages before it are done."""
        return stage.grammar.is_cached and not (stage.kind == "host_compile" and self._reads_in_assembler)

    def look_up(self, stage: Stage) -> Lookup:
        """Find the stage's result; raises OSError when its tool or a file it names cannot be read."""
        now = time.time()
        front_key = key = self._front_key(stage)
        if self._is_recaching:
            return Lookup(now, front_key)
        if stage.grammar.may_include:
            key = manifest.find_key(front_key, self.store)
        entry = self.store.find_entry(key) if key else None
        if entry and entry.is_redirect:
            key = self._seeded_key(front_key, stage)
            entry = self.store.find_entry(key)
        if entry and not all(output.role in entry.outputs for output in self._kept_outputs(stage)):
            entry = None
        return Lookup(now, front_key, key, entry)

    def _front_key(self, stage: Stage) -> str:
        digests = [self.workspace.digest_of(path) for path in self._read_by(stage)]
        dated = self._dated_sources(stage)
        found = ingredients.of_stage(stage, digests, self._environ, self._cwd, self.store, dated)
        return ingredients.key_of(found)

    def accept(self, stage: Stage, entry: Entry) -> None:
        """Take the digests of a stage that does not have to run."""
        for output in self._kept_outputs(stage):
            self.workspace.expect(output.path, entry.outputs[output.role])

    def run(self, stage: Stage) -> Completed:
        """Run a stage for real, having made what it reads; raises LostResultError or OSError."""
        for path in (*self._read_by(stage), *self._read_by(stage)):
            self._make(path)  # twice, since making one again can write another anew, in its stored form
        for output in stage.outputs:
            os.makedirs(os.path.dirname(output.path), exist_ok=True)
        os.makedirs(self._temporary, exist_ok=True)
        words = self._words_to_run(stage)
        completed = process.run(words, self._environ)
        if completed.status == 0 and module_id.generates(stage):
            completed = self._settle_module_id(stage, completed)
        if completed.status == 0:
            self._take_in(stage)
        return completed

    def publish(self, stage: Stage, lookup: Lookup, completed: Completed) -> None:
        """Put what a stage has just produced into the store, if it tells nothing of this one call."""
        kept = self._kept_outputs(stage)
        contents = {output.role: self.workspace.content_of(output.path) for output in kept}
        scratch = os.fsencode(self.plan.scratch)
        if any(content is None or scratch in content for content in contents.values()):
            self.store.trouble = f"a product of {stage.kind} names the scratch directory"
            return
        if self._front_key(stage) != lookup.front_key:
            self.store.trouble = f"a tool or a file of {stage.kind} changed while it ran"
            return
        key = self._key_to_publish(stage, lookup)
        if not key:
            return
        for output in kept:
            content = contents[output.role]
            assert content is not None
            self.store.add_blob(self.workspace.digest_of(output.path), content, not output.destination)
        digests = {output.role: self.workspace.digest_of(output.path) for output in kept}
        stderr = self.without_scratch(completed.stderr)
        stdout = self.without_scratch(completed.stdout)
        self.store.add_entry(key, Entry(digests, stdout, stderr, completed.seconds))

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

    def seed_of(self, stage: Stage) -> module_id.Seed:
        ends = {output.destination for output in stage.outputs if output.destination}
        for output in stage.outputs:
            ends.update(self.plan.destinations.get(output.path, ()))
        products = [os.path.join(self._cwd, path) for path in sorted(ends)]
        source = os.path.join(self._cwd, dict(stage.names).get("source path", ""))
        preprocessor = self._preprocessor_of(stage)
        definitions = module_id.definitions_in(preprocessor.words) if preprocessor else []
        return module_id.seed_of(source, [os.path.normpath(path) for path in products], definitions)

    def _preprocessor_of(self, stage: Stage) -> Stage | None:
        written = [self._outputs[path][0] for path in stage.inputs if path in self._outputs]
        return next((producer for producer in written if producer in self._preprocessors), None)

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
        return [name for output in known for name in ptxas.dated_sources(self.content_of(output))]

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
            if stage.kind == "host_preprocess":
                text = content.lower()
                self._reads_in_assembler |= any(word in text for word in _ASSEMBLER_READS)

    def _words_to_run(self, stage: Stage) -> list[str]:
        words = list(stage.words)
        if module_id.generates(stage) and self._takes_seed(stage):
            return module_id.with_seed(words, self.seed_of(stage))
        if stage.grammar.may_include and stage.grammar.is_cached:
            words += ["-MD", "-MF", self._rule_path(stage)]
            if host.asks_for_debug_info(words):
                words.append(f"-fdebug-prefix-map={self.plan.scratch}={DEBUG_DIRECTORY}")
        return words

    def _rule_path(self, stage: Stage) -> str:
        return stage.outputs[0].path + ".read"

    def _takes_seed(self, stage: Stage) -> bool:
        preprocessor = self._preprocessor_of(stage)
        version = module_id.toolkit_version(preprocessor.words) if preprocessor else 0
        return module_id.takes_seed(version) and not module_id.user_chose_seed(stage)

    def _settle_module_id(self, stage: Stage, completed: Completed) -> Completed:
        """On toolkits that take no seed: run again if the id would never be the same twice."""
        output = stage.output("module_id")
        if output not in self._kept_outputs(stage):
            return completed
        assert output is not None
        with open(output.path, "rb") as stream:
            replaced = module_id.replace_process(stream.read(), self.seed_of(stage))
        if replaced is None:
            return completed
        with open(output.path, "wb") as stream:
            stream.write(replaced)
        again = process.run(module_id.without_generating(stage.words), self._environ)
        return Completed(again.status, again.stdout, again.stderr, again.seconds)

    def _seeded_key(self, front_key: str, stage: Stage) -> str:
        builder = keys.KeyBuilder("seeded stage")
        builder.add("front", front_key)
        builder.add("seed", self.seed_of(stage).text)
        return builder.key()

    def _key_to_publish(self, stage: Stage, lookup: Lookup) -> str:
        """The key for a result just made, or empty if it must not be stored."""
        if stage.grammar.may_include:
            return self._key_of_reading(stage, lookup)
        if not module_id.generates(stage):
            return lookup.front_key
        output = stage.output("module_id")
        if output not in self._kept_outputs(stage):
            return self._key_by_products(stage, lookup)
        identifier = self.workspace.content_of(output.path) if output else None
        if identifier is None or not module_id.is_understood(identifier):
            return ""
        if not module_id.depends_on_seed(identifier, self.seed_of(stage)):
            return lookup.front_key
        return self._redirect(stage, lookup)

    def _key_by_products(self, stage: Stage, lookup: Lookup) -> str:
        """The key where no file tells the id: PTX shows whether it holds one made up, code does not."""
        contents = [self.workspace.content_of(output.path) or b"" for output in self._kept_outputs(stage)]
        is_text = not any(b"\0" in content for content in contents)
        if self._takes_seed(stage):
            rest = self.seed_of(stage).rest
            depends = not is_text or any(rest in content for content in contents)
            return self._redirect(stage, lookup) if depends else lookup.front_key
        if module_id.user_chose_seed(stage):
            return lookup.front_key
        is_settled = is_text and not any(module_id.names_process(content) for content in contents)
        return lookup.front_key if is_settled else ""

    def _redirect(self, stage: Stage, lookup: Lookup) -> str:
        self.store.add_entry(lookup.front_key, Entry(is_redirect=True))
        return self._seeded_key(lookup.front_key, stage)

    def _key_of_reading(self, stage: Stage, lookup: Lookup) -> str:
        try:
            with open(self._rule_path(stage), "rb") as stream:
                names = manifest.read_make_rule(stream.read())
        except OSError:
            return ""
        read_again = [name for name in names if not name.startswith(self.plan.scratch + "/")]
        directories = manifest.search_directories(stage.words, self._environ)
        found = manifest.add_reading(lookup.front_key, read_again, directories, lookup.time, self.store)
        return found or ""

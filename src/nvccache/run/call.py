"""The state of one call that no record answers: its plan, its stages, and the files between them.

Each tool is run by a thread of its own. That thread uses only the inputs and outputs of its stage, and holds
one of `locks` while it writes files that other stages need, too.
"""

from __future__ import annotations

import os
import threading
import time

from nvccache import log, module_id, passes
from nvccache.files import keys
from nvccache.machine import scratch
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.plan import stage_key
from nvccache.plan.model import OPAQUE, Output, Plan, Stage
from nvccache.plan.stages.tool import STUB_PLACEHOLDER
from nvccache.records.facts import CurrentState
from nvccache.records.tiered_store import TieredStore
from nvccache.run.stage_run import StageRun
from nvccache.run.wrappers import PLACES
from nvccache.toolkit import toolchain
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvccache.observation.observer import Watch
    from nvccache.passes import Pass
    from nvccache.records.direct_hit import Request
    from nvccache.store.store import Store

_PLACEHOLDER = STUB_PLACEHOLDER.encode()
_ON_DISK_ONLY = frozenset({"ii"})  # preprocessed text, which is too large for memory and for the store


class Compile:
    """The state of one call.

    Unless an option makes line numbers matter, stages may at first use results that were made from text with
    other line numbers. If a diagnostic appears, or a wrapper asks for debug information, line numbers matter
    after all (deliver.py).
    """

    def __init__(
        self,
        request: Request,
        plan: Plan,
        environ: dict[str, str],
        store: Store,
        watch: Watch,
        since_ns: int,
        messages: bytes,
    ) -> None:
        self.request = request
        self.plan = plan
        self.environ = environ  # the environment of its tools
        self.store = store
        self.watch = watch  # runs the tools
        self.since_ns = since_ns  # when the call began
        self.messages = messages  # messages of nvcc itself, which come before those of its tools
        self.cwd = os.getcwd()
        self.checkout = request.checkout  # below it, nvcc gets relative paths; may be empty
        self.ignores_lines = not any(stage.lines_matter or stage.kind == OPAQUE for stage in plan.stages)
        self.runs = [StageRun(at, step) for at, step in enumerate(plan.steps) if isinstance(step, Stage)]
        self.wrapper_effects: set[str] = set()  # what wrappers were observed to do so far, see wrappers.py
        self.now = CurrentState(environ, request.now)
        self.outputs = {out.path: (stage, out) for stage in plan.stages for out in stage.outputs}
        self.intermediates = Intermediates(store, plan.included, self._id_in)
        self._module_ids: dict[str, bytes] = {}  # file -> the id that tools read from it
        self.inputs = ObservedInputs(store, self.cwd, plan.scratch, since_ns, self.now)
        # By path of an output: the lock of its stage, held while the output is written for another stage.
        self.locks: dict[str, threading.RLock] = {}
        for stage in plan.stages:
            self.locks |= dict.fromkeys((out.path for out in stage.outputs), threading.RLock())

    @property
    def remote(self) -> TieredStore | None:
        """The store, if it has remotes that can be queried for records; otherwise None."""
        return self.store if isinstance(self.store, TieredStore) else None

    def note(self, message: str) -> None:
        """Log a message, with the seconds since the call began."""
        if self.request.config.log:
            seconds = (time.time_ns() - self.since_ns) / 1e9
            log.write(self.request.config.log, f"+{seconds:.2f} s {message}")

    @property
    def contains_id(self) -> bool:
        """Whether a result may contain a module id, which depends on the names of the products."""
        return any(run.contains_id for run in self.runs)

    def module_id_of(self, stage: Stage) -> bytes:
        """The module id that a stage reads; empty if none. The first pass of its TU must have ended."""
        path = module_id.file_of(stage)
        if path and path not in self._module_ids:
            self._module_ids[path] = self._compose_id(stage)
        return self._module_ids.get(path, b"")

    def note_wrapper(self, effects: Iterable[str]) -> None:
        """Note what a wrapper did in one stage, since it is likely to do the same in other stages."""
        self.wrapper_effects.update(effects)
        self.ignores_lines = self.ignores_lines and PLACES not in self.wrapper_effects

    def _compose_id(self, stage: Stage) -> bytes:
        first = module_id.first_pass_of(self.plan, stage)
        text = self.intermediates.meaning_of(first.outputs[0].path) if first else ""
        is_absolute = self.request.invocation.has_absolute_inputs
        return module_id.compose_for(self.plan, stage, self.cwd, self.checkout, is_absolute, text)

    def _id_in(self, path: str) -> bytes:
        """The module id that an intermediate may define; empty if it defines none."""
        stage, output = self.outputs.get(path, (None, None))
        is_there = stage and output and output.role in module_id.DEFINED_IN
        return self.module_id_of(stage) if stage and is_there else b""

    def ids_passed_on(self, stage: Stage) -> list[str]:
        """The module ids that a stage copies from its inputs to its output; the inputs' digests omit them."""
        makers = [self.outputs[path] for path in self.read_by(stage) if path in self.outputs]
        return [
            os.fsdecode(self.module_id_of(maker))
            for maker, output in makers
            if module_id.defines_id(maker, output.role)
        ]

    def without_scratch(self, text: bytes) -> bytes:
        """Diagnostics without the scratch directory; intermediates get names of products, or no directory."""
        if os.fsencode(self.plan.scratch) in text:
            for output in (output for _, output in self.outputs.values() if output.destination):
                text = text.replace(os.fsencode(output.path), os.fsencode(output.destination))
        return scratch.hide_paths(text, self.plan.scratch)

    def read_by(self, stage: Stage) -> list[str]:
        """The intermediates that a stage reads: those that its command names, and those that they include."""
        if stage.kind == OPAQUE:
            return [path for path in self.outputs if self.intermediates.has_digest(path)]
        included = [inner for path in stage.inputs for inner in self.plan.included.get(path, ())]
        return [*stage.inputs, *(included if stage.grammar.may_include else ())]

    def input_bytes(self, stage: Stage) -> int:
        """The total size in bytes of those inputs of a stage that are on disk."""
        return sum(os.path.getsize(path) for path in self.read_by(stage) if os.path.exists(path))

    def subject_of(self, stage: Stage) -> Subject:
        """The properties of a stage on which its input record depends; raises OSError."""
        read = [*self.read_by(stage), *filter(None, (module_id.file_of(stage),))]
        program = toolchain.resolve(stage.argv[0], self.environ.get("PATH", ""))
        return Subject(
            self.environ,
            stage.argv[0],
            frozenset(stage_key.files_in_key(stage)),
            stage_key.is_known_by_content(stage, program),
            stage.tool.folds_mathematics,
            frozenset((*read, *(output.path for output in stage.outputs))),
        )


class Intermediates:
    """The intermediate files of a call: their digests, where known, and which of them are on disk.

    A stage that hits adds only digests here. A file is written when a stage that reads it has to run. Digests
    and blobs are made from canonical content: placeholders stand for the name of the stub file, and for the
    module id where an intermediate defines it. Files on disk, which tools read, contain the real name and id.
    """

    def __init__(
        self,
        store: Store,
        included: dict[str, tuple[str, ...]],
        id_in: Callable[[str], bytes] = lambda path: b"",
    ) -> None:
        self._id_in = id_in  # returns the module id that a file may define, or nothing
        self._store = store
        self._included = included
        self._digests: dict[str, str] = {}
        self.passes: dict[str, Pass] = {}  # the facts about preprocessed text
        self._contents: dict[str, bytes] = {}  # canonical contents of files that this call made
        self._on_disk: set[str] = set()
        self._adopted: set[str] = set()

    def digest_of(self, path: str) -> str:
        return self._digests[path]

    def has_digest(self, path: str) -> bool:
        return path in self._digests

    def meaning_of(self, path: str) -> str:
        """The digest of a text without line numbers; if unknown, the digest of the whole file, or empty."""
        meaning = self.passes[path].meaning if path in self.passes else ""
        return meaning or self._digests.get(path, "")

    def are_absolute(self, paths: Iterable[str]) -> bool:
        """Whether some of these files are preprocessed text, and all their file names are absolute."""
        texts = [self.passes[path] for path in paths if path in self.passes]
        return bool(texts) and all(text.is_absolute for text in texts)

    def expect(self, path: str, digest: str) -> None:
        """Note the digest of a file that a stage would have written if its result had not been found."""
        self._digests[path] = digest

    def forget(self, paths: Iterable[str]) -> None:
        """Forget files that are about to be made again from other inputs."""
        for path in paths:
            self._digests.pop(path, None)
            self._contents.pop(path, None)
            self.passes.pop(path, None)
            self._on_disk.discard(path)

    def read_written(self, output: Output) -> bytes:
        """Read a file that a stage wrote, and return its canonical content; raises OSError."""
        with open(output.path, "rb") as stream:
            content = stream.read()
        if output.role == "stub":
            content = content.replace(self._stub_name(output), _PLACEHOLDER)
        identifier = self._id_in(output.path)
        content = module_id.without_id(content, identifier) if identifier else content
        if output.role == "cudafe1.cpp":
            self._on_disk.discard(output.path)  # has a placeholder, so no tool can read it
        else:
            self._on_disk.add(output.path)
        if output.role not in _ON_DISK_ONLY:
            self._contents[output.path] = content
        # The digest of a text leaves out the working directory, since stages that depend on the directory
        # have it in their keys.
        text = passes.without_directory(content) if output.role == "ii" else content
        self._digests[output.path] = keys.digest_bytes(text)
        return content

    def adopt(self, path: str, content: bytes) -> None:
        """Note a file that a command of an unknown tool has written or changed."""
        self._digests[path] = keys.digest_bytes(content)
        self._contents.pop(path, None)
        if path in self.passes:  # the list of files in these facts is still right
            self.passes[path] = replace(self.passes[path], meaning="", is_absolute=False)
        self._adopted.add(path)
        self._on_disk.add(path)

    def content_of(self, path: str) -> bytes | None:
        """The canonical content of a file whose digest is known; None if the store has lost the content."""
        if path in self._contents:
            return self._contents[path]
        if path in self._adopted:
            with open(path, "rb") as stream:
                return stream.read()
        return self._store.read_blob(self._digests[path])

    def can_make(self, path: str) -> bool:
        """Whether a file can be written without running its stage again; true if the file is not known."""
        if path in self._on_disk or path in self._contents or not self.has_digest(path):
            return True
        return self._store.has_blob(self._digests[path])

    def materialise(self, path: str, output: Output) -> bool:
        """Write a file for a tool to read, unless it is on disk; False if the store has lost its content."""
        if path in self._on_disk:
            return True
        content = self.content_of(path)
        if content is None:
            return False
        identifier = self._id_in(path)
        content = module_id.with_id(content, identifier) if identifier else content
        name = self._stub_name(output)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content.replace(_PLACEHOLDER, name) if name else content)
        self._on_disk.add(path)
        return True

    def _stub_name(self, output: Output) -> bytes:
        """The stub's name, which replaces the placeholder in this output; empty if it has no placeholder.

        The C++ file of cudafe++ includes the stub by its base name. The line markers in the stub contain the
        path of the stub as in cicc's command line.
        """
        if output.role == "stub":
            return os.fsencode(output.path)
        if output.role == "cudafe1.cpp" and self._included.get(output.path):
            return os.fsencode(os.path.basename(self._included[output.path][0]))
        return b""

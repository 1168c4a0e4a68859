"""The state of one call that no record answers: its plan, its stages, and the files between them.

Each stage runs on its own thread and is published by another; both touch only that stage's state, inputs and
outputs.
"""

from __future__ import annotations

import os
import threading

from nvccache import module_id
from nvccache.machine import scratch
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.plan import stage_key
from nvccache.plan.model import OPAQUE, Plan, Stage
from nvccache.records.facts import CurrentState
from nvccache.records.tiered_store import TieredStore
from nvccache.run.intermediates import Intermediates
from nvccache.run.stage_run import StageRun
from nvccache.run.wrappers import PLACES
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvccache.observation.observer import Watch
    from nvccache.records.base_dir import Relocation
    from nvccache.store.store import Store


class Compile:
    """One call.

    It assumes that line numbers do not matter: results may come from text with other ones. A diagnostic
    refutes that, and a wrapper that asks for debug information (attempt.py).
    """

    def __init__(
        self,
        plan: Plan,
        environ: dict[str, str],
        store: Store,
        watch: Watch,
        since_ns: int,
        relocation: Relocation,
        *,
        is_recaching: bool = False,
        files: CurrentState | None = None,
    ) -> None:
        self.plan = plan
        self.environ = environ
        self.store = store
        self.watch = watch  # runs the tools
        self.since_ns = since_ns  # when the call began
        self.relocation = relocation
        self.cwd = os.getcwd()
        self.is_recaching = is_recaching
        self.ignores_lines = not any(stage.lines_matter or stage.kind == OPAQUE for stage in plan.stages)
        self.runs = [StageRun(at, step) for at, step in enumerate(plan.steps) if isinstance(step, Stage)]
        self.wrapper_effects: set[str] = set()  # in its stages so far, see wrappers.py
        # `files`: the state of files in which records were looked up before.
        self.now = CurrentState(environ, files)
        self.outputs = {out.path: (stage, out) for stage in plan.stages for out in stage.outputs}
        self.intermediates = Intermediates(store, plan.included, self._id_in)
        self._module_ids: dict[str, bytes] = {}  # by the files that they are read from
        self.inputs = ObservedInputs(store, self.cwd, plan.scratch, since_ns)
        # By output, one for each stage: held while its outputs are written for another stage.
        self.locks: dict[str, threading.RLock] = {}
        for stage in plan.stages:
            self.locks |= dict.fromkeys((out.path for out in stage.outputs), threading.RLock())

    @property
    def remote(self) -> TieredStore | None:
        """The store, if there are remotes behind it that can be queried for records."""
        return self.store if isinstance(self.store, TieredStore) else None

    @property
    def contains_id(self) -> bool:
        """Whether a result depends on the names of the products."""
        return any(run.contains_id for run in self.runs)

    def module_id_of(self, stage: Stage) -> bytes:
        """The module id that a stage reads, or nothing; its unit's first pass is done."""
        path = module_id.file_of(stage)
        if path and path not in self._module_ids:
            self._module_ids[path] = self._compose_id(stage)
        return self._module_ids.get(path, b"")

    def note_wrapper(self, effects: Iterable[str]) -> None:
        """Note what a wrapper may have done in one stage: it is likely to do the same in others."""
        self.wrapper_effects.update(effects)
        self.ignores_lines = self.ignores_lines and PLACES not in self.wrapper_effects

    def _compose_id(self, stage: Stage) -> bytes:
        name = stage.name("source name")
        source = os.path.join(self.cwd, stage.name("source path") or name)  # CUDA 11.2 has only the name
        base = self.relocation.base
        is_below_base = bool(base) and source.startswith(base + "/")
        start = self.cwd if is_below_base or os.path.isabs(name) else "/"
        outputs = [os.path.relpath(path, start) for path in sorted(module_id.products_of(self.plan, stage))]
        if is_below_base:
            source = os.path.relpath(source, self.relocation.checkout or self.cwd)
        first = module_id.first_pass_of(self.plan, stage)
        text = self.intermediates.meaning_of(first.outputs[0].path) if first else ""
        return module_id.compose(source, name, outputs, text)

    def _id_in(self, path: str) -> bytes:
        """The module id that a file may define, or nothing."""
        stage, output = self.outputs.get(path, (None, None))
        is_there = stage and output and output.role in module_id.DEFINED_IN
        return self.module_id_of(stage) if stage and is_there else b""

    def ids_passed_on(self, stage: Stage) -> list[str]:
        """The module ids that a stage reads in files whose digests do not show them, and passes on."""
        makers = [self.outputs[path] for path in self.read_by(stage) if path in self.outputs]
        return [
            os.fsdecode(self.module_id_of(maker))
            for maker, output in makers
            if module_id.defines_id(maker, output.role)
        ]

    def without_scratch(self, text: bytes) -> bytes:
        """Diagnostics without paths in the scratch directory, for printing and storing."""
        if os.fsencode(self.plan.scratch) in text:
            for output in (output for _, output in self.outputs.values() if output.destination):
                text = text.replace(os.fsencode(output.path), os.fsencode(output.destination))
        return scratch.hide_paths(text, self.plan.scratch)

    def read_by(self, stage: Stage) -> list[str]:
        """The intermediates a stage reads: those its command names, and files they include."""
        if stage.kind == OPAQUE:
            return [path for path in self.outputs if self.intermediates.has_digest(path)]
        included = [inner for path in stage.inputs for inner in self.plan.included.get(path, ())]
        return [*stage.inputs, *(included if stage.grammar.may_include else ())]

    def input_bytes(self, stage: Stage) -> int:
        """The size of those of a stage's inputs that are on disk."""
        return sum(os.path.getsize(path) for path in self.read_by(stage) if os.path.exists(path))

    def subject_of(self, stage: Stage) -> Subject:
        """What the observation of a stage needs to know of it; raises OSError."""
        read = [*self.read_by(stage), *filter(None, (module_id.file_of(stage),))]
        program = toolchain.resolve(stage.argv[0], self.environ.get("PATH", ""))
        return Subject(
            self.environ,
            stage.argv[0],
            frozenset(stage_key.files_in_key(stage, self.environ)),
            stage_key.is_known_by_content(stage, program),
            stage.tool.folds_mathematics,
            frozenset((*read, *(output.path for output in stage.outputs))),
            stage.argv,
        )

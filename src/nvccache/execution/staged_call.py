"""A call as its stages: the state they share in one scratch directory.

    context.py          what is known before a run: Context of the call, Action of a stage
    find_stage.py       the keys of a stage, and its result if the store has it
    run_stage.py        running it: Made, its messages, what its tools were observed to do
    publish_stage.py    storing its result and input record, or why that is not possible

These change only the workspace and the store; what a call learns from them is collected in Known. Each stage
runs on its own thread and is published by another; both touch only that stage's inputs and outputs. The order
of stages is decided elsewhere (schedule.py).
"""

from __future__ import annotations

import os
import threading

from nvccache import module_id
from nvccache.execution.context import SAME_ID
from nvccache.execution.workspace import Workspace
from nvccache.execution.wrappers import PLACES
from nvccache.machine import scratch
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.plan import stage_key
from nvccache.plan.model import OPAQUE, Plan, Stage
from nvccache.records.facts import Present
from nvccache.records.tiered_store import TieredStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvccache.execution.context import Action, Context
    from nvccache.records.input_records import InputRecord
    from nvccache.records.record import Entry


class StagedCall:
    """The stages of one call in one attempt. `plan` is the one to run, see attempts.py."""

    def __init__(self, context: Context, plan: Plan) -> None:
        self.context = context
        self.plan = plan
        self.ignores_lines = context.ignores_lines and not any(stage.lines_matter for stage in plan.stages)
        self.wrapper: set[str] = set()  # effects of wrappers in its stages so far, see wrappers.py
        self.known = Known()
        self.store = context.store
        self.cwd = context.cwd
        self.environ = context.environ
        self.now = Present(self.environ, context.store, context.files)
        self.outputs = {out.path: (stage, out) for stage in plan.stages for out in stage.outputs}
        self.workspace = Workspace(plan.scratch, context.store, plan.included, self._id_in)
        self._module_ids: dict[str, bytes] = {}  # by the files that they are read from
        self.inputs = ObservedInputs(
            context.store, context.cwd, plan.scratch, context.since_ns, context.checkout
        )
        self.intermediates_lock = threading.RLock()  # held while intermediates are written to disk

    @property
    def remote(self) -> TieredStore | None:
        """The store, if there are remotes behind it that can be queried for records."""
        return self.store if isinstance(self.store, TieredStore) else None

    def module_id_of(self, stage: Stage) -> bytes:
        """The module id that a stage reads, or nothing; its unit's first pass is known."""
        path = module_id.file_of(stage)
        if path and path not in self._module_ids:
            self._module_ids[path] = self._compose_id(stage)
        return self._module_ids.get(path, b"")

    def note_wrapper(self, effects: Iterable[str]) -> None:
        """Note what a wrapper may have done in one stage: it is likely to do the same in others."""
        self.wrapper.update(effects)
        self.ignores_lines = self.ignores_lines and PLACES not in self.wrapper

    def _compose_id(self, stage: Stage) -> bytes:
        name = stage.name("source name")
        source = os.path.join(self.cwd, stage.name("source path") or name)  # CUDA 11.2 has only the name
        is_below_base = bool(self.context.base) and source.startswith(self.context.base + "/")
        start = self.cwd if is_below_base or os.path.isabs(name) else "/"
        outputs = [os.path.relpath(path, start) for path in sorted(module_id.products_of(self.plan, stage))]
        if is_below_base:
            source = os.path.relpath(source, self.cwd)
        first = module_id.first_pass_of(self.plan, stage)
        text = self.workspace.meaning_of(first.outputs[0].path) if first else ""
        return module_id.compose(source, name, outputs, text)

    def _id_in(self, path: str) -> bytes:
        stage, output = self.outputs.get(path, (None, None))
        is_there = stage and output and output.role in module_id.DEFINED_IN
        return self.module_id_of(stage) if stage and is_there else b""

    def ids_passed_on(self, stage: Stage) -> list[str]:
        """The module ids that a stage reads in files whose digests do not show them, and passes on."""
        made = [self.outputs[path] for path in self.read_by(stage) if path in self.outputs]
        return [
            os.fsdecode(self.module_id_of(maker))
            for maker, output in made
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
            return [path for path in self.outputs if self.workspace.knows(path)]
        included = [inner for path in stage.inputs for inner in self.plan.included.get(path, ())]
        return [*stage.inputs, *(included if stage.grammar.may_include else ())]

    def input_bytes(self, stage: Stage) -> int:
        """The size of those of a stage's inputs that are on disk."""
        return sum(os.path.getsize(path) for path in self.read_by(stage) if os.path.exists(path))

    def subject_of(self, stage: Stage) -> Subject:
        """What the observation of a stage needs to know of it; raises OSError."""
        read = [*self.read_by(stage), *filter(None, (module_id.file_of(stage),))]
        return Subject(
            self.environ,
            stage.argv[0],
            frozenset(stage_key.files_in_key(stage, self.environ)),
            stage_key.is_known_by_content(stage, self.environ),
            stage.tool.folds_mathematics,
            frozenset((*read, *(output.path for output in stage.outputs))),
            stage.argv,
        )


class Known:
    """What a call has learned from its stages, collected by one thread."""

    def __init__(self) -> None:
        self.input_records: list[InputRecord] = []
        self.dated_files: list[str] = []
        self.reasons_against_record: list[str] = []  # clauses
        self.is_bound = False  # whether a result depends on the names of the products
        self.record_name = ""  # of the stored result (record.Entry.name)

    def add_action(self, action: Action) -> None:
        self.dated_files += action.dated
        self.is_bound = self.is_bound or any(tag == stage_key.MODULE_IDS for tag, _ in action.components)
        if action.reason_against_record:
            self.reasons_against_record.append(action.reason_against_record)

    def add_found(self, stage: Stage, found: Entry) -> None:
        self.is_bound = self.is_bound or found.lookup_key.scope == SAME_ID
        self.add_input_record(stage, found.input_record)

    def add_input_record(self, stage: Stage, made: InputRecord) -> None:
        self.input_records.append(made)
        if not made.is_observed:
            self.reasons_against_record.append(f"{stage.kind} was not observed")

    def add(self, other: Known) -> None:
        """Add what another thread has learned."""
        self.input_records += other.input_records
        self.reasons_against_record += other.reasons_against_record
        self.is_bound = self.is_bound or other.is_bound

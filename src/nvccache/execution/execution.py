"""What the stages of one call share, and what is known of them by now.

A stage is found (find_stage.py), or it is run (run_stage.py) and its result published (publish_stage.py).
Stages run on threads of their own, and are published by another; each touches only what its stage reads and
writes. Which stage comes when is not known here.
"""

from __future__ import annotations

import os

from nvccache.execution.find_stage import Finder
from nvccache.execution.publish_stage import Publisher
from nvccache.execution.run_stage import StageRuns
from nvccache.execution.seeding import Seeding
from nvccache.execution.workspace import Workspace
from nvccache.machine import scratch
from nvccache.module_id.own_ids import ROLE, independent, source_paths
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.plan import stage_key
from nvccache.plan.model import OPAQUE, Output, Plan, Stage
from nvccache.plan.stages import host
from nvccache.preprocessed.passes import Pass
from nvccache.records.input_records import InputRecord
from nvccache.store.store import Store
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.observation.watch import Watch


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
    record of it (`reasons_against_record`, clauses). `relies_on_ids` and `ignores_lines` are two ways to
    go faster that may turn out, on the way, not to hold for a context.
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
        self.why_blind = context.watch.why_not
        self.inputs = ObservedInputs(
            context.store, context.cwd, self.plan.scratch, context.since_ns, context.base
        )
        self.input_records: list[InputRecord] = []
        self.dated_files: list[str] = []
        self.reasons_against_record: list[str] = []
        temporary = scratch.temporary_below(self.plan.scratch)
        self.environ = {**context.environ, "TMPDIR": temporary}
        self.finder = Finder(self, ignores_lines, context.is_recaching)
        self.runs = StageRuns(self, context)
        self.publisher = Publisher(self)
        os.makedirs(temporary, exist_ok=True)

    def is_cached(self, stage: Stage) -> bool:
        """Whether a stage's result may come from the store."""
        named = [path for path in stage.possible_files if os.path.isfile(path)]
        obstacle = stage.tool.obstacle(stage.argv, self.environ, named)
        if obstacle:
            self.reasons_against_record.append(obstacle)
            return False
        if not stage.grammar.is_cached and not (stage.tool.links_program and self.plan.host_link):
            self.reasons_against_record.append(f"its stage {stage.kind} is not cached")
        return stage.grammar.is_cached

    def is_free_of_id(self, stage: Stage) -> bool:
        output = stage.output(ROLE)
        is_own = output is not None and self.finder.is_own_id(output)
        return is_own and not self.seeding.names_id(stage, self.kept_outputs(stage))

    def take_input_record(self, stage: Stage, made: InputRecord) -> None:
        self.input_records.append(made)
        if not made.is_observed:
            self.reasons_against_record.append(f"{stage.kind} was not observed")

    def has_unlike_id(self, stage: Stage) -> bool:
        """Whether a stage that made up the module id itself has another one, in what it made, than nvcc's."""
        own, original = self._ids_of(stage)
        if not self.workspace.knows(own) or not self.workspace.knows(original):
            return False
        if self.workspace.digest_of(own) == self.workspace.digest_of(original):
            return False
        return not self.is_free_of_id(stage)

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

    def without_scratch(self, text: bytes) -> bytes:
        """Diagnostics as they may be told and kept."""
        if os.fsencode(self.plan.scratch) in text:
            for output in (output for _, output in self.outputs.values() if output.destination):
                text = text.replace(os.fsencode(output.path), os.fsencode(output.destination))
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

    def subject_of(self, stage: Stage) -> Subject:
        """What is to be observed of a stage; raises OSError."""
        return Subject(
            self.environ,
            stage.argv[0],
            frozenset(stage_key.files_in_key(stage, self.environ)),
            stage_key.loaded_by(stage, self.environ, self.store),
            host.asks_for_colours(stage.argv),
            stage.tool.folds_mathematics,
        )

"""What the stages of one call share, the three steps of each, and what is known of them by now.

    find (find_stage.py)        Lookup: its keys, and its result if the store has it
    run (run_stage.py)          Made: what it said, what its tools were seen to do, facts about its text
    publish (publish_stage.py)  Published: what it has read, or why it was not stored

The steps change nothing but the scratch directory and the store: what a call learns by them, they hand back,
and Known collects it. Stages run on threads of their own, and are published by another; each touches only
what its stage reads and writes. Which stage comes when is not known here.
"""

from __future__ import annotations

import os

from nvccache.execution import object_place, shared_ids
from nvccache.execution.find_stage import Finder, StageKeys
from nvccache.execution.publish_stage import Publisher
from nvccache.execution.rehearsals import Rehearsals, Rehearsed
from nvccache.execution.run_stage import StageRuns
from nvccache.execution.seeding import Seeding, Seeds
from nvccache.execution.unlike_ids import OwnIds
from nvccache.execution.workspace import Workspace
from nvccache.machine import scratch
from nvccache.module_id.own_ids import independent, source_paths
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.plan import stage_key
from nvccache.plan.model import OPAQUE, Plan, Stage
from nvccache.store.store import Store
from nvccache.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.find_stage import Lookup
    from nvccache.execution.publish_stage import Published
    from nvccache.execution.run_stage import Made
    from nvccache.execution.send_stage import Sending
    from nvccache.machine.process import Handle
    from nvccache.observation.watch import Watch
    from nvccache.preprocessed.passes import Pass
    from nvccache.records.input_records import InputRecord
    from nvccache.remote_execution.executor import Executor


@dataclass(frozen=True, slots=True)
class Context:
    """What the stages of one call share.

    `since_ns` is when it began, `watch` runs the tools, `base` and `checkout` see base_dir.py, `terminal` see
    streams.py, `executor` are other machines, if there are any, `rehearsed` what telling what wrappers
    become depends on.
    """

    plan: Plan
    environ: dict[str, str]
    cwd: str
    store: Store
    since_ns: int
    watch: Watch
    is_recaching: bool = False
    base: str = ""
    checkout: str = ""
    terminal: str = ""
    executor: Executor | None = None
    rehearsed: Rehearsed = Rehearsed()

    def with_rehearsals(self) -> Context:
        """The same with what wrappers of host compilers become, see rehearsals.py; raises OSError."""
        made = Rehearsals(self, environ_of_tools(self))
        return replace(self, plan=made.plan(), rehearsed=made.rehearsed())


def environ_of_tools(context: Context) -> dict[str, str]:
    """The environment that the tools of a call are given; makes the directory for their own files."""
    temporary = scratch.temporary_below(context.plan.scratch)
    os.makedirs(temporary, exist_ok=True)
    return {**context.environ, "TMPDIR": temporary}


class Known:
    """What is known of the stages of a call by now: one thread collects what the steps hand back."""

    def __init__(self) -> None:
        self.passes: dict[str, Pass] = {}  # by the preprocessed file
        self.input_records: list[InputRecord] = []
        self.dated_files: list[str] = []
        self.reasons_against_record: list[str] = []  # clauses
        self.is_bound = False  # whether a result depends on what the products are called

    def take_lookup(self, stage: Stage, lookup: Lookup) -> None:
        self.dated_files += lookup.dated
        self.is_bound |= lookup.is_bound
        if lookup.reason_against_record:
            self.reasons_against_record.append(lookup.reason_against_record)
        if lookup.input_record:
            self._take_input_record(stage, lookup.input_record)
        if lookup.facts:
            self.passes[stage.outputs[0].path] = lookup.facts

    def take_made(self, made: Made) -> None:
        self.passes |= made.passes
        for path in made.changed:
            if path in self.passes:
                self.passes[path] = replace(self.passes[path], free_of="", meaning="")

    def take_published(self, stage: Stage, published: Published) -> None:
        self.is_bound |= published.is_bound
        if published.input_record:
            self._take_input_record(stage, published.input_record)
        if published.reason_against_record:
            self.reasons_against_record.append(published.reason_against_record)

    def _take_input_record(self, stage: Stage, made: InputRecord) -> None:
        self.input_records.append(made)
        if not made.is_observed:
            self.reasons_against_record.append(f"{stage.kind} was not observed")


class Execution:
    """The stages of one call over one scratch directory: the three steps that each may go through.

    What they find out is handed back; only the scratch directory and the store change (workspace.py).
    `relies_on_ids` and `ignores_lines` are two ways to go faster that may turn out, on the way, not to hold
    for a context; so may `ids_choice`, see shared_ids.py. With `is_in_place` objects are written where nvcc
    has them written, see object_place.py.
    """

    def __init__(
        self,
        context: Context,
        relies_on_ids: bool = True,
        ignores_lines: bool = True,
        ids_choice: str = shared_ids.SETTLED,
        is_in_place: bool = False,
    ) -> None:
        self._context = context
        self.ids_choice = ids_choice
        self.plan_of_nvcc = context.plan
        plan = shared_ids.plan_of(context, ids_choice)
        plan = object_place.plan_of(plan) if is_in_place else plan
        self.plan = independent(plan) if relies_on_ids else plan
        self.store = context.store
        self.since_ns = context.since_ns
        self.cwd = context.cwd
        self.base = context.base
        self.terminal = context.terminal
        self.outputs = {out.path: (stage, out) for stage in self.plan.stages for out in stage.outputs}
        self.workspace = Workspace(
            self.plan.scratch, context.store, self.plan.included, source_paths(self.plan.stages)
        )
        self.seeds = Seeds(context.plan, self.plan.own_ids, context.cwd, context.environ, self.workspace)
        self.seeding = Seeding(self.seeds, context.store, self.workspace)
        self.own_ids = OwnIds(self.plan, self.workspace, self.seeding, context.store, context.cwd)
        self.is_blind = context.watch.is_blind
        self.why_blind = context.watch.why_not
        self.inputs = ObservedInputs(
            context.store, context.cwd, self.plan.scratch, context.since_ns, context.checkout
        )
        self.environ = environ_of_tools(context)
        self.rehearsed = context.rehearsed
        self.keys = StageKeys(self)
        self.finder = Finder(self, ignores_lines, context.is_recaching)
        self.runs = StageRuns(self, context)
        self.publisher = Publisher(self)
        self.sending = self._sending(context.executor)

    def _sending(self, executor: Executor | None) -> Sending | None:
        if not executor:
            return None
        from nvccache.execution.send_stage import Sending

        return Sending(self, executor)

    def find(self, stage: Stage, known: Known, before: Lookup | None = None) -> Lookup:
        """The result of a stage whose inputs are known, as far as the store has it; raises OSError."""
        lookup = self.finder.find(stage, known, before)
        if lookup.entry:
            self.finder.accept(stage, lookup)
        return lookup

    @property
    def asks_beyond(self) -> bool:
        """Whether there are other caches to be asked."""
        return self.store.beyond is not None and not self._context.is_recaching

    def find_beyond(self, stage: Stage, lookup: Lookup) -> Lookup:
        """As `find`, in other caches, for a stage that was looked up and not found; on any thread."""
        return self.finder.find_beyond(stage, lookup)

    def give_up_asking(self) -> None:
        if self.store.beyond:
            self.store.beyond.give_up()

    def accept(self, stage: Stage, lookup: Lookup) -> None:
        """Take a result that was found in another cache."""
        if lookup.entry:
            self.finder.accept(stage, lookup)

    def run(self, stage: Stage, handle: Handle | None = None) -> Made:
        """Run a stage that was not found; raises LostResultError or OSError."""
        return self.runs.run(stage, handle)

    def publish(self, stage: Stage, lookup: Lookup, made: Made) -> Published:
        """Put what a stage has just made into the store, if it tells nothing of this one call."""
        return self.publisher.publish(stage, lookup, made)

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
            stage.tool.folds_mathematics,
            frozenset((*self.read_by(stage), *(output.path for output in stage.outputs))),
            stage.argv,
            bool(stage.becomes),
        )

"""The state of one stage of a call: its keys, its result, and the job that is getting the result.

Knows nothing about slots, other processes and the store.
"""

from __future__ import annotations

from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nvccache.files.keys import KeyComponent
    from nvccache.files.signatures import Signature
    from nvccache.machine.process import Completed, Handle
    from nvccache.observation.observer import Log
    from nvccache.plan.model import Stage
    from nvccache.records.input_records import InputRecord
    from nvccache.records.record import Entry
    from nvccache.run.call import Compile
    from nvccache.run.schedule import Job
    from nvccache.store.event_line import StageEvent
    from nvccache.store.locks import Claim


class State:
    """Plain strings: creating an Enum takes as long as importing the rest of this module."""

    WAITING = "waits for its inputs"
    READY = "has no result yet"  # a job may be getting one
    DONE = "done"


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One run of a stage's tool, and what was observed; the intermediates have its outputs."""

    completed: Completed
    log: Log | None = None  # the log of a run on this machine
    executor: str = ""  # its name for display, if another machine ran the tool
    was_cached: bool = False  # whether the executor had the result: `completed.cpu` is then the earlier run's
    in_place: Mapping[str, Signature] = field(default_factory=dict)  # the products written to nvcc's path
    existed: frozenset[str] = frozenset()  # those of them that existed before
    path_dependence: str = ""  # why the path of its object may have mattered, a clause; see wrappers.py
    wrapper: tuple[str, ...] = ()  # effects of its wrapper, see wrappers.py


class StageRun:
    """One stage of a call: its state, keys and result."""

    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number  # in nvcc's order
        self.stage = stage
        self.reset()

    def reset(self) -> None:
        """Begin again, as if nothing were known of the stage."""
        self.state = State.WAITING

        # Set by find_stage.make_keys.
        self.front_key = ""  # made from the bytes of its inputs; empty for a stage that is not cached
        self.meaning_key = ""  # made from its text without line numbers; empty if it reads no text
        self.is_keyed_by_meaning = (
            False  # whether a result without diagnostics is stored under the meaning key
        )
        self.components: list[KeyComponent] | None = None  # of the front key
        self.text: tuple[str, ...] = ()  # digests of the preprocessed text that it reads
        self.dated_files: list[str] = []  # files whose date and size are in its keys

        # Its result, and what the record of the call needs to know about it.
        self.entry: Entry | None = None  # if the result comes from a cache
        self.tool_run: ToolRun | None = None  # if it comes from a run
        self.completed: Completed | None = None
        self.input_record: InputRecord | None = None
        self.contains_id = (
            False  # whether the result may contain the module id, and so depend on names of products
        )
        self.record_name = ""  # the name of the stored result's entry (record.Entry.name)
        self.reasons_against_record: list[str] = []  # why the call gets no record, clauses
        self.event: StageEvent | None = None  # set when the call has ended

        # Where it comes from.
        self.job: Job | None = None  # the job that is getting its result now
        self.may_share = True  # whether to wait for other processes that run the same
        self.claim: Claim | None = None
        self.ran_elsewhere = False  # whether another process ran it
        self.started = 0.0  # when its tool first ran or its result was found, by the monotonic clock
        self.slot_number = -1  # the number of the slot in which it ran
        self.stays_here = False  # whether it must not be sent to another machine again
        self.why_here = ""  # why it ran here although it was sent: a code of the event log

    @property
    def is_cached(self) -> bool:
        """Whether its result may come from the store."""
        return self.front_key != ""

    @property
    def claim_key(self) -> str:
        """Names the work: equal for all calls that would run this stage on inputs of the same meaning."""
        return self.meaning_key if self.is_keyed_by_meaning else self.front_key

    @property
    def is_hit(self) -> bool:
        return self.entry is not None

    @property
    def has_other_lines(self) -> bool:
        """Whether its result was made from text with other line numbers."""
        return self.entry is not None and tuple(self.entry.result.text) != self.text

    @property
    def wrapper_effects(self) -> tuple[str, ...]:
        """What its run, now or earlier, showed about its wrapper (wrappers.py)."""
        if self.tool_run:
            return self.tool_run.wrapper
        return tuple(self.entry.result.wrapper) if self.entry else ()

    @property
    def has_failed(self) -> bool:
        return self.completed is not None and self.completed.status != 0

    @property
    def has_warned(self) -> bool:
        """Whether its tool succeeded but printed something."""
        completed = self.completed
        return completed is not None and completed.status == 0 and bool(completed.stdout or completed.stderr)


class Executor:
    """Other machines that run stages; for the main thread of one call."""

    def offer(self, run: StageRun) -> tuple[Work, Callable[[], None]] | None:
        """A job that runs the stage there, and what releases its reservation; None if it has to run here."""
        raise NotImplementedError

    def note_end(self, run: StageRun) -> None:
        """Called when a stage has run, here or elsewhere."""

    def close(self) -> None:
        """Release everything."""


if TYPE_CHECKING:
    # A job gets a result, on a thread of its own; None if there is none.
    Work = Callable[[Handle], Entry | ToolRun | None]
    MakeExecutor = Callable[[Compile], Executor]

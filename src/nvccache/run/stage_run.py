"""The state of one stage of a call: its keys, its result, and the job that is getting the result.

This module knows nothing about slots, other processes and the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nvccache.files.keys import KeyComponent
from nvccache.files.signatures import Signature
from nvccache.machine.process import Completed, Handle
from nvccache.observation.observer import Log
from nvccache.plan.model import Stage
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry
from nvccache.store.event_line import StageEvent
from nvccache.store.locks import Claim
from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.run.call import Compile
    from nvccache.run.schedule import Job


class State:
    """The states of a stage: strings, since creating an Enum takes as long as importing the module."""

    WAITING = "waits for its inputs"
    READY = "has no result yet"  # its inputs are known, and a job may be getting its result
    DONE = "done"


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One run of a stage's tool, and what was observed; its outputs are in Compile.intermediates."""

    completed: Completed
    log: Log | None = None  # the observer's log, if the tool ran on this machine
    executor: str = ""  # the executor's name for display, if another machine ran the tool
    was_cached: bool = False  # whether the executor had the result; `completed.cpu` is of an earlier run
    in_place: Mapping[str, Signature] = field(default_factory=dict)  # products written in place
    existed: frozenset[str] = frozenset()  # the products in `in_place` that existed before the run
    path_dependence: str = ""  # why nvcc may get another result from its own paths, see wrappers.py
    wrapper: tuple[str, ...] = ()  # effects of its wrapper, see wrappers.py


class StageRun:
    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number  # its place in nvcc's order
        self.stage = stage
        self.reset()

    def reset(self) -> None:
        """Return to the initial state, in which nothing is known about the stage's result."""
        self.state = State.WAITING

        # Set by find_stage.make_keys.
        self.front_key = ""  # made from the bytes of its inputs; empty for a stage that is not cached
        self.meaning_key = ""  # made from its text without line numbers; empty if it reads no text
        # Whether a result without diagnostics is stored under the meaning key.
        self.is_keyed_by_meaning = False
        self.components: list[KeyComponent] | None = None  # the parts of which the front key is made
        self.text: tuple[str, ...] = ()  # digests of the preprocessed text that it reads
        self.dated_files: list[str] = []  # files whose date and size are in its keys

        # The stage's result, and what the record of the call needs to know about it.
        self.entry: Entry | None = None  # set if the result comes from a cache
        self.tool_run: ToolRun | None = None  # set if the result comes from a run of the tool
        self.completed: Completed | None = None
        self.input_record: InputRecord | None = None
        # Whether the result may contain the module id, and so depend on the names of products.
        self.contains_id = False
        self.record_name = ""  # the name of the stored result's entry (record.Entry.name)
        self.reasons_against_record: list[str] = []  # reasons why the call gets no record
        self.event: StageEvent | None = None  # set when the call has ended

        # Where the result comes from.
        self.job: Job | None = None  # the job that is getting its result now
        self.may_share = True  # whether to wait for another process that runs the same stage
        self.claim: Claim | None = None
        self.ran_elsewhere = False  # whether another process ran the stage
        self.started = 0.0  # when its tool first ran or its result was found, by the monotonic clock
        self.slot_number = -1  # the number of the slot in which it ran
        self.stays_here = False  # whether it must not be sent to another machine again
        self.why_here = ""  # why the stage ran here after it had been sent: a code of the event log

    @property
    def is_cached(self) -> bool:
        """Whether its result may come from the store."""
        return self.front_key != ""

    @property
    def claim_key(self) -> str:
        """The name of the lock held while the stage runs; equal in all calls that have equivalent inputs."""
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
        """The effects of its wrapper (wrappers.py), as seen in the run that made its result."""
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
    """Sends stages to other machines; only the main thread of one call uses it."""

    def offer(self, run: StageRun) -> tuple[Work, Callable[[], None]] | None:
        """A job that runs the stage elsewhere, and a function that releases its slot; None to run it here."""
        raise NotImplementedError

    def note_end(self, run: StageRun) -> None:
        """Called when a stage has run, here or elsewhere."""

    def close(self) -> None:
        """Release everything."""


# What a job does on a thread of its own; returns the stage's result, or None if it got none.
Work = Callable[[Handle], "Entry | ToolRun | None"]
MakeExecutor = Callable[["Compile"], Executor]

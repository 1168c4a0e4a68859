"""The result of a call that no record answered."""

from __future__ import annotations

from nvccache import outcomes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.records.products import Answer
    from nvccache.records.record import Entry
    from nvccache.store.event_line import RemoteUse, StageEvent


class LostResultError(Exception):
    """A result that the store has lost cannot be made again: nvcc has to run. The message is a sentence."""


class Report:
    """The result of a call: its output, status, stages and records."""

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"", leave_to_nvcc: str = "") -> None:
        self.leave_to_nvcc = leave_to_nvcc  # why nvcc has to run the call: one of outcomes.REASONS, or empty
        # Set if a remote had a record of the whole call: the result is then here, not in the fields below.
        self.answer: Answer | None = None
        self.status = 0
        self.stdout = stdout
        self.stderr = stderr
        self.product = ""  # the path of its first product
        self.is_query = False
        self.stages: list[StageEvent] = []  # each `start` is a time of the monotonic clock
        self.store_fault = ""  # why something was not stored: one of outcomes.STORE_FAULTS, or empty
        self.remote: RemoteUse | None = None  # the call's queries of remotes
        self.to_send: list[tuple[str, str]] = []  # what to send to remotes: bucket and key of each item
        self.record: Entry | None = None  # the record of this call, which answers it next time
        self.reason_against_record = ""  # why there is no record
        self.causes: list[str] = []  # why no record answered the call, the most important first

    @property
    def tool_saved(self) -> float:
        return sum(stage.cost for stage in self.stages if stage.is_hit)

    @property
    def outcome(self) -> str:
        """The outcome of the call, a word of outcomes.py."""
        if self.status != 0:
            return outcomes.FAILED
        if self.is_query:
            return outcomes.QUERY_MISS
        if all(stage.is_hit for stage in self.stages):
            return outcomes.STAGE_HIT
        from nvccache.plan.stages import tool_of

        tools = [(tool_of(stage.kind), stage.is_hit) for stage in self.stages]
        counted = [is_hit for tool, is_hit in tools if tool.is_counted and not tool.is_preprocessor]
        if all(counted):
            return outcomes.STAGE_HIT
        return outcomes.PARTIAL_HIT if any(counted) else outcomes.MISS

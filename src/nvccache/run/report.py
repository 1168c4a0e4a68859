"""The result of a call that was not a direct hit."""

from __future__ import annotations

from nvccache import outcomes
from nvccache.store.event_line import RemoteUse, StageEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.records.products import Answer
    from nvccache.records.record import Entry


class Report:
    """The result of a call: its output, status, stages and records."""

    __slots__ = (
        "answer",
        "causes",
        "is_query",
        "leave_to_nvcc",
        "product",
        "reason_against_record",
        "record",
        "remote",
        "stages",
        "status",
        "stderr",
        "stdout",
        "store_fault",
        "to_send",
    )

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"", leave_to_nvcc: str = "") -> None:
        self.leave_to_nvcc = leave_to_nvcc  # why nvcc has to run the call after all, of outcomes.REASONS
        # Set if a remote had a record of the whole call; the other fields are unused then.
        self.answer: Answer | None = None
        self.status = 0
        self.stdout = stdout
        self.stderr = stderr
        self.product = ""  # the first of its products
        self.is_query = False
        self.stages: list[StageEvent] = []  # `start` is a time by the monotonic clock
        self.store_fault = ""  # why something could not be stored, of outcomes.STORE_FAULTS
        self.remote: RemoteUse | None = None  # its queries of remotes
        self.to_send: list[tuple[str, str]] = []  # for remotes: bucket and key of each item
        self.record: Entry | None = None  # of this call, which answers it next time
        self.reason_against_record = ""  # why there is none, a clause
        self.causes: list[str] = []  # why no record answered the call, the most important first

    @property
    def tool_saved(self) -> float:
        return sum(stage.cost for stage in self.stages if stage.is_hit)

    @property
    def outcome(self) -> str:
        """One of `outcomes`."""
        if self.status != 0:
            return outcomes.FAILED
        if self.is_query:
            return outcomes.QUERY_MISS
        if all(stage.is_hit for stage in self.stages):
            return outcomes.STAGE_HIT
        from nvccache.plan.stages import tool_of  # loaded by then, where any stage ran

        tools = [(tool_of(stage.kind), stage.is_hit) for stage in self.stages]
        counted = [is_hit for tool, is_hit in tools if tool.is_counted and not tool.is_preprocessor]
        if all(counted):
            return outcomes.STAGE_HIT
        return outcomes.PARTIAL_HIT if any(counted) else outcomes.MISS

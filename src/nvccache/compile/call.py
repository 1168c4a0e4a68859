"""What became of a call that no record answered as a whole."""

from __future__ import annotations

from nvccache import outcomes
from nvccache.store.event_line import HIT, RemoteUse, StageEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.compile.tasks import Task
    from nvccache.records.products import CallResult


class Report:
    """Exit code, output, and what became of each stage. `cause` is why the call was not replayed.

    `answer` is what the call has given already, if another cache had all of it; nothing else counts then.

    The stages' times count from `began`, by the monotonic clock; `busy` are the seconds in which a tool ran.
    `leave_to_nvcc` is the reason why nvcc has to do the call after all, or empty. `is_linked` see
    link_only.py, `is_query` query.py; `store_fault` is why something could not be stored, a word of
    outcomes.STORE_FAULTS, or empty. `told_before_link` are standard output and error up to there, where a
    program is linked. `remote` is what was asked of remotes; `to_send` is what they may have a use for,
    bucket and key of each.

    Its record has the name `record_name` (record.Pair.name) and a `scope`; or `reason_against_record` is why
    there is none, a clause. `kept_here` is why other directories or checkouts do not share it, one of the
    clauses of record_call.py, or empty.
    """

    __slots__ = (
        "answer",
        "began",
        "busy",
        "cause",
        "is_linked",
        "is_query",
        "kept_here",
        "leave_to_nvcc",
        "looked_up",
        "products",
        "reason_against_record",
        "record_name",
        "remote",
        "scope",
        "stages",
        "status",
        "stderr",
        "stdout",
        "store_fault",
        "to_send",
        "told_before_link",
    )

    products: tuple[str, ...]

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"", leave_to_nvcc: str = "") -> None:
        self.answer: CallResult | None = None
        self.status = 0
        self.stdout = stdout
        self.stderr = stderr
        self.leave_to_nvcc = leave_to_nvcc
        self.stages: list[StageEvent] = []
        self.cause = ""
        self.began = self.busy = 0.0
        self.looked_up: list[Task] = []
        self.products = ()
        self.is_linked = self.is_query = False
        self.store_fault = ""
        self.record_name = self.scope = self.reason_against_record = self.kept_here = ""
        self.told_before_link = (b"", b"")
        self.remote: RemoteUse | None = None
        self.to_send: list[tuple[str, str]] = []

    @property
    def tool_saved(self) -> float:
        return sum(stage.cost for stage in self.stages if stage.is_hit)

    @property
    def wall_saved(self) -> float:
        """What the stages that were found took, and the time in which tools ran, other processes' too."""
        return sum(stage.wall for stage in self.stages if stage.result == HIT) + self.busy

    @property
    def outcome(self) -> str:
        """The word for it in `nvccache stats`."""
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

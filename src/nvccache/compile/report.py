"""What became of a call that no record answered as a whole."""

from __future__ import annotations

from nvccache import outcomes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.find_stage import Lookup
    from nvccache.plan.model import Stage


class StageLookup:
    """What is known of the keys of a stage that has ended; `lookup` is None for one that is not cached."""

    __slots__ = ("has_run", "lookup", "stage")

    def __init__(self, stage: Stage, lookup: Lookup | None, has_run: bool) -> None:
        self.stage = stage
        self.lookup = lookup
        self.has_run = has_run


class Report:
    """Exit code, output, and what each stage cost or saved: (kind, whether it was a hit, seconds).

    `leave_to_nvcc` is the reason why nvcc has to do the call after all, or empty. `is_linked` see
    link_only.py; `store_fault` is why something could not be stored, a word of outcomes.STORE_FAULTS, or
    empty. `told_before_link` are standard output and error up to there, where a program is linked.
    `store_fault` is a word of outcomes.STORE_FAULTS if the cache could not be used as it should, or empty.
    """

    __slots__ = (
        "is_linked",
        "leave_to_nvcc",
        "looked_up",
        "products",
        "stages",
        "status",
        "stderr",
        "stdout",
        "store_fault",
        "told_before_link",
    )

    products: tuple[str, ...]

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"", leave_to_nvcc: str = "") -> None:
        self.status = 0
        self.stdout = stdout
        self.stderr = stderr
        self.leave_to_nvcc = leave_to_nvcc
        self.stages: list[tuple[str, bool, float]] = []
        self.looked_up: list[StageLookup] = []
        self.products = ()
        self.is_linked = False
        self.store_fault = ""
        self.told_before_link = (b"", b"")
        self.store_fault = ""

    @property
    def seconds_saved(self) -> float:
        return sum(seconds for _, is_hit, seconds in self.stages if is_hit)

    @property
    def outcome(self) -> str:
        """The word for it in `nvccache stats`."""
        if self.status != 0:
            return outcomes.FAILED
        counted = [hit for kind, hit, _ in self.stages if not kind.endswith("_preprocess")]
        if all(counted):
            return outcomes.STAGE_HIT
        return outcomes.PARTIAL_HIT if any(counted) else outcomes.MISS

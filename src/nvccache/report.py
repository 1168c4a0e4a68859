"""What became of a call that no record answered as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from nvccache import outcomes


@dataclass(slots=True)
class Report:
    """Exit code, output, and what each stage cost or saved: (kind, whether it was a hit, seconds).

    `leave_to_nvcc` is the reason why nvcc has to do the call after all, or empty.
    """

    status: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    leave_to_nvcc: str = ""
    stages: list[tuple[str, bool, float]] = field(default_factory=list)
    products: tuple[str, ...] = ()
    is_linked: bool = False  # see relink.py
    told_before_link: tuple[bytes, bytes] = (b"", b"")  # standard output and error, where a program is linked

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

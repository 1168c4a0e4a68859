"""Measurements in pairs: costs, their ratios, and the table of misses.py."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CALLS = "calls"  # counted along with stages
_SHORT = {  # other stages are shown by name
    "preprocess host": "pre",
    "preprocess device": "pre",
    "fatbinary": "fat",
    "host compile": "host",
}


class Cost(NamedTuple):
    """Wall and CPU seconds of a command; CPU is user and system time of all processes waited for."""

    wall: float
    cpu: float
    own: float = 0.0  # the CPU time of nvccache itself: without that of the stages


@dataclass
class Row:
    """Costs of plain nvcc, or of what the row names instead, and of nvccache, in pairs.

    `most` is the target for the ratio of medians; `ran` counts stages in the last run; `wrong` lists errors.
    """

    unit: str
    scenario: str
    most: float | None = None
    base: list[Cost] = field(default_factory=list)
    ours: list[Cost] = field(default_factory=list)
    ran: Counter[str] = field(default_factory=Counter)
    note: str = ""
    wrong: list[str] = field(default_factory=list)

    @property
    def medians(self) -> tuple[float, float]:
        """Wall seconds, of the baseline and of nvccache."""
        base, ours = (statistics.median(cost.wall for cost in costs) for costs in (self.base, self.ours))
        return base, ours

    @property
    def ratio(self) -> float:
        base, ours = self.medians
        return ours / base

    @property
    def spread(self) -> str:
        return spread([cost.wall for cost in self.base], [cost.wall for cost in self.ours])

    @property
    def cpu_ratio(self) -> float:
        pairs = zip(self.ours, self.base, strict=True)
        return statistics.median(ours.cpu / base.cpu for ours, base in pairs)

    @property
    def verdict(self) -> str:
        if self.most is None or not self.ours:
            return "-"
        return "met" if self.ratio <= self.most else "missed"

    @property
    def faults(self) -> list[str]:
        return [f"WRONG: {fault}" for fault in dict.fromkeys(self.wrong)]


def spread(base: Sequence[float], ours: Sequence[float]) -> str:
    """The median and range of the ratios of pairs."""
    pairs = [one / other for one, other in zip(ours, base, strict=True)]
    return f"{statistics.median(pairs):.3f} ({min(pairs):.3f}-{max(pairs):.3f})"


def heading() -> str:
    return (
        f"{'unit':5} {'scenario':17} {'plain s':>8} {'ours s':>8} {'ratio':>6}  {'pairs (min-max)':19}"
        f" {'CPU':>6} {'own s':>6} {'target':>6}  {'':6}  stages run"
    )


def show(row: Row) -> None:
    details = "; ".join(part for part in (stages(row.ran) if row.ran else "", row.note) if part)
    figures = _figures(row) if row.ours else ""
    print(f"{row.unit:5} {row.scenario:17} {figures}{details}")
    print("".join(f"      {fault}\n" for fault in row.faults), end="", flush=True)


def _figures(row: Row) -> str:
    base, ours = row.medians
    target = f"{row.most:.2f}" if row.most is not None else "-"
    figures = f"{base:8.2f} {ours:8.2f} {row.ratio:6.3f}  {row.spread:19}"
    own = statistics.median(cost.own for cost in row.ours)
    return f"{figures} {row.cpu_ratio:6.3f} {own:6.3f} {target:>6}  {row.verdict:6}  "


def stages(ran: Counter[str]) -> str:
    short: Counter[str] = Counter()
    for kind, count in ran.items():
        short[_SHORT.get(kind, kind)] += count
    del short[CALLS]
    return ", ".join(f"{name} {count}" for name, count in short.items() if count) or "none"


def summary(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row.verdict != "-"]
    met = sum(row.verdict == "met" for row in judged)
    wrong = sum(bool(row.wrong) for row in rows)
    return f"targets met: {met} of {len(judged)}; rows with something wrong: {wrong} of {len(rows)}"

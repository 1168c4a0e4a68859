"""The table of misses.py: one row for each unit and scenario, printed as soon as it is measured."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench import CALLS

_SHORT = {  # what is not in here is shown as it is
    "host_preprocess": "pre",
    "device_preprocess": "pre",
    "cudafe": "cudafe",
    "cicc": "cicc",
    "ptxas": "ptxas",
    "fatbinary": "fat",
    "host_compile": "host",
}


@dataclass
class Row:
    """Seconds of plain nvcc, or of what the row names instead, and of ours, in pairs.

    `most` is the target for the ratio of medians; `ran` counts stages in the last run; `wrong` says what
    must not be.
    """

    unit: str
    scenario: str
    most: float | None = None
    base: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    ran: Counter[str] = field(default_factory=Counter)
    note: str = ""
    wrong: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.base)

    @property
    def verdict(self) -> str:
        if self.most is None or not self.ours:
            return "-"
        return "met" if self.ratio <= self.most else "missed"


def heading() -> str:
    return (
        f"{'unit':5} {'scenario':17} {'plain s':>8} {'ours s':>8} {'ratio':>6}  {'pairs (min-max)':19}"
        f" {'target':>6}  {'':6}  stages run"
    )


def show(row: Row) -> None:
    for line in _lines(row):
        print(line, flush=True)


def _lines(row: Row) -> list[str]:
    told = "; ".join(part for part in (stages(row.ran) if row.ran else "", row.note) if part)
    figures = _figures(row) if row.ours else ""
    first = f"{row.unit:5} {row.scenario:17} {figures}{told}"
    return [first, *(f"      WRONG: {fault}" for fault in dict.fromkeys(row.wrong))]


def _figures(row: Row) -> str:
    pairs = [ours / base for ours, base in zip(row.ours, row.base, strict=True)]
    spread = f"{statistics.median(pairs):.3f} ({min(pairs):.2f}-{max(pairs):.2f})"
    base, ours = statistics.median(row.base), statistics.median(row.ours)
    target = f"{row.most:.2f}" if row.most is not None else "-"
    return f"{base:8.2f} {ours:8.2f} {row.ratio:6.3f}  {spread:19} {target:>6}  {row.verdict:6}  "


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

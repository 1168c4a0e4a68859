"""The measurements of misses.py on single units: one compile after another, with a change in between.

Each run compiles with plain nvcc and with nvccache, in alternating order, from the same state of the cache.
Owns the scenarios, their targets and the stages that may run in them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import workbench
from rows import CALLS, Row
from units import Unit, Version, text_of
from workbench import Bench

FOUR = ("80", "86", "89", "90")
THREE, ONE = FOUR[:3], FOUR[:1]
_THREADS = 2  # of `nvcc -t`, which is measured for comparison
_COMPILING = ("cudafe++", "cicc", "ptxas", "host compile")
_PRIMED = "primed"


@dataclass(frozen=True)
class Scenario:
    """The state before, the measured compile, how often each stage may run, and the targets.

    `before` are the arguments of the compile that filled the cache; None for an empty cache. `edit` makes a
    new text for every run, and the cache has the text before it. `stages` is by kind of stage, `most` by
    letter of unit; `exceptions` replaces `stages` for some units.
    """

    name: str
    argv: tuple[str, ...]
    before: tuple[str, ...] | None = None
    edit: Callable[[int], Version] | None = None
    stages: dict[str, int] = field(default_factory=dict)
    exceptions: dict[str, dict[str, int]] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    most_of_threads: float | None = None  # the target compared with `nvcc -t`

    def expected(self, unit: Unit) -> dict[str, int]:
        return self.exceptions.get(unit.letter, self.stages)


def code_for(*numbers: str) -> tuple[str, ...]:
    """nvcc's arguments for a list of real architectures."""
    return tuple(each for n in numbers for each in ("-gencode", f"arch=compute_{n},code=sm_{n}"))


def cold(architectures: int) -> dict[str, int]:
    """How often each stage runs when nothing is cached."""
    return {
        "cudafe++": 1,
        "cicc": architectures,
        "ptxas": architectures,
        "fatbinary": 1,
        "host compile": 1,
    }


def never(*kinds: str) -> dict[str, int]:
    return dict.fromkeys(kinds, 0)


def scenarios() -> list[Scenario]:
    one, three, four = code_for(*ONE), code_for(*THREE), code_for(*FOUR)
    return [
        Scenario("cold-4", four, stages=cold(4), most=dict.fromkeys("abc", 0.65), most_of_threads=1.0),
        Scenario("cold-1", one, stages=cold(1), most=dict.fromkeys("abc", 1.03)),
        *_edits(one, four),
        Scenario(
            "drop-arch", one, four, stages=never("cicc", "ptxas"), exceptions={"b": cold(1)}, most={"a": 0.15}
        ),
        Scenario(
            "add-arch",
            four,
            three,
            stages={"cicc": 1, "ptxas": 1},
            exceptions={"b": cold(4)},
            most={"a": 0.45},
        ),
        Scenario(
            "xptxas",
            (*one, "-Xptxas", "-O2"),
            one,
            stages={**never("preprocess host", "preprocess device", "cudafe++", "cicc"), "ptxas": 1},
        ),
        Scenario("define", (*one, "-DUNUSED"), one, stages=never(*_COMPILING, "fatbinary")),
    ]


def _edits(one: tuple[str, ...], four: tuple[str, ...]) -> list[Scenario]:
    most = {"a": 0.15, "b": 0.25, "c": 0.15}
    comments = [
        Scenario(name, argv, argv, lambda run: Version(comments=run), never(*_COMPILING), most=most)
        for name, argv in (("comment-1", one), ("comment-4", four))
    ]
    return [
        *comments,
        Scenario("host-edit", one, one, lambda run: Version(host_only=run), never("cicc", "ptxas")),
        Scenario("host-body", one, one, lambda run: Version(host_body=run), never("ptxas")),
    ]


def perform(benches: Sequence[Bench], unit: Unit, scenario: Scenario, runs: int) -> list[Row]:
    """Measure one scenario on one unit, with each nvccache in its own bench; raises CompileError."""
    bench = benches[0]
    rows = [Row(unit.letter, f"{scenario.name}{' beside' * bool(number)}") for number in range(len(benches))]
    rows[0].most = scenario.most.get(unit.letter)
    beside = Row(unit.letter, f"{scenario.name} / -t {_THREADS}", scenario.most_of_threads)
    source = _prepare(benches, unit, scenario)
    argv = _arguments(unit, scenario.argv, source)

    def plain() -> None:
        cost = workbench.compile_plain(bench, argv)
        for row in rows:
            row.base.append(cost)

    def ours(each: Bench, row: Row) -> None:
        if not scenario.edit:
            _restore(each, scenario)
        compiled = workbench.compile_ours(each, argv)
        row.ours.append(compiled.cost)
        row.ran = compiled.ran

    lanes = [plain, *(partial(ours, *lane) for lane in zip(benches, rows, strict=True))]
    if scenario.most_of_threads:
        threads = ["-t", str(_THREADS), *argv]
        lanes.append(lambda: beside.base.append(workbench.compile_plain(bench, threads)))
    for run in range(runs):
        if scenario.edit:
            workbench.write(bench, source.name, text_of(unit, scenario.edit(run + 1)))
            workbench.settle()
        start = run % len(lanes)
        for lane in lanes[start:] + lanes[:start]:
            lane()
        rows[0].wrong += unexpected(scenario.expected(unit), rows[0].ran)
        rows[0].wrong += ["object differs"] if workbench.differs(bench, source, argv) else []
    if not scenario.most_of_threads:
        return rows
    return [*rows, dataclasses.replace(beside, ours=rows[0].ours)]


def _arguments(unit: Unit, argv: Sequence[str], source: Path) -> list[str]:
    return [*unit.arguments, *argv, "-c", str(source)]


def _prepare(benches: Sequence[Bench], unit: Unit, scenario: Scenario) -> Path:
    """Write the source and bring the caches into the state before; also warms the page cache."""
    first = scenario.edit(0) if scenario.edit else Version()
    source = workbench.write(benches[0], f"{unit.letter}.cu", text_of(unit, first))
    workbench.settle()
    for bench in benches:
        workbench.empty_cache(bench)
        if scenario.before is None:
            workbench.reference(bench, source, _arguments(unit, scenario.argv, source))
        else:
            workbench.compile_ours(bench, _arguments(unit, scenario.before, source))
            workbench.save_cache(bench, _PRIMED)
    return source


def _restore(bench: Bench, scenario: Scenario) -> None:
    if scenario.before is None:
        workbench.empty_cache(bench)
    else:
        workbench.restore_cache(bench, _PRIMED)


def unexpected(expected: dict[str, int], ran: Counter[str], calls: int = 1) -> list[str]:
    """Messages about stages that ran too often or too rarely, and calls that nvccache did not handle."""
    wrong = [
        f"{kind} ran {ran[kind]} times, not {count}" for kind, count in expected.items() if ran[kind] != count
    ]
    wrong += [f"{ran[outcome]} x {outcome}" for outcome in workbench.LOST if ran[outcome]]
    if ran[CALLS] != calls:
        wrong.append(f"{ran[CALLS]} calls, not {calls}")
    return wrong

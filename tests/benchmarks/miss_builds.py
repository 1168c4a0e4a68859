"""The measurements of misses.py with many compiles: Ninja builds, identical compiles, repeated builds."""

from __future__ import annotations

import hashlib
import random
import shlex
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import workbench
from miss_scenarios import FOUR, ONE, code_for, cold, unexpected
from project import MEMBERS
from rows import Cost, Row
from units import Unit, Version, text_of
from workbench import OURS, PLAIN, Bench

_COPIES = 4
_AT_ONCE = 8
_MOST_JOBS = 4
_ONLY_FOR_THE_HOST = "#ifndef __CUDA_ARCH__\nint only_for_the_host_@COPY@() { return 1; }\n#endif\n"


@dataclass(frozen=True)
class Edge:
    """One object of a Ninja build."""

    name: str
    source: Path
    argv: tuple[str, ...]


def cold_ninja(bench: Bench, units: Sequence[Unit], runs: int) -> list[Row]:
    """Copies of every unit, built by Ninja with two jobs from an empty cache."""
    row = Row(",".join(unit.letter for unit in units), "cold-ninja", most=1.03)
    expected = {kind: count * _COPIES * len(units) for kind, count in cold(len(ONE)).items()}
    edges = _copies(bench, units, _COPIES, ONE)
    for _ in _turns(bench, row, edges, 2, runs):
        row.wrong += unexpected(expected, row.ran, len(edges)) + _differing(
            bench, edges, bench.work / "ninja" / OURS
        )
    return [row]


def other_ids(bench: Bench, unit: Unit, runs: int, copies: int, jobs: int) -> list[Row]:
    """First compiles in which cicc guesses a wrong module id, and how many runs of stages are wasted.

    Above its headers each copy has a function that only the host pass sees.
    """
    row = Row(unit.letter, "other-ids")
    edges = _copies(bench, [unit], copies, FOUR[::3], _ONLY_FOR_THE_HOST)
    in_vain = [
        workbench.statistics_of(bench)["in_vain"]["runs"] for _ in _turns(bench, row, edges, jobs, runs)
    ]
    row.note = f"{copies} units, {jobs} at once; in vain {in_vain}"
    return [row]


def _turns(bench: Bench, row: Row, edges: Sequence[Edge], jobs: int, runs: int) -> Iterator[None]:
    """Build by plain nvcc and by nvccache in turn, from an empty cache; yields after each pair."""
    programs = {PLAIN: bench.nvcc, OURS: bench.shim}
    for run in range(runs):
        for place in sorted(programs, reverse=bool(run % 2)):
            folder = bench.work / "ninja" / place
            _write_build(folder, edges, programs[place])
            if place == PLAIN:
                row.base.append(_build(bench, folder, jobs))
                continue
            workbench.empty_cache(bench)
            row.ours.append(_build(bench, folder, jobs))
            row.ran = workbench.stages_run(bench)
        yield


def _copies(
    bench: Bench, units: Sequence[Unit], count: int, numbers: Sequence[str], above: str = ""
) -> list[Edge]:
    edges = []
    for copy in range(count):
        for unit in units:
            name = f"{unit.letter}{copy}"
            text = above.replace("@COPY@", str(copy)) + text_of(unit, Version(copy=copy + 1))
            source = workbench.write(bench, f"{name}.cu", text)
            edges.append(Edge(f"{name}.o", source, (*unit.arguments, *code_for(*numbers), "-c")))
    workbench.settle()
    for edge in edges[: len(units)]:  # reads the headers
        workbench.reference(bench, edge.source, [*edge.argv, str(edge.source)])
    return edges


def _differing(bench: Bench, edges: Sequence[Edge], folder: Path) -> list[str]:
    return [
        f"{edge.name} differs"
        for edge in edges
        if (folder / edge.name).read_bytes()
        != workbench.reference(bench, edge.source, [*edge.argv, str(edge.source)])
    ]


def _write_build(folder: Path, edges: Sequence[Edge], program: str) -> None:
    """A fresh directory with only build.ninja in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = ["rule cuda", f"  command = {_escaped(shlex.quote(program))} $arguments $in -o $out", ""]
    for edge in edges:
        source = _escaped(str(edge.source)).replace(" ", "$ ").replace(":", "$:")
        lines += [f"build {edge.name}: cuda {source}", f"  arguments = {_escaped(shlex.join(edge.argv))}"]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _build(bench: Bench, folder: Path, jobs: int, **settings: str) -> Cost:
    return workbench.timed(["ninja", f"-j{jobs}"], folder, bench.environ | settings)


def same_at_once(bench: Bench, unit: Unit, runs: int) -> list[Row]:
    """Identical compiles, each in its own directory, started together with an empty cache."""
    row = Row(unit.letter, f"same-{_AT_ONCE} / one", most=1.3)
    source = workbench.write(bench, f"{unit.letter}.cu", text_of(unit, Version()))
    workbench.settle()
    argv = [*unit.arguments, *code_for(*ONE), "-c", str(source)]
    expected = {kind: count for kind, count in cold(len(ONE)).items() if kind in ("cicc", "ptxas")}
    wanted = workbench.reference(bench, source, argv)
    for run in range(runs):
        for is_single in (True, False) if run % 2 else (False, True):
            workbench.empty_cache(bench)
            if is_single:
                row.base.append(workbench.compile_ours(bench, argv).cost)
                continue
            cost, objects = _together(bench, argv)
            row.ours.append(cost)
            row.ran = workbench.stages_run(bench)
            row.wrong += unexpected(expected, row.ran, _AT_ONCE)
            row.wrong += ["object differs"] if set(objects) != {wanted} else []
    return [row]


def _together(bench: Bench, argv: Sequence[str]) -> tuple[Cost, list[bytes]]:
    """Start all compiles and wait for them; returns their cost until the last ends, and their objects."""
    folders = [bench.work / "at once" / str(number) for number in range(_AT_ONCE)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    command = [bench.shim, *argv, "-o", workbench.OBJECT]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        started, used = time.monotonic(), workbench.cpu_seconds()
        list(pool.map(lambda folder: workbench.timed(command, folder, bench.environ), folders))
        cost = Cost(time.monotonic() - started, workbench.cpu_seconds() - used)
    return cost, [(folder / workbench.OBJECT).read_bytes() for folder in folders]


def reproducible(bench: Bench, builds: int, seed: int) -> list[Row]:
    """Cold builds of a small project in random order with random numbers of jobs; compares their objects."""
    row = Row("-", "reproducible")
    edges = [
        Edge(f"{member.name}.o", workbench.write(bench, f"{member.name}.cu", member.text), member.argv)
        for member in MEMBERS
    ]
    workbench.settle()
    chance = random.Random(seed)
    folder = bench.work / "ninja" / "project"
    digests: dict[str, set[str]] = defaultdict(set)
    for _ in range(builds):
        _write_build(folder, chance.sample(edges, len(edges)), bench.shim)
        workbench.empty_cache(bench)
        jobs, own_jobs = (chance.randint(1, _MOST_JOBS) for _ in range(2))
        _build(bench, folder, jobs, NVCCACHE_JOBS=str(own_jobs))
        row.wrong += unexpected({}, workbench.stages_run(bench), len(edges))
        for edge in edges:
            digests[edge.name].add(hashlib.sha256((folder / edge.name).read_bytes()).hexdigest())
    row.wrong += [f"{len(found)} different {name}" for name, found in digests.items() if len(found) > 1]
    own = {f"{member.name}.o" for member in MEMBERS if member.has_external_definition}
    row.wrong += _differing(bench, [edge for edge in edges if edge.name in own], folder)
    same = sum(len(found) == 1 for found in digests.values())
    row.note = f"{builds} cold builds, seed {seed}: {same} of {len(edges)} objects always the same"
    return [row]

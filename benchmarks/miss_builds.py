"""The measurements of misses.py with many compiles: Ninja builds, and identical compiles at once."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import workbench
from miss_scenarios import ONE, code_for, cold, unexpected
from rows import Cost, Row
from units import Unit, Version, text_of
from workbench import OURS, PLAIN, Bench

_AT_ONCE = 8


@dataclass(frozen=True)
class Edge:
    """One object of a Ninja build."""

    name: str
    source: Path
    argv: tuple[str, ...]


def cold_ninja(bench: Bench, units: Sequence[Unit], runs: int, copies: int, jobs: int) -> list[Row]:
    """Copies of every unit, built by Ninja from an empty cache."""
    row = Row(",".join(unit.letter for unit in units), "cold-ninja", most=1.03)
    expected = {kind: count * copies * len(units) for kind, count in cold(len(ONE)).items()}
    edges = _edges(bench, units, copies)
    for run in range(runs):
        for program in (PLAIN, OURS) if run % 2 else (OURS, PLAIN):
            folder = bench.work / "ninja" / program
            _write_build(folder, edges, bench.nvcc if program == PLAIN else bench.shim)
            if program == OURS:
                workbench.empty_cache(bench)
            cost = workbench.timed(["ninja", f"-j{jobs}"], folder, bench.environ)
            (row.base if program == PLAIN else row.ours).append(cost)
            row.ran = workbench.stages_run(bench) if program == OURS else row.ran
        row.wrong += unexpected(expected, row.ran, len(edges))
        row.wrong += [
            f"{edge.name} differs"
            for edge in edges
            if (bench.work / "ninja" / OURS / edge.name).read_bytes() != _reference(bench, edge)
        ]
    return [row]


def _edges(bench: Bench, units: Sequence[Unit], copies: int) -> list[Edge]:
    edges = []
    for copy in range(copies):
        for unit in units:
            name = f"{unit.letter}{copy}"
            source = workbench.write(bench, f"{name}.cu", text_of(unit, Version(copy=copy + 1)))
            edges.append(Edge(f"{name}.o", source, (*unit.arguments, *code_for(*ONE), "-c")))
    workbench.settle()
    for edge in edges[: len(units)]:  # reads the headers
        _reference(bench, edge)
    return edges


def _reference(bench: Bench, edge: Edge) -> bytes:
    return workbench.reference(bench, edge.source, [*edge.argv, str(edge.source)])


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

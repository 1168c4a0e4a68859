"""Build CUTLASS examples and a unit of Thrust with this machine and an engine, and compare every object.

    python tests/benchmarks/executor_build.py [--examples 3] [--jobs 2] [--executor URL]

The engine is buildbox-casd (tests/casd.py), or that of `--executor`. nvccache uses one core of this machine,
so that a stage is sent while another one runs. Prints seconds, also of plain nvcc, where the stages of cicc
and ptxas ran, and how many objects differ from those of `nvcc -keep`. Fails if one does, or if nothing was
sent. Needs CMake and Ninja, and the package index for CUTLASS.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import checkouts
import units
from references import compare

from nvccache.store import events
from nvccache.toolkit import discovery

sys.path[:0] = [str(Path(__file__).parents[1])]  # what the tests share
casd = importlib.import_module("casd")

ARCHITECTURES = (80, 86, 89, 90)  # of the unit of Thrust
SENT = ("cicc", "ptxas")
LAUNCHER = (sys.executable, "-I", "-m", "nvccache")


def environ_of(work: Path, url: str) -> dict[str, str]:
    settings = {"NVCCACHE_DIR": str(work / "cache"), "NVCCACHE_STRICT": "1", "NVCCACHE_JOBS": "1"}
    return {**os.environ, **settings, "NVCCACHE_EXECUTOR": url}


def seconds_of(argv: list[str], directory: Path, environ: dict[str, str] | None = None) -> float:
    started = time.monotonic()
    subprocess.run(argv, cwd=directory, env=environ, check=True)
    return time.monotonic() - started


def cutlass(work: Path, nvcc: str, url: str, examples: int) -> tuple[str, int]:
    """Build the examples; returns the results, and how many objects differ."""
    checkout = checkouts.make(work, "first", examples)
    taken = []
    for launcher, environ in (("", dict(os.environ)), (";".join(LAUNCHER), environ_of(work, url))):
        settings = [f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DCMAKE_CUDA_COMPILER_LAUNCHER={launcher}"]
        settings += ["-DCMAKE_CUDA_ARCHITECTURES=80;90", "-DCMAKE_BUILD_TYPE=Release"]
        ninja = checkouts.configure(checkout, environ, *settings)
        taken.append(seconds_of(ninja, checkout, environ))
    found = compare(checkout / "build", work / "references", nvcc)
    title = f"{found.objects} CUTLASS examples, 2 architectures"
    return row(title, *taken, found.differing, found.objects), found.differing


def thrust(work: Path, nvcc: str, url: str) -> tuple[str, int]:
    unit = units.units(None)["b"]
    directory = work / "thrust"
    (directory / "kept").mkdir(parents=True)
    (directory / "unit.cu").write_text(units.text_of(unit, units.Version()))
    architectures = [f"-gencode=arch=compute_{each},code=sm_{each}" for each in ARCHITECTURES]
    argv = [nvcc, *architectures, *unit.arguments, "-c", "unit.cu", "-o"]
    plain = seconds_of([*argv, "plain.o", "-keep", "-keep-dir", "kept"], directory)
    ours = seconds_of([*LAUNCHER, *argv, "unit.o"], directory, environ_of(work, url))
    differs = int((directory / "plain.o").read_bytes() != (directory / "unit.o").read_bytes())
    return row(f"a unit of Thrust, {len(ARCHITECTURES)} architectures", plain, ours, differs, 1), differs


def row(title: str, plain: float, ours: float, differing: int, objects: int) -> str:
    return f"{title:36}{plain:8.1f} s {ours:8.1f} s   objects that differ: {differing} of {objects}"


def places(work: Path) -> Counter[tuple[str, bool]]:
    """How many stages of each kind ran here and on other machines."""
    ran = [stage for event in events.read(str(work / "cache")) for stage in event.stages]
    return Counter(
        (stage.kind, stage.where != events.LOCAL)
        for stage in ran
        if stage.kind in SENT and stage.result == events.RAN
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nvcc", default=discovery.find_nvcc(os.environ) or "")
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="actions at once in buildbox-casd")
    parser.add_argument("--executor", help="an engine that runs already, as NVCCACHE_EXECUTOR names it")
    chosen = parser.parse_args()
    if not chosen.executor and not casd.find().startswith("/"):
        print(casd.find(), file=sys.stderr)
        return 1
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nvccache-executor-")))
        url = chosen.executor or stack.enter_context(casd.serving(work / "casd", chosen.jobs))
        differing = 0
        for line, differs in (
            cutlass(work, chosen.nvcc, url, chosen.examples),
            thrust(work, chosen.nvcc, url),
        ):
            print(line, flush=True)
            differing += differs
        found = places(work)
    for kind in SENT:
        print(f"{kind}: {found[kind, True]} away, {found[kind, False]} here")
    return 1 if differing or not any(is_away for _, is_away in found) else 0


if __name__ == "__main__":
    sys.exit(main())

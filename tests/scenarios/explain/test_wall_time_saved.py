"""The wall time that `stats` says a build saved, compared with the clock."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nvccache.store import events
from nvccache.store.event_line import Event
from scripted_toolkit import Toolkit

UNITS = 3
FIRST = "u_first"
# CPU time of a tool for a larger unit, compared with which starting a program is cheap.
BURN = "i=0; case $text in *burns*) while [ $i -lt 1500000 ]; do i=$((i+1)); done ;; esac\n"
MAKEFILE = """all: {products}
u%/a.cubin: u%/a.cu
\tcd u$* && {python} -m nvccache {nvcc} -cubin -arch=sm_80 a.cu -o a.cubin
"""


class Project:
    """Some units, built by make on one core."""

    def __init__(self, toolkit: Toolkit) -> None:
        self.toolkit = toolkit
        cicc = toolkit.folder / "bin" / "cicc"
        cicc.write_text(cicc.read_text().replace("case $text", f"{BURN}case $text", 1))
        names = [f"u{number}" for number in range(UNITS)]
        for name in (FIRST, *names):
            (toolkit.work / name).mkdir()
            toolkit.write(f"{name}/a.cu", f"int {name}{'' if name == FIRST else '_burns'};\n")
        products = " ".join(f"{name}/a.cubin" for name in names)
        made = MAKEFILE.format(products=products, python=sys.executable, nvcc=toolkit.nvcc)
        (toolkit.work / "Makefile").write_text(made)

    def build(self, *products: str) -> float:
        """The seconds it would take on its own core, whatever else this machine runs."""
        for product in self.toolkit.work.glob("u*/a.cubin"):
            product.unlink()
        core = min(os.sched_getaffinity(0))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environ = {**os.environ, **self.toolkit.environ}  # which says where a copy of nvccache is
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run(
            ["make", "-j3", *products], cwd=self.toolkit.work, env=environ, check=True,
            capture_output=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    @property
    def builds(self) -> list[list[Event]]:
        return events.builds(events.read(str(self.toolkit.folder / "cache")))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(Toolkit(tmp_path))


def test_a_warm_build_claims_no_more_than_it_saves_and_hardly_less(project: Project) -> None:
    """On one core a build's time is its CPU time, a clock that other processes do not affect."""
    project.build(f"{FIRST}/a.cubin")  # after which Python has compiled what it runs
    began = time.monotonic()
    cold = project.build()
    elapsed = time.monotonic() - began
    warm = project.build()
    _, first, second = project.builds  # a moment apart, and not one build
    assert [call.outcome for call in (*first, *second)] == ["miss"] * UNITS + ["direct_hit"] * UNITS
    claimed = sum(call.wall_saved for call in second)
    assert claimed < cold - warm < elapsed
    # nvccache's own time is short, unless others have the CPU.
    own = sum(call.seconds / call.jobs for call in second)
    assert 0.75 * (cold - warm) < claimed + own

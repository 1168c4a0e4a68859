"""What an edit of a small unit costs beside plain nvcc, where nvccache's own work shows.

    python tests/benchmarks/small_edits.py [--rounds N] [--only ROW] [--beside LAUNCHER ...]

Rows: an added `-D` that nothing uses, a comment line that moves nothing, and one of four architectures left.
Plain nvcc and each nvccache take turns in every round, each from the same state of a cache of its own;
`--beside` names the launchers of other installations, such as that of the code before a change. CPU is that
of the whole process tree, user and system. Printed are the medians, and those of the ratios within a round.

Fails when an object differs from the one that nvcc makes, or when a stage ran that must not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hits import SETTLED, SMALL, timed
from miss_scenarios import FOUR, ONE, code_for

from nvccache.toolkit import discovery

COMPILING = ("cicc", "ptxas")
_FOREIGN = ("NVCCACHE_", "NVCC_", "_NVCCACHE_", "XDG_", "PYTHON")  # settings of the user's own


@dataclass(frozen=True)
class Edit:
    """A compile `before`, and the one behind an edit; `text` is what the source says then."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    text: str = SMALL


EDITS = {
    "unused -D": Edit(code_for(*ONE), (*code_for(*ONE), "-DNOTHING_USES_THIS")),
    "comment": Edit(code_for(*ONE), code_for(*ONE), SMALL.replace("\n\n", "\n// A remark.\n", 1)),
    "4 -> 1 archs": Edit(code_for(*FOUR), code_for(*ONE)),
}


@dataclass
class Lane:
    """One contender, with the milliseconds of its compiles."""

    name: str
    argv: tuple[str, ...]
    work: Path
    environ: dict[str, str]
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        return len(self.argv) == 1

    def compile(self, options: Sequence[str]) -> tuple[float, float]:
        return timed([*self.argv, *options, "-c", "a.cu", "-o", "a.o"], self.environ, self.work)

    def prepare(self, edit: Edit) -> None:
        """Compile before the edit, and keep the cache as it is then."""
        self.write(SMALL)
        time.sleep(SETTLED)
        for name in ("cache", "primed"):
            shutil.rmtree(self.work / name, ignore_errors=True)
        self.compile(edit.before)
        if not self.is_plain:
            shutil.copytree(self.work / "cache", self.work / "primed")
        self.write(edit.text)

    def write(self, text: str) -> None:
        (self.work / "a.cu").write_text(text)

    def measure(self, edit: Edit) -> None:
        if not self.is_plain:
            shutil.rmtree(self.work / "cache")
            shutil.copytree(self.work / "primed", self.work / "cache")
        cpu, wall = self.compile(edit.after)
        self.cpu.append(cpu)
        self.wall.append(wall)

    def ran(self) -> dict[str, int]:
        """How often each stage has run with this cache."""
        shown = subprocess.check_output([self.argv[0], "stats", "--format", "json"], env=self.environ)
        return {kind: stage["miss"] for kind, stage in json.loads(shown)["stages"].items()}


def lanes_of(nvcc: str, launchers: dict[str, str], folder: Path) -> list[Lane]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    lanes = [Lane("nvcc", (nvcc,), folder / "plain", environ)]
    for number, (name, launcher) in enumerate(launchers.items()):
        work = folder / str(number)
        own = {"NVCCACHE_DIR": str(work / "cache"), "NVCCACHE_STRICT": "1"}
        lanes.append(Lane(name, (launcher, nvcc), work, environ | own))
    for lane in lanes:
        lane.work.mkdir()
    return lanes


def compare(title: str, edit: Edit, lanes: list[Lane], rounds: int) -> list[str]:
    """Print the rows of one edit; what was wrong."""
    for lane in lanes:
        lane.prepare(edit)
    ran = {lane.name: lane.ran() for lane in lanes if not lane.is_plain}
    for number in range(rounds):
        start = number % len(lanes)
        for lane in lanes[start:] + lanes[:start]:
            lane.measure(edit)
    plain = lanes[0]
    wrong = []
    for lane in lanes:
        ratios = [
            statistics.median(ours / base for ours, base in zip(mine, its, strict=True))
            for mine, its in ((lane.cpu, plain.cpu), (lane.wall, plain.wall))
        ]
        medians = statistics.median(lane.cpu), min(lane.cpu), statistics.median(lane.wall), min(lane.wall)
        print(f"{title:14}{lane.name:18}" + "".join(f"{number:9.1f}" for number in medians), end="")
        print(f"{ratios[0]:8.3f}{ratios[1]:8.3f}", flush=True)
        if lane is not plain:
            now = lane.ran()
            wrong += [f"{title}: {kind} ran" for kind in COMPILING if now[kind] != ran[lane.name][kind]]
            wrong += [] if _is_same(lane, edit, plain) else [f"{title}: {lane.name} made another object"]
    for lane in lanes:
        lane.cpu.clear()
        lane.wall.clear()
    return wrong


def _is_same(lane: Lane, edit: Edit, plain: Lane) -> bool:
    """Whether its last object is that of `nvcc -keep`, which is the same on every run."""
    kept = lane.work / "kept"
    kept.mkdir(exist_ok=True)
    argv = [*plain.argv, *edit.after, "-c", "a.cu", "-o", str(kept / "a.o"), "-keep", "-keep-dir", str(kept)]
    subprocess.run(argv, cwd=lane.work, env=plain.environ, check=True)
    return (kept / "a.o").read_bytes() == (lane.work / "a.o").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=EDITS, action="append")
    parser.add_argument("--beside", metavar="LAUNCHER", action="append", default=[])
    options = parser.parse_args()
    nvcc = discovery.find_nvcc(os.environ)
    if not nvcc:
        raise SystemExit("there is no nvcc")
    own = str(Path(sys.executable).with_name("nvccache"))
    launchers = {
        **{f"beside {number}": path for number, path in enumerate(options.beside, 1)},
        "nvccache": own,
    }
    print(f"{'':32}{'CPU ms':>9}{'min':>9}{'wall ms':>9}{'min':>9}{'x CPU':>8}{'x wall':>8}")
    with tempfile.TemporaryDirectory(prefix="small-edits-") as folder:
        lanes = lanes_of(nvcc, launchers, Path(folder))
        wrong = []
        for title in options.only or EDITS:
            wrong += compare(title, EDITS[title], lanes, options.rounds)
        os.chdir("/")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

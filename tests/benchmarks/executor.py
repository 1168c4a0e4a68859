"""The overhead of a stage on another machine over the bare command, and the gain of a build from workers.

    python tests/benchmarks/executor.py [--nvcc NVCC] [--rounds 9] [--units 16] [--seconds 3] [--remote 4]

The engine is buildbox-casd on this machine (tests/casd.py). The overhead is measured with one kernel's real
cicc and ptxas, sent each time with a new input, and then with the same. In the build, tools only sleep, so
that this machine can act as several: two cores here, and `--remote` in the engine. Each makespan is compared
with that of executor_simulation.py, whose input is the measured time of a call with tools that do not sleep.
`--faults` also builds with engines that are killed at a random moment, have no workers, or never answer
(tests/fake_engine.py). Fails if a product differs, or a prediction is off by more than 15 %.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from executor_simulation import Machines, Stage, simulate

from nvccache import endpoint
from nvccache.remote_execution.engine import EngineExecution
from nvccache.remote_execution.work import SCRATCH_NAME, Work, of_tool
from nvccache.store import events
from nvccache.store.store import Store
from nvccache.toolkit import discovery, loader

sys.path[:0] = [str(Path(__file__).parents[1])]  # what the tests share
casd = importlib.import_module("casd")
scripted_toolkit = importlib.import_module("scripted_toolkit")

LOCAL = 2
WITHIN = 0.15
KERNEL = """template <int N> __global__ void kernel(float *p) {
    for (int i = 0; i < N; ++i) p[i] += __sinf(p[threadIdx.x] * i);
}
void launch(float *p) { kernel<16><<<1, 32>>>(p); }
"""
# On this machine it locks one of the cores, which are files, while it sleeps; a sandbox has no such files.
SLEEPER = r"""#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
static void take_core(void)
{
    char path[4096];
    int number = 0, core;
    if (access(CORES, F_OK) != 0)
        return;
    for (;; number = (number + 1) % LOCAL) {
        snprintf(path, sizeof path, CORES "/%d", number);
        core = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (core < 0 || flock(core, LOCK_EX | LOCK_NB) == 0)
            return;
        close(core);
        usleep(5000);
    }
}
int main(int count, char **argv)
{
    static char text[1 << 20];
    const char *program = strrchr(argv[0], '/'), *found;
    char mark[64];
    FILE *from = fopen(argv[count - 3], "r"), *to;
    size_t size = from ? fread(text, 1, sizeof text - 1, from) : 0;
    snprintf(mark, sizeof mark, "%s_seconds ", program ? program + 1 : argv[0]);
    found = strstr(text, mark);
    take_core();
    if (found)
        usleep((useconds_t)(atof(found + strlen(mark)) * 1e6));
    to = fopen(argv[count - 1], "w");
    return !to || fwrite(text, 1, size, to) != size || fclose(to);
}
"""
OWN_POOL = """from nvccache.machine import slots
slots.pool_directory.__defaults__ = (({base!r},),)
"""


def overheads(nvcc: str, url: str, folder: Path, rounds: int) -> list[str]:
    """A table: for each tool the bare command, the overhead of sending it, and of finding its result."""
    (folder / "k.cu").write_text(KERNEL)
    command = [nvcc, "-cubin", "-arch=sm_80", "-keep", "-keep-dir", str(folder), "k.cu", "-o", "k.cubin"]
    dryrun = subprocess.run(
        [*command, "--dryrun"], cwd=folder, check=True, capture_output=True
    ).stderr.decode()
    subprocess.run(command, cwd=folder, check=True)
    lines = ["| stage | bare ms | sent: more ms | found: ms |", "|---|---|---|---|"]
    for line in dryrun.splitlines():
        argv = shlex.split(line.removeprefix("#$ "))
        tool = argv[0].rpartition("/")[2] if argv else ""
        if tool in ("cicc", "ptxas"):
            bare, sent, found = _of_tool(nvcc, argv, url, folder, rounds)
            lines.append(f"| {tool} | {bare:.0f} | {sent - bare:.0f} | {found:.0f} |")
    return lines


def _of_tool(nvcc: str, argv: list[str], url: str, folder: Path, rounds: int) -> tuple[float, float, float]:
    name = argv[0].rpartition("/")[2]
    root = Path(nvcc).resolve().parents[1]
    program = next(str(path) for path in (root / "nvvm" / "bin" / name, root / "bin" / name) if path.exists())
    cache, environ = Store(str(folder / "cache")), dict(os.environ)
    tool = of_tool(program, loader.of_program(program, environ, cache), environ, cache)
    output = argv[argv.index("-o") + 1]
    source = next(
        each for each in argv if each.endswith(".ii" if name == "cicc" else ".ptx") and each != output
    )
    relative = output.rpartition("/")[2]
    arguments = [each.replace(f"{folder}/", f"{SCRATCH_NAME}/") for each in argv[1:]]
    arguments = [f"{SCRATCH_NAME}/{relative}" if each == output else each for each in arguments]
    changed = folder / f"changed{Path(source).suffix}"
    times: tuple[list[float], ...] = ([], [], [])
    for number in range(rounds + 1):
        changed.write_bytes(Path(source).read_bytes() + b"// %d\n" % number)
        inputs = {source.rpartition("/")[2]: str(changed)}
        if (folder / "k.module_id").exists() and any("module_id" in each for each in argv):
            inputs["k.module_id"] = str(folder / "k.module_id")
        work = Work(name, tool, arguments, (), inputs, [relative])
        bare = [program, *(str(changed) if each == source else each for each in argv[1:])]
        marks = [time.monotonic()]
        subprocess.run(bare, cwd=folder, check=True, capture_output=True)
        marks.append(time.monotonic())
        for _ in range(2):
            EngineExecution(endpoint.parse(url), work, "").run()
            marks.append(time.monotonic())
        for found, start, end in zip(times, marks, marks[1:], strict=False):
            found.append((end - start) * 1e3)
    return tuple(statistics.median(found[1:]) for found in times)  # the first sends the tool


class Build:
    """Units whose tools sleep, in a toolkit of scripts."""

    def __init__(self, folder: Path, units: int, seconds: float) -> None:
        self.folder = folder
        folder.mkdir()
        self._toolkit = scripted_toolkit.Toolkit(folder)
        (folder / "sleeper.c").write_text(SLEEPER)
        for name in scripted_toolkit.TOOLS:
            path = folder / "bin" / name
            path.unlink()
            defined = [f'-DCORES="{folder}/cores"', f"-DLOCAL={LOCAL}"]
            subprocess.run(["cc", "-O1", "-w", *defined, "-o", path, folder / "sleeper.c"], check=True)
        (folder / "cores").mkdir()
        (folder / "pool").mkdir()
        (folder / "site").mkdir()
        text = OWN_POOL.format(base=str(folder / "pool"))
        (folder / "site" / "sitecustomize.py").write_text(text)
        self.units = [folder / f"unit-{number}" for number in range(units)]
        for number, unit in enumerate(self.units):
            unit.mkdir()
            text = f"cicc_seconds {seconds} ptxas_seconds {seconds / 3:.3f} unit {number}\n"
            (unit / "a.cu").write_text(text)

    def run(self, jobs: int, cache: str, url: str = "") -> float:
        """The makespan in seconds."""
        environ = {**self._toolkit.environ, "NVCCACHE_DIR": str(self.folder / cache), "NVCCACHE_STRICT": "1"}
        environ |= {"NVCCACHE_JOBS": str(LOCAL), "PYTHONPATH": str(self.folder / "site")}
        if url:
            environ |= {"NVCCACHE_EXECUTOR": url, "NVCCACHE_LOG": str(self.folder / "log")}
        argv = [sys.executable, "-m", "nvccache", self._toolkit.nvcc, "-cubin", "-arch=sm_80", "a.cu"]

        def compile_one(unit: Path) -> None:
            product = unit / "a.cubin"
            product.unlink(missing_ok=True)
            subprocess.run([*argv, "-o", "a.cubin"], cwd=unit, env=environ, check=True)
            if (unit / "a.cu").read_text() not in product.read_text():
                raise SystemExit(f"{product} is wrong")

        began = time.monotonic()
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(compile_one, self.units))
        return time.monotonic() - began

    def places(self, cache: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for event in events.read(str(self.folder / cache)):
            for stage in event.stages:
                if stage.kind in scripted_toolkit.TOOLS:
                    found[stage.where] = found.get(stage.where, 0) + 1
        return found


def predicted(units: int, seconds: float, call: float, machines: Machines) -> float:
    """The makespan by the simulation; half of a call's own time comes before its tools."""
    own = call / 2
    stages = [
        Stage("start", own, takes_core=False),
        Stage("cicc", seconds, (0,), True),
        Stage("ptxas", seconds / 3, (1,), True),
    ]
    return simulate([[*stages, Stage("end", own, (2,), takes_core=False)]] * units, machines).makespan


def builds(folder: Path, url: str, units: int, seconds: float, remote: int) -> tuple[list[str], bool]:
    """A table of real and predicted makespans, and whether the predictions are right."""
    idle = Build(folder / "idle", 4, 0.0)
    call = idle.run(1, "cache") / 4
    build = Build(folder / "build", units, seconds)
    jobs = LOCAL + remote
    real = {"local": build.run(LOCAL, "local"), "two workers": build.run(jobs, "away", url)}
    expected = {
        "local": predicted(units, seconds, call, Machines(LOCAL, 0, LOCAL)),
        "two workers": predicted(units, seconds, call, Machines(LOCAL, remote, jobs, least=0.0)),
    }
    lines = ["| build | real s | predicted s | off by |", "|---|---|---|---|"]
    offs = {name: expected[name] / real[name] - 1 for name in real}
    lines += [f"| {name} | {real[name]:.1f} | {expected[name]:.1f} | {offs[name]:+.0%} |" for name in real]
    lines.append(f"\na call by itself {call:.2f} s; of local {real['two workers'] / real['local']:.2f}; "
                 f"stages by place: {build.places('away')}")  # fmt: skip
    return lines, all(abs(off) <= WITHIN for off in offs.values())


def faults(folder: Path, units: int, seconds: float, remote: int, seed: int) -> list[str]:
    """A table of builds with a faulty engine, compared with one without an engine."""
    fake_engine = importlib.import_module("fake_engine")
    jobs = LOCAL + remote
    build = Build(folder / "faults", units, seconds)
    alone = build.run(jobs, "local")  # the same number of jobs: stages that are not sent overlap too
    lines = ["| engine | s | of local |", "|---|---|---|", f"| none | {alone:.1f} | 1 |"]
    chosen = random.Random(seed)
    for number in range(3):
        with casd.serving(folder / f"casd-{number}", remote) as url:
            moment = chosen.uniform(0.5, alone / 3)
            timer = threading.Timer(moment, casd.running[url].kill)
            timer.start()
            spent = build.run(jobs, f"killed-{number}", url)
            timer.cancel()
        lines.append(f"| killed after {moment:.1f} s | {spent:.1f} | {spent / alone:.2f} |")
    for trouble in (fake_engine.NO_WORKERS, fake_engine.SILENT):
        engine = fake_engine.FakeEngine(folder, trouble)
        spent = build.run(jobs, trouble.replace(" ", "-"), engine.url)
        engine.stop()
        lines.append(f"| {trouble} | {spent:.1f} | {spent / alone:.2f} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nvcc", default=discovery.find_nvcc(os.environ) or "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0, help="of cicc; ptxas sleeps a third of it")
    parser.add_argument("--remote", type=int, default=4, help="cores in the engine")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments")
    chosen = parser.parse_args()
    if not casd.find().startswith("/"):
        print(casd.find(), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="nvccache-executor-") as name:
        folder = Path(name)
        with casd.serving(folder / "casd", chosen.remote) as url:
            (folder / "tools").mkdir()
            if chosen.rounds:
                print("\n".join(overheads(chosen.nvcc, url, folder / "tools", chosen.rounds)), flush=True)
            lines, is_right = builds(folder, url, chosen.units, chosen.seconds, chosen.remote)
            print("\n" + "\n".join(lines), flush=True)
        if chosen.faults:
            table = faults(folder, chosen.units, chosen.seconds, chosen.remote, chosen.seed)
            print("\n" + "\n".join(table))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())

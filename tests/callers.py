"""Callers that have a watchdog, for its tests: each is a Python process that runs a given program."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from subprocess import PIPE

CALLER = """
import atexit, os, subprocess, sys
from nvccache.machine import watchdog

def tool(script):
    environ = {**os.environ, "_NVCCACHE_SCRATCH": f"{scratch}/watched-0"}
    return subprocess.Popen(["sh", "-c", script], env=environ, stdout=subprocess.DEVNULL)

scratch = sys.argv[1]
atexit.register(open, f"{scratch}-ended", "w")
g = watchdog.Watchdog.start(scratch)
os.makedirs(f"{scratch}/tmp/deep")
for line in sys.stdin:
    print(repr(eval(line)), flush=True)
"""


class Caller:
    """A call in a separate process, which evaluates the expressions sent to it."""

    def __init__(self, scratch):
        self.scratch = scratch
        argv = [sys.executable, "-c", CALLER, str(scratch)]
        self.process = subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, text=True)
        self.watchdog = self.ask("g.pid")

    def tell(self, expression):
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def ask(self, expression):
        self.tell(expression)
        return eval(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()


def state_of(pid):
    """The letter by which the kernel says what a process is doing; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0]
    except OSError:
        return b""


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    return state_of(pid) not in (b"", b"Z", b"X")


def wait_until(condition):
    for _ in range(3000):
        if condition():
            return
        select.select([], [], [], 0.01)
    raise AssertionError("timed out after half a minute")


def wait_for_end(pid):
    wait_until(lambda: not is_alive(pid))


def processes_of(caller):
    """Every living process that has the mark of this caller's tools."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as stream:
            if f"_NVCCACHE_SCRATCH={caller.scratch}/watched-0".encode() in stream.read().split(b"\0"):
                found.append(int(name))
    return [pid for pid in found if is_alive(pid)]

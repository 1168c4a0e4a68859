"""Machines that share a remote: each with its own home, cache and checkout below its base directory.

They are directories of one machine, so kernel, processor, toolkit and what is remembered of failing remotes
are the same.
"""

from __future__ import annotations

import dataclasses
import fcntl
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from installations import launcher_of_tree
from nvccache import remote_url
from nvccache.remote import outages
from nvccache.store import directory, store
from scenarios.support.both_ways import Made, by_cache
from scenarios.support.toolkits import architectures
from workspaces import Result, Workspace, make_workspace

PATIENCE = 120  # seconds for what takes a few, on a busy machine
HEADER = "#define STEP 1\n"
SOURCE = """\
// What a step is.
#include "step.h"
__global__ void kernel(float *values) { values[threadIdx.x] = values[threadIdx.x] * 2.5f + STEP; }
int launch(float *values) { kernel<<<1, 32>>>(values); return STEP; }
"""
ONE: tuple[str, ...] = ()
TWO = tuple(architectures(80, 90))
LINE = ("-c", "a.cu", "-Iinclude", "-o", "a.o")


@dataclasses.dataclass
class Machine(Workspace):
    """A workspace with the sources checked out."""

    def compile(self, *options: str) -> Made:
        """Compile as a machine does whose remote may fail: without a word."""
        made = by_cache(self, *LINE, *options)
        assert made.result == Result(0, b"", b"")
        return made

    def compile_with_empty_cache(self, *options: str) -> Made:
        self.forget_all()
        return self.compile(*options)

    def fill(self, *options: str) -> Made:
        """Compile, and wait until all of it has been sent, by whatever process."""
        made = self.compile(*options)
        _wait(lambda: not self.has_queued(), self)
        return made

    def command(self, *arguments: str, **variables: str) -> Result:
        """A command of nvccache's own."""
        return self.run([str(launcher_of_tree()), *arguments], **variables)

    def has_queued(self) -> bool:
        """Whether something waits to be sent."""
        return any(self.cache.glob("remote/*/*"))

    def wait_for_uploader(self) -> None:
        """Wait until no process sends, whatever is left."""
        _wait(lambda: all(map(_is_free, self.cache.glob("remote/lock"))), self)

    def outages(self) -> list[str]:
        """Why its remotes are not used: the words of outcomes.REMOTE_FAULTS."""
        found = map(outages.current, self._identities())
        return [outage.word for outage in found if outage]

    def let_outages_end(self) -> None:
        for identity in self._identities():
            outages.end(identity)

    def _identities(self) -> list[str]:
        remotes = remote_url.parse(self.environ["NVCCACHE_REMOTE"])
        forms = ("{}", outages.OF_WRITING)
        return [form.format(remote.identity) for remote in remotes for form in forms]

    def forget_all(self) -> None:
        """Empty the cache, but for digests of tools, which take long."""
        for path in self.cache.iterdir():
            if path.is_dir() and path.name != store.MEMO:
                shutil.rmtree(path)
            elif path.name != directory.TAG_NAME and path.is_file():
                path.unlink()


NewMachine = Callable[..., Machine]


def machine(folder: Path, nvcc: str, remote: str, **variables: str) -> Machine:
    """A new machine in a directory of its own."""
    folder.mkdir()
    made = make_workspace(folder, nvcc)
    made.begin_with_digests({})
    base, checkout = made.directory, made.directory / "project"
    (base / "keep").mkdir()  # where plain nvcc leaves its intermediates: see both_ways.py
    made.environ |= {"NVCCACHE_BASE_DIR": str(base), "NVCCACHE_REMOTE": remote, **variables}
    one = Machine(checkout, nvcc, made.environ)
    one.write("a.cu", SOURCE)
    one.write("include/step.h", HEADER)
    return one


def _wait(holds: Callable[[], bool], on: Machine) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, on.outages()
        time.sleep(0.05)


def _is_free(lock: Path) -> bool:
    with lock.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True

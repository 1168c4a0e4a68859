"""Machines that share a remote: each with its own home, cache and checkout below its base directory.

They are directories of one machine, so kernel, processor and toolkit are the same. Where this is run by root,
each has the place in which processes of one machine agree about remotes (/dev/shm) to itself, too.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from installations import launcher_of_tree
from nvccache.store import event_totals, events
from nvccache.store.event_line import Event
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Result, Workspace, make_workspace

PATIENCE = 120  # seconds for what takes a few, on a busy machine
_OWN_SHM = 'mount --bind "$1" /dev/shm && shift && exec "$@"'


@dataclasses.dataclass
class Machine(Workspace):
    """A workspace whose processes are started by the words of `prefix`."""

    prefix: tuple[str, ...] = ()

    def run(self, argv: Sequence[str | Path], cwd: Path | None = None, **variables: str) -> Result:
        done = subprocess.run(
            [*self.prefix, *(str(word) for word in argv)],
            cwd=cwd or self.directory,
            env={**self.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def compile(self, *arguments: str | Path, **variables: str) -> Result:
        return self.cached("-c", *arguments, *HOST_OPTIONS, **variables)

    def command(self, *arguments: str, **variables: str) -> Result:
        """A command of nvccache's own."""
        return self.run([str(launcher_of_tree()), *arguments], **variables)

    def become(self, uid: int) -> None:
        """Run as another user from now on, who owns these files; skips the test where that is impossible."""
        identity = ("--reuid", str(uid), "--regid", str(uid), "--clear-groups")
        may_read = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
        if os.geteuid() or not shutil.which("setpriv"):
            pytest.skip("only root can become another user, by `setpriv`")
        own = self.directory.parents[1]
        for path in (*own.parents, *Path(self.nvcc).parents):
            if path.is_relative_to("/tmp") and path != Path("/tmp"):
                path.chmod(path.stat().st_mode | 0o055)  # pytest's are its user's alone
        for path in (own, *own.rglob("*")):
            os.chown(path, uid, uid)
        self.prefix = (*self.prefix, "setpriv", *identity, *may_read, "--")

    def deliver(self) -> None:
        """Wait until the queue has been sent, by whatever process."""
        deadline = time.monotonic() + PATIENCE
        while has_queued(self.cache):
            assert time.monotonic() < deadline, f"not sent: {self.outages()}"
            time.sleep(0.05)

    def wait_for_uploader(self) -> None:
        """Wait until no process sends, whatever is left."""
        deadline = time.monotonic() + PATIENCE
        while any(not is_free(path) for path in self.cache.glob("remote/lock")):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def outages(self) -> list[str]:
        """Why remotes are not used on this machine: the words of outcomes.REMOTE_FAULTS."""
        return sorted(path.read_text().splitlines()[0] for path in self._outage_files())

    def let_outages_end(self) -> None:
        """Make all outages expire."""
        for path in self._outage_files():
            os.utime(path, (0, 0))

    def _outage_files(self) -> list[Path]:
        shm = self.directory.parents[1] / "shm" if self.prefix else Path("/dev/shm")
        found = [path for path in shm.glob("nvccache-*/outage-*") if not path.suffix]
        return [path for path in found if path.stat().st_mtime]

    def events(self) -> list[Event]:
        """Of the calls since the counts were reset."""
        cache = str(self.cache)
        return event_totals.since_reset(events.read(cache), cache)

    def forget_all(self) -> None:
        """Empty the cache."""
        shutil.rmtree(self.cache, ignore_errors=True)


def machine(directory: Path, nvcc: str, remote: str, **variables: str) -> Machine:
    """A new machine below a directory, with sources below its base directory."""
    directory.mkdir()
    made = make_workspace(directory, nvcc)
    base, checkout = made.directory, made.directory / "project"
    checkout.mkdir(parents=True)
    (base / "keep").mkdir()  # where plain nvcc leaves its intermediates: see both_ways.py
    made.environ |= {"NVCCACHE_BASE_DIR": str(base), "NVCCACHE_REMOTE": remote, **variables}
    return Machine(checkout, nvcc, made.environ, _own_shm(directory))


def has_queued(cache: Path) -> bool:
    """Whether something waits to be sent from a cache."""
    queue = cache / "remote" / "queue"
    return queue.exists() and queue.stat().st_size > 0


def is_free(path: Path) -> bool:
    """Whether a lock is free."""
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _own_shm(directory: Path) -> tuple[str, ...]:
    """The command prefix that gives a process its own /dev/shm, where possible."""
    shm = directory / "shm"
    shm.mkdir()
    words = ("unshare", "-m", "sh", "-c", _OWN_SHM, "sh", str(shm))
    if os.geteuid() or not shutil.which("unshare"):
        return ()
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else ()

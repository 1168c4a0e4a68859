"""Calls that run at the same time, and what the machine shows of them: tools, processes, locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from installations import launcher_of_tree
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Result, Workspace

PATIENCE = 60  # seconds after which a process that should end is taken to hang
LEAF_TOOLS = frozenset({"cicc", "ptxas", "cudafe++", "fatbinary", "cc1plus", "as"})
Call = subprocess.Popen[bytes]
_begun: list[Call] = []  # in this test


def scratch_of(workspace: Workspace) -> Path:
    """Where the calls of a workspace have their scratch directories; known from others' by its name."""
    scratch = workspace.directory.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    return scratch


def start(
    workspace: Workspace,
    *argv: str | Path,
    cwd: Path | None = None,
    before: Sequence[str] = (),
    has_own_group: bool = False,
    **variables: str,
) -> Call:
    """Begin a compile; `before` are the words of a program that becomes it."""
    workspace.begin_with_digests(variables)
    call = subprocess.Popen(
        [*before, str(launcher_of_tree()), workspace.nvcc, *map(str, argv), *HOST_OPTIONS],
        cwd=cwd or workspace.directory,
        env={**workspace.environ, "TMPDIR": str(scratch_of(workspace)), **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=has_own_group,
    )
    _begun.append(call)
    return call


def end(call: Call) -> Result:
    """Wait for a call's end."""
    stdout, stderr = call.communicate(timeout=PATIENCE)
    return Result(call.returncode, stdout, stderr)


@contextlib.contextmanager
def ending(workspace: Workspace) -> Iterator[None]:
    """Leave no process of the workspace behind, however the test ends."""
    try:
        yield
    finally:
        for pid in processes_of(workspace):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while _begun:
            with _begun.pop() as call:
                call.kill()


def wait_until(condition: Callable[[], object], calls: Iterable[Call] = ()) -> None:
    """Wait for what must come, and while it has not come no call may end."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        for call in calls:
            assert call.poll() is None, call.communicate()
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def environ_of(pid: int) -> bytes:
    """Empty for a process that has ended, zombies included."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """0 when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def processes_of(workspace: Workspace) -> list[int]:
    """Calls and tools: what has its temporary files where the workspace has them."""
    mark = b"\0TMPDIR=" + os.fsencode(scratch_of(workspace))
    return [pid for pid in all_processes() if mark in b"\0" + environ_of(pid)]


def tools_of(workspace: Workspace) -> set[tuple[int, str]]:
    """The leaf tools that run at one moment: those there both before and after it."""
    return _seen_tools(workspace) & _seen_tools(workspace)


def _seen_tools(workspace: Workspace) -> set[tuple[int, str]]:
    mark = re.compile(
        b"\0_NVCCACHE_SCRATCH=" + re.escape(os.fsencode(scratch_of(workspace))) + rb"[^\0]*/nvccache-"
    )
    named = {(pid, name_of(pid)) for pid in all_processes()}
    found = {
        (pid, name) for pid, name in named if name in LEAF_TOOLS and mark.search(b"\0" + environ_of(pid))
    }
    tools = {pid for pid, _ in found}
    # A child that a wrapper has forked has its name until it becomes something else.
    return {(pid, name) for pid, name in found if parent_of(pid) not in tools}


def is_below(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another, or by one that this one has started, and none is gone."""
    while pid not in (0, ancestor):
        pid = parent_of(pid)
    return pid == ancestor


def own_pool(workspace: Workspace) -> list[str]:
    """The command prefix that gives calls a pool of slots of their own; skips the test where it fails."""
    pool = workspace.directory.parent / "pool"
    pool.mkdir(exist_ok=True)
    argv = ["unshare", "-m", "sh", "-c", f'mount --bind "{pool}" /dev/shm && exec "$@"', "sh"]
    if not shutil.which("unshare") or workspace.run([*argv, "true"]).status != 0:
        pytest.skip("calls cannot be given a pool of their own here")
    return argv


def slot_takers() -> set[int]:
    """The processes that hold a slot of the user's pool."""
    pool = Path(f"/dev/shm/nvccache-{os.geteuid()}")
    inodes = {path.stat().st_ino for path in pool.glob("slot-*")}
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return {int(argv[4]) for argv in locks if int(argv[5].rpartition(":")[2]) in inodes}


def claims_held(workspace: Workspace) -> list[Path]:
    """The claims that processes hold."""
    return [path for path in workspace.cache.glob("locks/running/*") if not _is_free(path)]


def _is_free(path: Path) -> bool:
    try:
        with path.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass
    except BlockingIOError:
        return False
    return True


def is_waiting_for_claim(call: Call) -> bool:
    """Whether a call has a claim of another's open."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{call.pid}/fd").iterdir():
            path = os.readlink(descriptor)
            if "/locks/running/" in path and not path.endswith("(deleted)"):
                return True
    return False


def check_nothing_is_left(workspace: Workspace, calls: Iterable[Call]) -> None:
    """Of calls that have ended.

    A dry run that is killed leaves `tmpxft_*` files next to the scratch directory, as any killed nvcc does.
    """
    wait_until(lambda: not processes_of(workspace))
    assert not [path for path in scratch_of(workspace).iterdir() if not path.name.startswith("tmpxft_")]
    assert slot_takers().isdisjoint(call.pid for call in calls)
    assert not claims_held(workspace)


@contextlib.contextmanager
def small_file_system(directory: Path, size: str) -> Iterator[None]:
    """Mount one there; skips the test where that is not permitted."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


class Watch:
    """Looks, while it is entered, how many tools run at once; `count` says what of a moment counts."""

    def __init__(
        self, workspace: Workspace, count: Callable[[set[tuple[int, str]]], int] = len, pause: float = 0.04
    ) -> None:
        self.most = 0
        self._workspace = workspace
        self._count = count
        self._pause = pause
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._is_over.wait(self._pause):
            self.most = max(self.most, self._count(tools_of(self._workspace)))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *others: object) -> None:
        self._is_over.set()
        self._thread.join()

"""The watchdog: a process that outlives its call when that is killed, and clears away what it leaves.

Owns the fork, and what the call tells it by a pipe: each token of make's jobserver that it takes or gives
back, and at last that the watchdog is dismissed. Where the pipe ends before, the call has been killed: the
watchdog ends its tools, removes the scratch directory and gives the tokens back. Knows nothing of stages; it
knows the tools of its call by a variable that names the scratch directory, or a path in it: TMPDIR, the
observer's LD_PRELOAD, or SCRATCH_VARIABLE. Whatever they start inherits these.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time

from nvccache.machine import process, scratch
from nvccache.machine.jobserver import MESSAGE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, TypeVar

    from nvccache.machine.jobserver import Jobserver

    Result = TypeVar("Result")

# Set for the dry run, which has the user's own TMPDIR and may not be observed.
SCRATCH_VARIABLE = "_NVCCACHE_SCRATCH"
_DISMISSED = b"D."  # as long as what is told of a token
_KILL_SECONDS = 10.0  # a tool that waits for a dead disk cannot be killed
_PAUSE_SECONDS = 0.02


class Watchdog:
    """The call's side. No method raises OSError, also when the watchdog itself has been killed."""

    __slots__ = ("_line", "pid")

    def __init__(self, pid: int, line: int) -> None:
        self.pid = pid
        self._line = line

    @classmethod
    def start(cls, path: str, jobserver: Jobserver | None) -> Watchdog | None:
        """Fork the watchdog of the call whose scratch directory, an absolute path, is or will be `path`.

        To be called before the directory is made and before any thread is started. When this returns, what is
        meant for the process group does not reach the watchdog any more. None when there can be none.
        """
        try:
            theirs, ours = os.pipe()
        except OSError:
            return None
        try:
            os.set_blocking(ours, False)  # a watchdog that was stopped must not stop its call
            try:
                pid = _fork(path, theirs, jobserver)
            finally:
                os.close(theirs)
            found = cls(pid, ours)
            if jobserver:
                jobserver.tell = found.tell
            return found
        except BaseException as error:
            # Else the watchdog would wait for us, while who handles an interruption waits for all children.
            os.close(ours)
            if isinstance(error, OSError):
                return None
            raise

    def tell(self, message: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._line, message)

    def dismiss(self) -> None:
        """Have the watchdog end, and wait for that; again is once.

        To be called when no tool runs any more and the scratch directory is gone.
        """
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGCONT)  # it may have been stopped, and its pipe be full
            os.set_blocking(self._line, True)
        self.tell(_DISMISSED)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self._line)


def _fork(path: str, line: int, jobserver: Jobserver | None) -> int:
    """The watchdog's id; it never returns from here. Raises OSError, and what a signal handler raises.

    Signals are blocked around the fork and stay so in the watchdog, so that none of the call's handlers
    ever runs in it, and no signal but SIGKILL ends it. One for the process group of the call is not for it.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pid = os.fork()
        if pid == 0:
            _live(path, line, jobserver)
        with contextlib.suppress(OSError):  # it has been killed
            os.setpgid(pid, pid)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _live(path: str, line: int, jobserver: Jobserver | None) -> NoReturn:
    """The watchdog's whole life; nothing of the call's own code runs after it."""
    try:
        gc.disable()  # what the call left lying about is not ours to finalize
        _detach({line, jobserver.descriptor if jobserver else line})
        scratch.sweep(*os.path.split(path))
        if not _is_dismissed(line, jobserver):
            end_tools(path)
            _put_away(path, jobserver)  # the tokens last, so that never more runs than make allows
    finally:
        os._exit(0)


def _detach(kept: set[int]) -> None:
    """Let go of all that is the caller's: descriptors first, for others wait for their end or their locks."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in {0, 1, 2} - kept - {null}:
        os.dup2(null, descriptor)
    os.chdir("/")


def _is_dismissed(line: int, jobserver: Jobserver | None) -> bool:
    """Listen until the call dismisses us, or is gone."""
    while message := os.read(line, MESSAGE_BYTES):
        if message == _DISMISSED:
            return True
        if jobserver:
            jobserver.hear(message)
    return False


def end_tools(path: str) -> None:
    """Kill until none is left, seen twice: what is in the middle of an exec shows no environment."""
    name = os.fsencode(path)
    marks = (name + b"/", name + b"\0")
    deadline = time.monotonic() + _KILL_SECONDS
    rounds_without = 0
    while rounds_without < 2 and time.monotonic() < deadline:
        rounds_without = 0 if _kill_marked(marks) else rounds_without + 1
        time.sleep(_PAUSE_SECONDS)


def _kill_marked(marks: tuple[bytes, ...]) -> bool:
    """Kill every process that has one of these in its environment; whether there was any."""
    is_any = False
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/environ", "rb") as stream:
                    settings = stream.read()
                is_tool = any(mark in settings for mark in marks)
                if is_tool:
                    is_any = True
                    os.kill(int(name), signal.SIGKILL)
    return is_any


def within_scratch(path: str, jobserver: Jobserver | None, work: Callable[[], Result]) -> Result:
    """Do some work while there is a scratch directory. Raises OSError where it cannot be made."""
    watchdog, lock = None, -1
    try:
        watchdog = Watchdog.start(path, jobserver)
        if watchdog:
            process.spare(watchdog.pid)
        lock = scratch.make(path)
        return work()
    finally:
        try:
            _put_away(path, jobserver, watchdog)
        except process.Interrupted:  # which comes once
            _put_away(path, jobserver, watchdog)
            raise
        finally:
            if lock >= 0:
                os.close(lock)


def _put_away(path: str, jobserver: Jobserver | None, watchdog: Watchdog | None = None) -> None:
    scratch.remove(path)
    if jobserver:
        jobserver.give_back_all()
    if watchdog:
        watchdog.dismiss()

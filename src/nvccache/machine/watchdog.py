"""The watchdog: a process that cleans up after its call if that is killed.

It waits for the end of a pipe that only its call holds. If the pipe ends, the call was killed: the watchdog
kills its tools and removes the scratch directory. A call that ends kills its watchdog. Does not know stages:
it finds the call's tools by SCRATCH_VARIABLE, which their children inherit. A process in a session of its own
is none of them: it is a server that a tool has started for later compiles.

Tokens of make's jobserver that a killed call held are lost: its target has failed, and make stops.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time

from nvccache.machine import process, scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, TypeVar

    from nvccache.machine.jobserver import Jobserver

    Result = TypeVar("Result")

SCRATCH_VARIABLE = "_NVCCACHE_SCRATCH"  # the scratch directory, or one below it with the observer's log
_KILL_SECONDS = 10.0  # a tool that waits for a dead disk cannot be killed
_CLEANING_SECONDS = 0.5  # compilers remove their temporary files on SIGTERM
_PAUSE_SECONDS = 0.02


class Watchdog:
    """The call's side. No method raises OSError, even if the watchdog has been killed."""

    __slots__ = ("_pipe", "pid")

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe

    @classmethod
    def start(cls, path: str) -> Watchdog | None:
        """Fork the watchdog of a call with scratch directory `path`, which is absolute; None if that fails.

        Call this before creating the directory and before starting any thread. When it returns, signals to
        the process group no longer reach the watchdog.
        """
        try:
            read_end, write_end = os.pipe()
        except OSError:
            return None
        try:
            return cls(_fork(path, read_end), write_end)
        except BaseException as error:
            # Or the watchdog would wait for this process, whose signal handling waits for all children.
            os.close(write_end)
            if isinstance(error, OSError):
                return None
            raise
        finally:
            os.close(read_end)

    def dismiss(self) -> None:
        """End the watchdog; idempotent.

        Call this when no tool is running and the scratch directory is gone.
        """
        with contextlib.suppress(OSError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self._pipe)


def _fork(path: str, pipe: int) -> int:
    """Returns the watchdog's pid, in the call only. Raises OSError, and what a signal handler raises.

    Signals are blocked around the fork and stay blocked in the watchdog, so that none of the call's handlers
    runs there, and only SIGKILL ends it. Its own process group keeps it from signals to the call's.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pid = os.fork()
        if pid == 0:
            _run(path, pipe)
        with contextlib.suppress(OSError):  # it was killed
            os.setpgid(pid, pid)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _run(path: str, pipe: int) -> NoReturn:
    """The watchdog's main function; never returns into the call's code."""
    try:
        gc.disable()  # must not run finalizers of the call's objects
        # Descriptors first, since others wait for pipes to end and for locks.
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor != pipe:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in {0, 1, 2} - {pipe, null}:
            os.dup2(null, descriptor)
        os.chdir("/")
        scratch.sweep(*os.path.split(path))
        os.read(pipe, 1)  # until the call has ended
        kill_tools(path)
        scratch.remove(path)
    finally:
        os._exit(0)


def kill_tools(path: str) -> None:
    """End all tools, until two rounds have found none: a process during exec shows no environment."""
    started = time.monotonic()
    terminated: set[int] = set()
    empty_rounds = 0
    while empty_rounds < 2 and time.monotonic() - started < _KILL_SECONDS:
        tools = _tools_of(path)
        is_late = time.monotonic() - started > _CLEANING_SECONDS
        for pid in tools if is_late else tools - terminated:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        terminated |= tools
        empty_rounds = 0 if tools else empty_rounds + 1
        time.sleep(_PAUSE_SECONDS)


def _tools_of(path: str) -> set[int]:
    """The processes of this session with the scratch directory, or a path in it, in their environment."""
    mark = b"\0%s=%s" % (SCRATCH_VARIABLE.encode(), os.fsencode(path))
    tools = set()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/environ", "rb") as stream:
                    settings = b"\0" + stream.read()
                is_marked = mark + b"/" in settings or mark + b"\0" in settings
                if is_marked and os.getsid(int(name)) == os.getsid(0):
                    tools.add(int(name))
    return tools


def within_scratch(path: str, jobserver: Jobserver | None, work: Callable[[], Result]) -> Result:
    """Call `work` while the scratch directory exists; raises OSError if it cannot be created.

    After it no token of make's jobserver is held.
    """
    watchdog: Watchdog | None = None
    lock = -1

    def clean_up() -> None:
        scratch.remove(path)
        if jobserver:
            jobserver.give_back_all()
        if watchdog:
            watchdog.dismiss()

    try:
        watchdog = Watchdog.start(path)
        lock = scratch.make(path)
        return work()
    finally:
        try:
            clean_up()
        except process.Interrupted:  # raised at most once
            clean_up()
            raise
        finally:
            if lock >= 0:
                os.close(lock)

"""The watchdog: a process that outlives its call when that is killed, and clears away what it leaves.

Owns the fork, the words exchanged with it, and the tokens taken from make's jobserver: it is the watchdog
that reads them, so that there is no moment in which a killed call has a token that nobody knows of. Knows
nothing of stages; it tells the tools of its call by a variable that names the scratch directory, or a path in
it: TMPDIR, the observer's LD_PRELOAD, or SCRATCH_VARIABLE. Whatever they start inherits these.

A request is a letter, a number and perhaps a token; its answer is the same number, and a token if one was
granted. The number tells an answer from a late one that nobody waited for, since a signal came in between.
"""

from __future__ import annotations

import _socket as socket  # whose other half makes enumerations of all constants
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

# Set for the dry run, which has the user's own TMPDIR and may not be observed.
SCRATCH_VARIABLE = "_NVCCACHE_SCRATCH"
_TAKE, _RETURN, _DISMISS = b"T", b"R", b"D"
_READY = b"!"  # what the watchdog says first
_LONGEST = 16  # bytes of a message
_ANSWER_SECONDS = 10.0  # a watchdog that has been stopped must not stop its call for good
_KILL_SECONDS = 10.0  # a tool that waits for a dead disk cannot be killed
_PAUSE_SECONDS = 0.02


class Watchdog:
    """The call's side. No method raises OSError, also when the watchdog itself has been killed."""

    __slots__ = ("_is_dismissed", "_is_silent", "_jobserver", "_line", "_number", "_tokens", "pid")

    def __init__(self, pid: int, line: socket.socket, jobserver: Jobserver | None) -> None:
        self.pid = pid
        self._line = line
        self._jobserver = jobserver
        self._number = 0
        self._tokens: list[bytes] = []  # granted and not returned, should the watchdog die before us
        self._is_silent = False
        self._is_dismissed = False

    @classmethod
    def start(cls, path: str, jobserver: Jobserver | None) -> Watchdog | None:
        """Fork the watchdog of the call whose scratch directory, an absolute path, is or will be `path`.

        To be called before the directory is made and before any thread is started. When this returns, what is
        meant for the process group does not reach the watchdog any more. None when there can be none.
        """
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return None
        try:
            try:
                pid = _fork(path, theirs, jobserver)
            finally:
                theirs.close()
            ours.settimeout(_ANSWER_SECONDS)
            if not _is_ready(ours, pid):
                raise ConnectionAbortedError
            return cls(pid, ours, jobserver)
        except OSError:
            ours.close()
            return None
        except BaseException:
            # The exception keeps this frame alive, and with it our end: the watchdog would wait for us while
            # whoever handles the exception waits for all children.
            ours.close()
            raise

    @property
    def has_jobserver(self) -> bool:
        return self._jobserver is not None

    def take_token(self) -> bool:
        """Have one more token taken, if there is one at this moment."""
        if not self._jobserver:
            return False
        try:
            token = self._ask(_TAKE)
        except OSError:
            return False
        if token:
            self._tokens.append(token)
        return bool(token)

    def return_token(self) -> None:
        """Have one of the tokens taken written back; without one nothing happens."""
        if self._is_silent or not self._tokens:
            return
        token = self._tokens.pop()
        try:
            self._ask(_RETURN, token)
        except (BrokenPipeError, ConnectionResetError):
            self._give_back(token)
        except OSError:
            pass  # it had read this before it died, or will when it goes on

    def dismiss(self) -> None:
        """Have the tokens still held written back and the watchdog end, and wait for that; again is once.

        To be called when no tool runs any more and the scratch directory is gone.
        """
        if self._line.fileno() < 0:
            return
        flags = 0
        try:
            if not self._is_dismissed:
                self._is_dismissed = True
                self._line.send(_DISMISS, socket.MSG_NOSIGNAL)
            self._line.shutdown(socket.SHUT_WR)
            while self._line.recv(_LONGEST):
                pass
        except (BrokenPipeError, ConnectionResetError):
            while self._tokens:
                self._give_back(self._tokens.pop())
        except OSError:
            flags = os.WNOHANG  # stopped: it will end when it goes on
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, flags)
        self._line.close()

    def _ask(self, request: bytes, token: bytes = b"") -> bytes:
        """The answer to a request.

        Raises BrokenPipeError or ConnectionResetError when the watchdog died and had not read the request,
        ConnectionAbortedError when it had, and TimeoutError when it does not answer.
        """
        if self._is_silent:
            raise TimeoutError
        self._number = (self._number + 1) % 256
        number = bytes((self._number,))
        try:
            self._line.send(request + number + token, socket.MSG_NOSIGNAL)
            while True:
                answer = self._line.recv(_LONGEST)
                if not answer:
                    raise ConnectionAbortedError
                if answer[:1] == number:
                    return answer[1:]
        except TimeoutError:
            self._is_silent = True
            self._line.setblocking(False)
            raise

    def _give_back(self, token: bytes) -> None:
        """Write back what the watchdog can no longer."""
        if self._jobserver:
            with contextlib.suppress(OSError):
                self._jobserver.give_back(token)


def _is_ready(line: socket.socket, pid: int) -> bool:
    """Whether the watchdog has detached itself; if it does not, it is no more."""
    with contextlib.suppress(OSError):
        if line.recv(_LONGEST) == _READY:
            return True
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)  # stopped, it would take us for dead when it goes on
        os.waitpid(pid, 0)
    return False


def _fork(path: str, line: socket.socket, jobserver: Jobserver | None) -> int:
    """The watchdog's id; it never returns from here. Raises OSError, and what a signal handler raises.

    Signals are blocked around the fork and stay so in the watchdog, so that none of the call's handlers
    ever runs in it, and no signal but SIGKILL ends it.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pid = os.fork()
        if pid == 0:
            _live(path, line, jobserver)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _live(path: str, line: socket.socket, jobserver: Jobserver | None) -> NoReturn:
    """The watchdog's whole life; nothing of the call's own code runs after it."""
    tokens: list[bytes] = []
    try:
        gc.disable()  # what the call left lying about is not ours to finalize
        os.setsid()  # what is meant for the process group of the call, a kill or a hang-up, is not for us
        line.send(_READY, socket.MSG_NOSIGNAL)
        _detach({line.fileno(), jobserver.descriptor if jobserver else line.fileno()})
        scratch.sweep(*os.path.split(path))
        if not _serve(line, jobserver, tokens):
            end_tools(path)
            scratch.remove(path)
    finally:
        try:
            # Last, so that never more runs than make allows.
            while jobserver and tokens:
                jobserver.give_back(tokens.pop())
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


def _serve(line: socket.socket, jobserver: Jobserver | None, tokens: list[bytes]) -> bool:
    """Answer until the call dismisses us, True, or is gone, False; `tokens` are those held."""
    while True:
        try:
            message = line.recv(_LONGEST)
        except ConnectionResetError:
            return False  # it is gone and had not read an answer
        request, number, token = message[:1], message[1:2], message[2:]
        if not request or request == _DISMISS:
            return request == _DISMISS
        if request == _RETURN and jobserver:
            jobserver.give_back(token)
            tokens.remove(token)
            token = b""
        elif request == _TAKE and jobserver:
            token = jobserver.take() or b""
            tokens += [token] if token else []
        with contextlib.suppress(OSError):
            line.send(number + token, socket.MSG_NOSIGNAL)


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


def within_scratch(
    path: str, jobserver: Jobserver | None, work: Callable[[Watchdog | None], Result]
) -> Result:
    """Do some work while there is a scratch directory. Raises OSError where it cannot be made."""
    watchdog = Watchdog.start(path, jobserver)
    if watchdog:
        process.spare(watchdog.pid)
    lock = -1
    try:
        lock = scratch.make(path)
        return work(watchdog)
    finally:
        _put_away(path, watchdog)
        if lock >= 0:
            os.close(lock)


def _put_away(path: str, watchdog: Watchdog | None) -> None:
    try:
        scratch.remove(path)
    except process.Interrupted:  # which comes once
        scratch.remove(path)
        raise
    finally:
        if watchdog:
            watchdog.dismiss()

"""Running the tools: the one place that starts them, and the owner of stop signals.

A tool inherits standard input, has its two output streams captured as bytes, and is ended together
with this process: what stops nvccache never leaves a compiler running behind it. Compiler drivers and
wrapper scripts do not end what they have started, so the whole family is told.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import nvccache
from nvccache.machine.streams import Pseudoterminal
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


@dataclass(slots=True)
class Completed:
    """What a tool left behind."""

    status: int  # its exit code, or minus the signal that ended it
    stdout: bytes
    stderr: bytes
    seconds: float
    cpu: float = 0.0  # seconds, with what it started and waited for; 0 if that is not known


class Interrupted(BaseException):
    """This process was told to stop; carries the signal. Not an Exception: nothing may swallow it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


# Isolated from the directory and the variables of the caller; modules are found where ours were found.
_DETACHED = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); module = sys.argv.pop(1);"
    " runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
# What make tells those that it starts: tokens of its jobserver are for them alone.
_OF_CALLER = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CARGO_MAKEFLAGS", "OLDPWD", "PWD")
_OWN_PREFIX = "_NVCCACHE_"
_SPARED: set[int] = set()
_POLL_MILLISECONDS = 50
_AT_ONCE = 1 << 16  # bytes
_MOST_READS = 32  # when a tool has ended: twice the largest pipe, for something else may write on
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def raise_on_stop_signals() -> None:
    """Turn SIGINT, SIGTERM and SIGHUP into Interrupted, unless the caller of this process ignores them."""
    for signum in _STOP_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _on_stop_signal)


def stop_as_usual() -> None:
    """Undo `raise_on_stop_signals`: there is nothing left to put away."""
    for signum in _STOP_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)


def _on_stop_signal(signum: int, frame: FrameType | None) -> None:
    """Here and not where the child is waited for, since a signal can come before its id is known."""
    for stop_signal in _STOP_SIGNALS:
        if signal.getsignal(stop_signal) is not signal.SIG_IGN:
            signal.signal(stop_signal, _on_further_stop_signal)
    _signal_descendants(signal.SIGTERM)
    raise Interrupted(signum)


def _on_further_stop_signal(signum: int, frame: FrameType | None) -> None:
    """A second ^C kills tools that ignore SIGTERM."""
    _signal_descendants(signal.SIGKILL)


def _signal_descendants(signum: int) -> None:
    for member in family_of(os.getpid())[1:]:
        with contextlib.suppress(OSError):
            if member not in _SPARED:
                os.kill(member, signum)


def spare(pid: int) -> None:
    """Leave a child alone that puts away after this process: a signal is not for it."""
    _SPARED.add(pid)


def family_of(pid: int) -> list[int]:
    """A process and all that it and its children have started, it first."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
                parents[int(name)] = int(stream.read().rpartition(b")")[2].split()[1])
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


class Child(subprocess.Popen[bytes]):
    """A tool that runs. Unlike its base it keeps how long it had a CPU, which is told when it is reaped."""

    cpu = 0.0

    def __init__(self, argv: Sequence[str], **options: Any) -> None:
        self._reaping = threading.Lock()
        super().__init__(argv, **options)

    def poll(self) -> int | None:
        """Its status if it has ended; None also while another thread waits for it."""
        if self.returncode is None and self._reaping.acquire(blocking=False):
            try:
                self._reap(os.WNOHANG)
            finally:
                self._reaping.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, however long that takes."""
        with self._reaping:
            self._reap(0)
        return self.returncode

    def _reap(self, options: int) -> None:
        if self.returncode is not None:
            return
        try:
            pid, status, usage = os.wait4(self.pid, options)
        except ChildProcessError:  # SIGCHLD is ignored, and nothing is told of children
            _ = super().poll() if options else super().wait()
            return
        if pid == self.pid:
            self.cpu = usage.ru_utime + usage.ru_stime
            self.returncode = os.waitstatus_to_exitcode(status)


class Handle:
    """A tool that may have to be ended by another thread than the one that waits for it."""

    __slots__ = ("_child", "_lock", "_told", "is_ended")

    def __init__(self) -> None:
        self.is_ended = False
        self._told: Callable[[], None] | None = None
        self._child: Child | None = None
        self._lock = threading.Lock()

    def end(self, signum: int = signal.SIGKILL) -> None:
        """End the tool and what it has started, now or as soon as it starts."""
        with self._lock:
            self.is_ended = True
            if self._told:
                self._told()
            if self._child and self._child.poll() is None:
                for member in family_of(self._child.pid):
                    with contextlib.suppress(OSError):
                        os.kill(member, signum)

    @property
    def has_gone(self) -> bool:
        """Whether the tool itself has ended."""
        return self._child is not None and self._child.poll() is not None

    def tell(self, ended: Callable[[], None]) -> None:
        """Have what runs on another machine be told when this is ended, or now if it has been."""
        with self._lock:
            self._told = ended
        if self.is_ended:
            ended()

    def hold(self, child: Child) -> None:
        """Take a tool that has just started."""
        with self._lock:
            self._child = child
        if self.is_ended:
            self.end()


def await_children() -> None:
    """Wait for what a stop signal has told to end: one may have started before anyone waited for it."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def die_of(signum: int) -> None:
    """End this process by the signal, so that its parent sees what it would see of nvcc."""
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    executable: str | None = None,
    cwd: str | None = None,
    handle: Handle | None = None,
    on_terminal: bool = False,
    stdin: int | None = None,
    most_said: int = 0,
) -> Completed:
    """Run one tool to its end; raises OSError when it cannot be started.

    `argv[0]` is what the tool sees as its own name; `executable` is the file to run; `on_terminal` gives it
    a terminal like ours for its standard error; `stdin` is what it has in the place of ours.
    Of each stream the last `most_said` bytes are kept, if given.
    """
    started = time.monotonic()
    terminal = _terminal_like_ours() if on_terminal else None
    stderr = terminal.tools if terminal else subprocess.PIPE
    with _start(argv, executable, environ, cwd, stderr, stdin) as child:
        try:
            if handle:
                handle.hold(child)
            if terminal:
                terminal.begin()
            assert child.stdout
            told_on = terminal.ours if terminal else child.stderr.fileno() if child.stderr else -1
            written = _written_by(child, (child.stdout.fileno(), told_on), most_said)
        except BaseException:
            child.terminate()
            raise
        finally:
            if terminal:
                terminal.end()
    return Completed(child.returncode, written[0], written[1], time.monotonic() - started, child.cpu)


def _start(
    argv: Sequence[str],
    executable: str | None,
    environ: Mapping[str, str],
    cwd: str | None,
    stderr: int,
    stdin: int | None,
) -> Child:
    """Start a tool with the descriptors that it would have from nvcc; raises OSError."""

    def start(argv: Sequence[str], executable: str | None) -> Child:
        # What this process has opened is closed on exec; what it was given is for the tools, too.
        return Child(
            argv,
            executable=executable,
            env=dict(environ),
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            close_fds=False,
        )

    try:
        return start(argv, executable)
    except OSError as error:
        import shutil

        script = executable or shutil.which(argv[0], path=environ.get("PATH", ""))
        if error.errno != errno.ENOEXEC or not script:
            raise
    return start(["/bin/sh", script, *argv[1:]], None)  # a script without #!, as the shell of nvcc starts it


def _written_by(child: Child, descriptors: Sequence[int], most: int) -> list[bytes]:
    """What a tool writes until it ends, or the last `most` bytes of it, if given.

    What it leaves behind, such as a compile server, may keep the descriptors open for ever; nvcc does not
    wait for that.
    """
    written = {descriptor: bytearray() for descriptor in descriptors}
    still_open = set(descriptors)
    end = _descriptor_of(child)
    waiting = select.poll()
    for descriptor in (*descriptors, end):
        if descriptor >= 0:
            waiting.register(descriptor, select.POLLIN)
    try:
        while still_open:
            ready = {descriptor for descriptor, _ in waiting.poll(None if end >= 0 else _POLL_MILLISECONDS)}
            has_ended = child.poll() is not None
            for descriptor in tuple(still_open if has_ended else still_open & ready):
                if not _read_into(written[descriptor], descriptor, has_ended):
                    still_open.discard(descriptor)
                    waiting.unregister(descriptor)
                if most:
                    del written[descriptor][:-most]
            if has_ended:
                break
    finally:
        if end >= 0:
            os.close(end)
    child.wait()
    return [bytes(part) for part in written.values()]


def _read_into(written: bytearray, descriptor: int, has_ended: bool) -> bool:
    """Read a part of what is there, or all of it once the tool has ended; whether more may come."""
    os.set_blocking(descriptor, False)
    try:
        for _ in range(_MOST_READS if has_ended else 1):
            part = os.read(descriptor, _AT_ONCE)
            if not part:
                return False
            written += part
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno != errno.EIO:  # the last writer to a terminal has gone
            raise
        return False
    return True


def _descriptor_of(child: Child) -> int:
    """What can be read once a process has ended; -1 where there is no such thing."""
    try:
        return os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # before Linux 5.3, or another C library
        return -1


def _terminal_like_ours() -> Pseudoterminal:
    from nvccache.machine.streams import Pseudoterminal

    return Pseudoterminal()


def run_through(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command on this process's own streams; its exit code, or minus its signal."""
    with subprocess.Popen(argv, env=dict(environ)) as child:
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            raise


def start_detached(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], handed_over: Sequence[int] = ()
) -> bool:
    """Have Python run a module of ours as a process that nobody waits for; whether it could be started.

    Make, Ninja, a CI job and `$(...)` wait for each process that holds their pipes, locks or jobserver, or is
    of their process group: what is started here has none of these. It is handed over these open descriptors,
    under the same numbers, and no others.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(nvccache.__file__)))
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _OF_CALLER and not name.startswith(_OWN_PREFIX)
    }
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _DETACHED, root, module, *arguments],
            env=kept,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=handed_over,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return False
    child.returncode = 0  # else Python warns, when this process ends, that the other has not
    return True

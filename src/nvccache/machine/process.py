"""Runs the tools of a compile, and handles the signals that stop it.

A tool inherits standard input; its stdout and stderr are captured as bytes. If nvccache is stopped, it sends
the signal to the whole process tree, since compiler drivers and wrapper scripts do not stop their children.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import nvccache
from nvccache import environment
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


@dataclass(slots=True)
class Completed:
    """The result of running a tool."""

    status: int  # its exit code, or minus the number of the signal that ended it
    stdout: bytes
    stderr: bytes
    seconds: float
    cpu: float = 0.0  # in seconds, including children that the tool waited for; 0 if unknown
    is_cut_short: bool = False  # whether a process that the tool started may still write to its streams


class Interrupted(BaseException):
    """A stop signal reached this process. Not an Exception, since `except Exception` must not catch it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


# For `python -I`, which ignores the caller's directory and variables: adds the path of nvccache's modules.
_DETACHED = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); module = sys.argv.pop(1);"
    " runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
# Variables that a detached process must not inherit: it is no child of make, and has another directory.
_CALLER_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CARGO_MAKEFLAGS", "OLDPWD", "PWD")
_LOADER_VARIABLES = ("LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD")  # dropped if Python began without them
_OWN_PREFIX = "_NVCCACHE_"
_POLL_MILLISECONDS = 50
_READ_BYTES = 1 << 16
# The limit of reads after a tool's end, since its children may keep writing: enough to empty a pipe twice.
_MAX_FINAL_READS = 32
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def raise_on_stop_signals() -> None:
    """Raise Interrupted on SIGINT, SIGTERM and SIGHUP, except for those that the caller ignores."""
    for signum in _STOP_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _on_stop_signal)


def restore_stop_signals() -> None:
    """Undo `raise_on_stop_signals`, when nothing is left to be cleaned up."""
    for signum in _STOP_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)


def _on_stop_signal(signum: int, frame: FrameType | None) -> None:
    """Stop all tools and raise Interrupted. The code that waits for a tool cannot stop the tool, since it may
    not have the pid yet.
    """
    for stop_signal in _STOP_SIGNALS:
        if signal.getsignal(stop_signal) is not signal.SIG_IGN:
            # A second ^C kills tools that ignore SIGTERM.
            signal.signal(stop_signal, lambda *_: _signal_descendants(signal.SIGKILL))
    _signal_descendants(signal.SIGTERM)
    raise Interrupted(signum)


def _signal_descendants(signum: int) -> None:
    for member in process_tree(os.getpid())[1:]:
        with contextlib.suppress(OSError):
            os.kill(member, signum)


def process_tree(pid: int) -> list[int]:
    """A process and all its descendants; the process comes first.

    Processes in other sessions are left out, since they may be servers that tools started for later compiles.
    """
    parents, session = {}, os.getsid(0)
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
                if int(fields[3]) == session:
                    parents[int(name)] = int(fields[1])
    tree = [pid]
    for member in tree:
        tree += [child for child, parent in parents.items() if parent == member]
    return tree


class Child:
    """A running tool."""

    def __init__(self, pid: int, streams: Sequence[int]) -> None:
        self.pid = pid
        self.streams = streams  # descriptors to read its stdout and stderr from
        self.returncode: int | None = None  # its exit code, or minus the number of the signal that ended it
        self.cpu = 0.0  # in seconds; set when the process is reaped
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        status = self._reap(0)
        assert status is not None
        return status

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def _reap(self, options: int) -> int | None:
        if self._reaping.acquire(blocking=not options):  # if it fails, another thread is waiting for the tool
            try:
                pid, status, usage = os.wait4(self.pid, options) if self.returncode is None else (0, 0, None)
                if usage and pid == self.pid:
                    self.cpu = usage.ru_utime + usage.ru_stime
                    self.returncode = os.waitstatus_to_exitcode(status)
            finally:
                self._reaping.release()
        return self.returncode


class Handle:
    """A tool for which one thread waits, and which another thread may end."""

    def __init__(self) -> None:
        self.is_ended = False
        self._on_end: Callable[[], None] | None = None
        self._child: Child | None = None
        self._lock = threading.Lock()

    def end(self, signum: int = signal.SIGTERM) -> None:
        """End the tool and its descendants, now or as soon as the tool starts.

        Compilers remove their temporary files on SIGTERM, but not on SIGKILL.
        """
        with self._lock:
            self.is_ended = True
            if self._on_end:
                self._on_end()
            if self._child and self._child.poll() is None:
                for member in process_tree(self._child.pid):
                    with contextlib.suppress(OSError):
                        os.kill(member, signum)

    def on_end(self, ended: Callable[[], None]) -> None:
        """Call `ended` when `end` is called, or now if it was called already; used for remote runs."""
        with self._lock:
            self._on_end = ended
        if self.is_ended:
            ended()

    def attach(self, child: Child) -> None:
        """Set the tool that has just started."""
        with self._lock:
            self._child = child
        if self.is_ended:
            self.end()


def reap_children() -> None:
    """Wait for all children after a stop signal, which may have come before a thread waited for a new
    child.
    """
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def die_of(signum: int) -> NoReturn:
    """End this process by a signal, so that its parent gets the same exit status as from nvcc."""
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
    os._exit(128 + signum)  # reached only if the signal is blocked


def run(argv: Sequence[str], environ: Mapping[str, str], handle: Handle | None = None) -> Completed:
    """Run a tool until it ends; raises OSError if it cannot be started."""
    started = time.monotonic()
    child = _start(argv, environ)
    try:
        if handle:
            handle.attach(child)
        (stdout, stderr), is_cut_short = _read_output(child)
    except BaseException:
        child.terminate()
        raise
    finally:
        for descriptor in child.streams:
            os.close(descriptor)
        status = child.wait()
    return Completed(status, stdout, stderr, time.monotonic() - started, child.cpu, is_cut_short)


def _start(argv: Sequence[str], environ: Mapping[str, str]) -> Child:
    """Start a tool, which inherits the same descriptors as from nvcc; raises OSError."""
    program = argv[0] if "/" in argv[0] else environment.found_on(environ.get("PATH", ""), argv[0])
    if not program:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    # Descriptors that this process opened are closed on exec, unlike those that it inherited itself.
    pipes = os.pipe(), os.pipe()
    actions = []
    for target, (_, end) in enumerate(pipes, start=1):
        os.set_inheritable(end, end == target)  # equal if the caller has closed this stream
        actions.append((os.POSIX_SPAWN_DUP2, end, target))

    def spawn(path: str, words: Sequence[str]) -> int:
        return os.posix_spawn(path, list(words), environ, file_actions=actions, setsigdef=_IGNORED_BY_PYTHON)

    try:
        try:
            pid = spawn(program, argv)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without #! is run by sh, through which nvcc starts its tools.
            pid = spawn("/bin/sh", ["/bin/sh", program, *argv[1:]])
    except BaseException:
        for descriptor, _ in pipes:
            os.close(descriptor)
        raise
    finally:
        for _, descriptor in pipes:
            os.close(descriptor)
    return Child(pid, [descriptor for descriptor, _ in pipes])


def _read_output(child: Child) -> tuple[list[bytes], bool]:
    """The stdout and stderr of a tool until it ends, and whether processes that it started may write more.

    Like nvcc, this does not wait for the end of the streams, because processes that the tool started, such as
    a compile server, may keep them open.
    """
    written = {descriptor: bytearray() for descriptor in child.streams}
    still_open = set(child.streams)
    end = _pidfd_of(child)
    waiting = select.poll()
    for descriptor in (*child.streams, end):
        if descriptor >= 0:
            waiting.register(descriptor, select.POLLIN)
    try:
        has_ended = False
        while still_open and not has_ended:
            ready = {descriptor for descriptor, _ in waiting.poll(None if end >= 0 else _POLL_MILLISECONDS)}
            has_ended = child.poll() is not None
            for descriptor in tuple(still_open if has_ended else still_open & ready):
                if not _read_into(written[descriptor], descriptor, has_ended):
                    still_open.discard(descriptor)
                    waiting.unregister(descriptor)
    finally:
        if end >= 0:
            os.close(end)
    child.wait()
    return [bytes(part) for part in written.values()], bool(still_open)


def _read_into(written: bytearray, descriptor: int, has_ended: bool) -> bool:
    """Read once, or everything if the tool has ended; returns whether there may be more."""
    os.set_blocking(descriptor, False)
    try:
        for _ in range(_MAX_FINAL_READS if has_ended else 1):
            part = os.read(descriptor, _READ_BYTES)
            if not part:
                return False
            written += part
    except BlockingIOError:
        pass
    return True


def _pidfd_of(child: Child) -> int:
    """A pidfd, which becomes readable when the process ends; -1 if pidfds are not supported."""
    try:
        return os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # Linux before 5.3, or a C library without it
        return -1


def run_attached(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command with this process's standard streams; returns its exit code, or minus its signal."""
    import subprocess

    with subprocess.Popen(argv, env=dict(environ)) as child:
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            raise


def start_detached(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> bool:
    """Run a module of nvccache in a background process; returns whether it could be started.

    Make, Ninja, CI jobs and `$(...)` wait for each process that has their pipes, locks or jobserver open, or
    is in their process group. Therefore, the new process inherits only the descriptors in `pass_fds`, and
    gets a process group of its own.
    """
    import subprocess

    root = os.path.dirname(os.path.dirname(os.path.abspath(nvccache.__file__)))
    dropped = _LOADER_VARIABLES if "nvccache-held" in sys._xoptions else ()
    variables = {
        name: value
        for name, value in environ.items()
        if name not in _CALLER_VARIABLES and not name.startswith(_OWN_PREFIX) and name not in dropped
    }
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _DETACHED, root, module, *arguments],
            env=variables,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return False
    child.returncode = 0  # otherwise, Python warns at its end that the child is still running
    return True

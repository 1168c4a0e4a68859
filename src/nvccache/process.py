"""Running the tools: the one owner of subprocess and of signals.

A tool inherits standard input, has its two output streams captured as bytes, and is ended together
with this process: what stops nvccache never leaves a compiler running behind it. Compiler drivers and
wrapper scripts do not end what they have started, so the whole family is told.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType


@dataclass(frozen=True, slots=True)
class Completed:
    """What a tool left behind: `status` is its exit code, or minus the signal that ended it."""

    status: int
    stdout: bytes
    stderr: bytes
    seconds: float


class Interrupted(BaseException):
    """This process was told to stop; carries the signal. Not an Exception: nothing may swallow it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


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
    """Whoever asks twice does not want to wait for tools that mind no SIGTERM."""
    _signal_descendants(signal.SIGKILL)


def _signal_descendants(signum: int) -> None:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
                parents[int(name)] = int(stream.read().rpartition(b")")[2].split()[1])
    family = [os.getpid()]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    for member in family[1:]:
        with contextlib.suppress(OSError):
            os.kill(member, signum)


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
    words: Sequence[str], environ: Mapping[str, str], executable: str | None = None, cwd: str | None = None
) -> Completed:
    """Run one tool to its end; raises OSError when it cannot be started.

    `words[0]` is what the tool sees as its own name; `executable` is the file to run.
    """
    started = time.monotonic()
    with subprocess.Popen(
        words,
        executable=executable,
        env=dict(environ),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        try:
            stdout, stderr = child.communicate()
        except BaseException:
            child.terminate()
            raise
    return Completed(child.returncode, stdout, stderr, time.monotonic() - started)


def run_through(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command on this process's own streams; its exit code, or minus its signal."""
    with subprocess.Popen(words, env=dict(environ)) as child:
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            raise

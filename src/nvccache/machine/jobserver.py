"""The client side of the GNU make jobserver: finding it in the environment, taking and giving tokens.

A token is one byte in a pipe or fifo that make and all its clients share; who has read it may run one
more job, and writes the same byte back afterwards. Knows nothing of what is run, nor of the watchdog, which
hears what is held and gives it back for a call that was killed.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Mapping

# `--jobserver-fds` is what make called it before 4.2.
_OPTION = re.compile(r"--jobserver-(?:auth|fds)=(.*)", re.DOTALL)
# make puts a backslash before blanks and backslashes in a word, as in the path of a fifo.
_WORD = re.compile(r"(?:[^\s\\]|\\.)+", re.DOTALL)
_FULL_PIPE_SECONDS = 0.01
_TAKEN, _RETURNED = b"T", b"R"  # before the token, in what is told of it
MESSAGE_BYTES = 2


class Jobserver:
    """One open jobserver; its descriptor is no one else's and is closed by exec.

    A signal handler that raises must neither lose a token nor double one. So what is read and written is
    noted by the same call of C, in whose midst no handler runs.
    """

    __slots__ = ("_taken", "_written", "descriptor", "tell")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.tell: Callable[[bytes], None] = lambda message: None  # hears of each token
        self._taken: list[bytes] = []
        self._written: list[int] = []  # bytes, by each write

    def take(self) -> bool:
        """Take one more token, if there is one at this moment."""
        try:
            self._taken.extend(map(os.read, (self.descriptor,), (1,)))
        except OSError:
            return False
        self.tell(_TAKEN + self._taken[-1])
        return True

    def give_back(self) -> None:
        """Write one of the tokens back, the very byte that was read; without one nothing happens."""
        if len(self._written) >= len(self._taken):
            return
        token = self._taken[len(self._written)]
        self.tell(_RETURNED + token)
        while True:
            try:
                self._written.extend(map(os.write, (self.descriptor,), (token,)))
            except BlockingIOError:
                # Where a user has too many pipes, Linux gives one a single page: full until read empty.
                time.sleep(_FULL_PIPE_SECONDS)
            except OSError:
                return  # the jobserver is broken
            else:
                return

    def give_back_all(self) -> None:
        for _ in self._taken[len(self._written) :]:
            self.give_back()

    def hear(self, message: bytes) -> None:
        """Note what the process that takes and gives back has told."""
        if message[:1] == _TAKEN:
            self._taken.append(message[1:])
        else:
            self._written.append(1)


def find(environ: Mapping[str, str]) -> Jobserver | None:
    """The jobserver that MAKEFLAGS names, if this process has been let in on it.

    Opened anew for reading and writing in one, so that it can be read without waiting: the descriptors
    that make hands on share their flags with make itself, which does wait, and with all its other jobs.
    """
    name = _name(environ.get("MAKEFLAGS", ""))
    if not name:
        return None
    if name.startswith("fifo:"):
        return _open(name.removeprefix("fifo:"))
    reading, _, writing = name.partition(",")
    if not (reading.isdecimal() and writing.isdecimal()):
        return None  # negative: make says so that this job is not let in
    if not _is_pipe_of_make(int(reading), int(writing)):
        return None
    return _open(f"/proc/self/fd/{int(reading)}")


def _name(makeflags: str) -> str:
    """What the last word about a jobserver says; variables follow after `--`, and they are no options."""
    name = ""
    for word in _WORD.findall(makeflags):
        if word == "--":
            break
        option = _OPTION.fullmatch(word)
        if option:
            name = re.sub(r"\\(.)", r"\1", option[1], flags=re.DOTALL)
    return name


def _is_pipe_of_make(reading: int, writing: int) -> bool:
    """Whether the two are the ends of one pipe that was handed to this process.

    A recipe line without `+` gets the words in MAKEFLAGS and not the descriptors; their numbers may be
    closed, or be those of other files by now. What Python opened itself is closed by exec, what make
    handed on cannot have been.
    """
    ends = ((reading, os.O_RDONLY), (writing, os.O_WRONLY))
    try:
        for descriptor, mode in ends:
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
            if flags not in (mode, os.O_RDWR) or not os.get_inheritable(descriptor):
                return False
        first, second = os.fstat(reading), os.fstat(writing)
    except (OSError, OverflowError):
        return False
    return stat.S_ISFIFO(first.st_mode) and os.path.samestat(first, second)


def _open(path: str) -> Jobserver | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return Jobserver(descriptor)
    os.close(descriptor)
    return None

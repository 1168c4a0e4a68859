"""The client side of the GNU make jobserver: finding it in the environment, taking and giving tokens.

A token is one byte in a pipe or fifo that make and all its clients share. A client that has read one may run
one more job, and writes the same byte back afterwards.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Mapping

# `--jobserver-fds` is the name before make 4.2.
_OPTION = re.compile(r"--jobserver-(?:auth|fds)=(.*)", re.DOTALL)
# make escapes blanks and backslashes in a word, such as the path of a fifo, by a backslash.
_WORD = re.compile(r"(?:[^\s\\]|\\.)+", re.DOTALL)
_FULL_PIPE_SECONDS = 0.01


class Jobserver:
    """One open jobserver; its descriptor is private to this process and closed by exec.

    A signal handler that raises must neither lose nor duplicate a token. So tokens are read and noted in a
    single C call (`extend` of a `map`), which no Python signal handler can interrupt; the same for writing.
    """

    __slots__ = ("_taken", "_written", "descriptor")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._taken: list[bytes] = []
        self._written: list[int] = []  # the results of `write`, one for each token given back

    def take(self) -> bool:
        """Take one more token, if one is available now."""
        try:
            self._taken.extend(map(os.read, (self.descriptor,), (1,)))
        except OSError:
            return False
        return True

    def give_back(self) -> None:
        """Write back one of the tokens taken, the same byte; does nothing if there is none."""
        if len(self._written) >= len(self._taken):
            return
        token = self._taken[len(self._written)]
        while True:
            try:
                self._written.extend(map(os.write, (self.descriptor,), (token,)))
            except BlockingIOError:
                # Linux gives a single page to pipes of a user who has too many: full until it is drained.
                time.sleep(_FULL_PIPE_SECONDS)
            except OSError:
                return  # the jobserver is broken
            else:
                return

    def give_back_all(self) -> None:
        for _ in self._taken[len(self._written) :]:
            self.give_back()


def find(environ: Mapping[str, str]) -> Jobserver | None:
    """The jobserver that MAKEFLAGS names, if this process may use it.

    Reopened for reading and writing, so that it can be non-blocking: inherited descriptors share their flags
    with make, whose reads block, and with all its other jobs.
    """
    name = _name(environ.get("MAKEFLAGS", ""))
    if not name:
        return None
    if name.startswith("fifo:"):
        return _open(name.removeprefix("fifo:"))
    read_end, _, write_end = name.partition(",")
    if not (read_end.isdecimal() and write_end.isdecimal()):
        return None  # negative: make's sign that this job may not use it
    if not _is_pipe_of_make(int(read_end), int(write_end)):
        return None
    return _open(f"/proc/self/fd/{int(read_end)}")


def _name(makeflags: str) -> str:
    """The value of the last jobserver option; what follows `--` are variables, not options."""
    name = ""
    for word in _WORD.findall(makeflags):
        if word == "--":
            break
        option = _OPTION.fullmatch(word)
        if option:
            name = re.sub(r"\\(.)", r"\1", option[1], flags=re.DOTALL)
    return name


def _is_pipe_of_make(read_end: int, write_end: int) -> bool:
    """Whether these are the two ends of one pipe that this process has inherited.

    A recipe line without `+` gets the option in MAKEFLAGS but not the descriptors: their numbers may be
    closed, or belong to other files. Files that Python opened are not inheritable, those from make are.
    """
    ends = ((read_end, os.O_RDONLY), (write_end, os.O_WRONLY))
    try:
        for descriptor, mode in ends:
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
            if flags not in (mode, os.O_RDWR) or not os.get_inheritable(descriptor):
                return False
        first, second = os.fstat(read_end), os.fstat(write_end)
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

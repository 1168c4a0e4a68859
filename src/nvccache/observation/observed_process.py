"""What each program of a run was observed to do, and whether every one that was started has reported.

A program that is static, set-uid, of another C library or run without the variable reports nothing. To
count starts and ends would not do: a static program that starts a dynamic one balances by accident. So each
start is paired, by the process id, with the program that it names.

    x, then B of the same pid        exec; the child of a vfork shows in no other way
    f, then records of the child     fork
    p, then B of the child           posix_spawn
    S, then B of a child             system, popen

Records of different processes stand in no order. How a log is read is not known here (observer_log.py).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence

from nvccache.files import elf
from nvccache.files.signatures import Signature
from nvccache.values import dataclass, field

HOST, EDG, DEVICE, SHELL, INTERPRETER, UTILITY, UNKNOWN = (
    "host compiler",
    "EDG front end",
    "device tool",
    "shell",
    "interpreter",
    "utility",
    "unknown",
)
COMPILERS = (HOST, EDG, DEVICE)
_KINDS = (
    (EDG, r"cudafe\+\+|cicc"),
    (DEVICE, r"nvcc|ptxas|fatbinary|nvlink|tileiras|bin2c"),
    (
        HOST,
        r"(?:[\w.]+-)*(?:gcc|g\+\+|c\+\+|cc|cpp|clang|clang\+\+|cc1|cc1plus|lto1|lto-wrapper|collect2|as"
        # Behind its own name, what a wrapper that has taken that calls it (Debian's diversions, containers).
        r"|ld|ld\.bfd|ld\.gold|ld\.lld|lld)(?:-\d+(?:\.\d+)*)?(?:[-.](?:real|orig|distrib|bin|unwrapped))?",
    ),
    (SHELL, r"sh|dash|bash"),
    (INTERPRETER, r"python[\d.]*|perl[\d.]*"),
    (
        UTILITY,  # of these only what they are asked to do
        r"\[|basename|cat|chmod|cmp|cp|cut|dirname|echo|expr|false|e?grep|fgrep|head|ln|ls|mkdir|mktemp|mv|printf|pwd"
        r"|readlink|realpath|rm|rmdir|sed|sleep|sort|tail|tee|test|touch|tr|true|uniq|wc",
    ),
)
# A name that means another place to each process, or to each that works elsewhere.
RENAMED = re.compile(r"/proc/(?:self|thread-self)/(cwd|root)(?![^/])")
_SHELL = "/bin/sh"
_MOST_INTERPRETERS = 5  # where interpreters are scripts, too; the kernel stops there
_MOST_OF_FIRST_LINE = 256
# Made when they are read, also where something else is mounted: their dates say nothing. What /proc only
# renames the library calls by another name.
MADE_WHEN_READ = ("/proc/", "/sys/")
_RUNS, _BECOMES, _ENDED = "runs", "becomes", "ended"


def for_all(path: str, directory: str) -> str:
    """What a process that works in this directory names, by the name that any other has (observer/log.c)."""
    while begin := RENAMED.match(path):
        path = (directory if begin[1] == "cwd" else "") + path[begin.end() :]
    return path


@dataclass(frozen=True, slots=True)
class Given:
    """What a program was given in addition to its arguments and variables (observer/process.c)."""

    limits: int  # digest of limits and umask
    surroundings: int  # in a rehearsal, digest of what surrounds it
    streams: tuple[int, ...]  # inodes of the three


@dataclass(slots=True)
class Process:
    """One program that ran, with what its forked children did before they became other programs.

    Paths are from the root, or from our own working directory.
    """

    program: str
    arguments: list[str] = field(default_factory=list)
    directory: str = ""
    given: Given | None = None
    environ: dict[str, str] = field(default_factory=dict)  # of a compiler alone
    files: dict[str, Signature] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)  # opened, but no regular files: their modes
    # The mode that stat gave, 0 where only access saw the path, or lstat a link.
    found: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    denied: dict[str, int] = field(default_factory=dict)  # neither found nor absent: the error
    executable: set[str] = field(default_factory=set)  # asked whether they can be executed, found or not
    links: set[str] = field(default_factory=set)  # asked where they lead, or whether they are links
    resolved: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)  # made, emptied or replaced, or given another status
    appended: set[str] = field(default_factory=set)  # opened to be appended to, and not made by that
    removed: set[str] = field(default_factory=set)  # or emptied or replaced: what others have made
    updated: dict[str, Signature] = field(default_factory=dict)  # opened to be written to where they lie
    variables: set[str] = field(default_factory=set)
    questions: set[tuple[str, int, int]] = field(default_factory=set)  # name, number, phase
    loaded: dict[str, Signature] = field(default_factory=dict)  # the program itself, too
    sought: set[str] = field(default_factory=set)  # libraries asked for by name
    inputs: set[tuple[int, int]] = field(default_factory=set)  # handed down, and read: device, inode
    used: set[tuple[int, int]] = field(default_factory=set)  # in another way; zeros where it was not open
    statuses: set[tuple[int, int]] = field(default_factory=set)  # asked of what is open: device, inode
    attributes: set[str] = field(default_factory=set)  # asked for extended attributes
    permissions: set[str] = field(default_factory=set)  # asked whether they can be read or written
    started: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of program that it ran; of a script that of what reads it."""
        name = os.path.basename(self.program)
        if name == "env" and self.started:  # as scripts call it, to find their interpreter
            return UTILITY
        return _kind_called(name)

    @property
    def is_open_ended(self) -> bool:
        """Whether it may do anything with what it is given."""
        return self.kind in (UNKNOWN, INTERPRETER)

    def take(self, child: Process) -> None:
        """Add what a forked child did."""
        found = {path: mode or self.found.get(path, 0) for path, mode in child.found.items()}
        updated = self.updated.copy()  # as the first of them found it
        for name in Process.__slots__:
            own = getattr(self, name)
            if isinstance(own, set | dict):
                own.update(getattr(child, name))
        self.found.update(found)
        self.updated.update(updated)
        self.started += child.started


@functools.cache
def _kind_called(name: str) -> str:
    return next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, name)), UNKNOWN)


@dataclass(slots=True)
class _Life:
    """What is known of one process id."""

    process: Process
    is_forked: bool  # it began as a copy of its parent, not with a program's start
    state: str = _RUNS
    awaited: str = ""  # the program that has still to report, where the state is _BECOMES


class Starts:
    """The lives of all processes of a log."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._clause = ""
        self._lives: dict[int, _Life] = {}
        self._programs: list[Process] = []
        self._images: dict[int, list[Process]] = {}  # by pid: what it has become, in order
        self._root = 0
        self._copies: list[tuple[int, Process]] = []  # forked children
        self._parents: dict[int, Process] = {}  # of a child's pid, where a parent or a later program tells
        self._forked: set[int] = set()
        self._spawned: dict[int, str] = {}  # child -> program
        self._shells: list[int] = []  # the parents' pids
        self._unannounced: list[tuple[int, int, str]] = []  # pid, parent's pid, program

    def process_of(self, pid: int, begins: bool) -> Process:
        """Whose records follow; `begins` says that the first is a program's start."""
        life = self._lives.get(pid)
        if not life:
            life = self._lives[pid] = _Life(Process(""), is_forked=not begins)
            if not begins:
                self._copies.append((pid, life.process))
        return life.process

    def note(self, pid: int, kind: str, numbers: Sequence[int], text: str) -> Process:
        """Note a record of starts and ends; the process that the next ones are of."""
        life = self._lives[pid]
        if kind == "B":
            self._begin(pid, life, numbers[1], text)
        elif kind == "C":
            life.process.directory = text
        elif kind == "Q":
            if life.state != _RUNS:
                self._fail(f"`{life.awaited or life.process.program}` did not report its start")
            life.state = _ENDED
        elif kind == "X":
            if life.state == _BECOMES:
                life.state = _RUNS
                life.process.started.pop()
        else:
            self._announce(pid, life, kind, numbers, text)
        return life.process

    def _begin(self, pid: int, life: _Life, parent: int, program: str) -> None:
        if life.state == _BECOMES:
            if not runs_as(life.awaited, program):
                self._fail(f"`{life.awaited}` did not report its start")
            if life.is_forked and pid not in self._parents and parent in self._lives:
                self._parents[pid] = self._lives[parent].process
        elif life.process.program or life.is_forked or life.state == _ENDED:
            self._fail(f"`{program}` was started by a program that did not report")
        else:
            self._unannounced.append((pid, parent, program))
        life.state = _RUNS
        life.process = Process(program)
        self._programs.append(life.process)
        self._images.setdefault(pid, []).append(life.process)

    def _announce(self, pid: int, life: _Life, kind: str, numbers: Sequence[int], text: str) -> None:
        if life.state == _ENDED:
            self._fail(f"`{life.process.program}` started a program when it had ended")
        if kind == "f":
            if numbers[0] in self._forked:
                self._fail("an id of a process was used twice")
            self._forked.add(numbers[0])
            self._parents[numbers[0]] = life.process
            return
        life.process.started.append(text)
        if kind == "x":
            life.state, life.awaited = _BECOMES, text
        elif kind == "S":
            self._shells.append(pid)
        elif numbers[0] in self._spawned:
            self._fail("an id of a process was used twice")
        else:
            self._spawned[numbers[0]] = text

    def _fail(self, clause: str) -> None:
        self._clause = self._clause or clause

    def finish(self) -> str:
        """Why the log does not show all; empty if it does."""
        has_begun = False
        for pid, parent, program in self._unannounced:
            if pid in self._spawned:
                if not runs_as(self._spawned[pid], program):
                    continue  # and so it is still awaited
                del self._spawned[pid]
            elif parent in self._shells and runs_as(_SHELL, program):
                self._shells.remove(parent)
            elif not has_begun and runs_as(self._program, program):
                has_begun, self._root = True, pid
            else:
                self._fail(f"`{program}` was started by a program that did not report")
        if not has_begun:
            self._fail(f"`{self._program}` did not report its start")
        for program in [*self._spawned.values(), *(_SHELL for _ in self._shells)]:
            self._fail(f"`{program}` did not report its start")
        for child in self._forked:
            if child not in self._lives or not self._lives[child].is_forked:
                self._fail(f"a child of `{self._parents[child].program}` did not report its end")
        for life in self._lives.values():
            if life.state == _BECOMES:
                self._fail(f"`{life.awaited}` did not report its start")
            elif life.state == _RUNS:
                self._fail(f"`{life.process.program or 'a child'}` did not report its end")
        return self._clause

    def images(self) -> list[Process]:
        """The programs that the process that was started has been, one after the other; after `finish`."""
        return self._images.get(self._root, [])

    def processes(self) -> list[Process]:
        """The programs, each with what its forked children did; last those whose parent is not known."""
        copies = {id(copy): self._parents.get(pid) for pid, copy in self._copies}
        orphans = []
        for _, copy in self._copies:
            parent = copies[id(copy)]
            while parent is not None and id(parent) in copies:
                parent = copies[id(parent)]
            if parent is None:
                orphans.append(copy)
            else:
                parent.take(copy)
        return self._programs + orphans


def runs_as(path: str, reported: str) -> bool:
    """Whether the program that reported its start is what executing `path` runs.

    Of a script that is its interpreter. What the kernel does not take is run by the shell, as execvp does.
    """
    for _ in range(_MOST_INTERPRETERS):
        try:
            if os.path.realpath(path) == reported or os.path.samefile(path, reported):
                return True
            with open(path, "rb") as stream:
                line = stream.read(_MOST_OF_FIRST_LINE).partition(b"\n")[0]
        except (OSError, ValueError):
            return False
        if line.startswith(elf.MAGIC):
            return False
        if line.startswith(b"#!"):
            argv = line[2:].split(None, 1)
            path = os.fsdecode(argv[0]) if argv else _SHELL
        else:
            path = _SHELL
    return False

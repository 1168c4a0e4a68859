"""What each program of a run was observed to do, and whether every program has reported.

A program reports nothing if it is static, is set-uid, uses another C library, or runs without the variable
that preloads the observer. Counting starts and ends does not reveal such a program, because the numbers agree
by accident if it starts one that reports. So each record that announces a program is paired, by process id,
with record B, the first that this program writes:

    exec             x, then B of the same pid; a child of vfork leaves no other trace
    fork             f, then records of the child
    posix_spawn      p, then B of the child
    system, popen    S, then B of a child

The records of different processes are in no particular order. observer_log.py parses the log.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence

from nvccache.files import elf
from nvccache.files.signatures import Signature
from nvccache.values import dataclass, field

HOST, CUDA_TOOL, SHELL, OTHER = "host compiler", "CUDA tool", "shell", "other"
COMPILERS = (HOST, CUDA_TOOL)
_KINDS = dict.fromkeys(
    "cudafe++ cicc nvcc ptxas fatbinary nvlink tileiras bin2c".split(), CUDA_TOOL
) | dict.fromkeys(("sh", "dash", "bash"), SHELL)
_HOST = (
    r"(?:[\w.]+-)*(?:gcc|g\+\+|c\+\+|cc|cpp|clang|clang\+\+|cc1|cc1plus|lto1|lto-wrapper|collect2|as"
    # Suffixes that a compiler gets when a wrapper takes its name (Debian's diversions, containers).
    r"|ld|ld\.bfd|ld\.gold|ld\.lld|lld)(?:-\d+(?:\.\d+)*)?(?:[-.](?:real|orig|distrib|bin|unwrapped))?"
)
# Links to a process's own working directory and root, which may differ between processes.
_RENAMED = r"/proc/(?:self|thread-self)/(cwd|root)(?![^/])"
_SHELL = "/bin/sh"
_MOST_INTERPRETERS = 5  # the kernel's limit for scripts whose interpreters are scripts
_LONGEST_FIRST_LINE = 256
# In these directories, the kernel generates a file's content on each read, so that its date says nothing.
GENERATED_FILES = ("/proc/", "/sys/")
_RUNS, _BECOMES, _ENDED = "runs", "becomes", "ended"


def for_all(path: str, directory: str) -> str:
    """The path without /proc/self/cwd and the like, so that it leads any process to the same file."""
    while path.startswith("/proc/") and (begin := re.match(_RENAMED, path)):
        path = (directory if begin[1] == "cwd" else "") + path[begin.end() :]
    return path


@dataclass(slots=True)
class Process:
    """One program that ran, with what its forked children did before they executed other programs.

    Paths are absolute, or relative to nvccache's own working directory.
    """

    program: str
    arguments: list[str] = field(default_factory=list)
    directory: str = ""
    files: dict[str, Signature] = field(default_factory=dict)  # regular files that were opened
    others: dict[str, int] = field(default_factory=dict)  # modes of other files that were opened
    # The mode from stat(2); 0 if only access(2) found the path, or if lstat(2) found a link.
    found: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    denied: dict[str, int] = field(default_factory=dict)  # errno of failed lookups of paths that may exist
    links: set[str] = field(default_factory=set)  # arguments of lstat, readlink or realpath
    listed: set[str] = field(default_factory=set)  # directories
    # Files that were created, truncated or replaced, or whose status was changed.
    written: set[str] = field(default_factory=set)
    # Files that the run had not created, and that were removed, truncated or replaced.
    removed: set[str] = field(default_factory=set)
    updated: dict[str, Signature] = field(default_factory=dict)  # existing files opened for writing
    variables: set[str] = field(default_factory=set)  # names passed to getenv
    questions: set[tuple[str, int]] = field(default_factory=set)  # (function, 1 if a script was open)
    loaded: dict[str, Signature] = field(default_factory=dict)  # libraries and the program itself
    inputs: set[tuple[int, int]] = field(default_factory=set)  # inherited files that it read: device, inode
    uses_descriptor: bool = False  # whether it used another inherited descriptor, even a closed one
    permissions: set[str] = field(default_factory=set)  # arguments of access(2) with R_OK or W_OK
    started: list[str] = field(default_factory=list)  # programs

    @property
    def name(self) -> str:
        return os.path.basename(self.program)

    @property
    def kind(self) -> str:
        """The kind of the program; for a script, the kind of its interpreter."""
        name = self.name
        if name == "env" and self.started:  # like a CUDA tool, it depends only on what it read
            return CUDA_TOOL
        kind = _kind_called(name)
        is_wrapper = kind == CUDA_TOOL and name in map(os.path.basename, self.started)  # an ELF program
        return OTHER if is_wrapper else kind

    def take(self, child: Process) -> None:
        """Add what a forked child did."""
        modes = {path: mode or self.found.get(path, 0) for path, mode in child.found.items()}
        updated = self.updated.copy()  # the earliest signature of each file is kept
        for name in Process.__slots__:
            own = getattr(self, name)
            if isinstance(own, set | dict):
                own.update(getattr(child, name))
        self.found.update(modes)
        self.updated.update(updated)
        self.uses_descriptor |= child.uses_descriptor
        self.started += child.started
        self.arguments += child.arguments


def merged(processes: Iterable[Process]) -> list[Process]:
    """The processes, in which all runs of one host compiler are one process that did what any of them did."""
    result: list[Process] = []
    compilers: dict[str, Process] = {}
    for process in processes:
        if process.kind != HOST:
            result.append(process)
            continue
        if process.program not in compilers:
            result.append(compilers.setdefault(process.program, Process(process.program)))
        compilers[process.program].take(process)
    return result


@functools.cache
def _kind_called(name: str) -> str:
    return _KINDS.get(name) or (HOST if re.fullmatch(_HOST, name) else OTHER)


@dataclass(slots=True)
class _PidState:
    """What is known about one process id."""

    process: Process
    is_forked: bool  # whether it began as a copy of its parent
    state: str = _RUNS
    awaited: str = ""  # in state _BECOMES, the program that has not reported yet


class ProcessTree:
    """The programs in a log, put together from the records of their processes."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._clause = ""
        self._by_pid: dict[int, _PidState] = {}
        self._programs: list[Process] = []
        self._copies: list[tuple[int, Process]] = []  # forked children
        self._parents: dict[int, Process] = {}  # pid of a child -> its parent, if a record shows it
        self._forked: set[int] = set()
        self._spawned: dict[int, str] = {}  # child -> program
        self._shells: list[int] = []  # the parents' pids
        self._unannounced: list[tuple[int, int, str]] = []  # pid, parent's pid, program

    def process_of(self, pid: int, begins: bool) -> Process:
        """The process to which a pid's next records belong; `begins` says whether a program starts there."""
        entry = self._by_pid.get(pid)
        if not entry:
            entry = self._by_pid[pid] = _PidState(Process(""), is_forked=not begins)
            if not begins:
                self._copies.append((pid, entry.process))
        return entry.process

    def note(self, pid: int, kind: str, numbers: Sequence[int], text: str) -> Process:
        """Note the record of a start or end; returns the process to which the next records belong."""
        entry = self._by_pid[pid]
        if kind == "B":
            self._begin(pid, entry, numbers[1], text)
        elif kind == "C":
            entry.process.directory = text
        elif kind == "Q":
            if entry.state != _RUNS:
                self._fail(f"the start of `{entry.awaited or entry.process.program}` was not observed")
            entry.state = _ENDED
        elif kind == "X":
            if entry.state == _BECOMES:
                entry.state = _RUNS
                entry.process.started.pop()
        else:
            self._announce(pid, entry, kind, numbers, text)
        return entry.process

    def _begin(self, pid: int, entry: _PidState, parent: int, program: str) -> None:
        if entry.state == _BECOMES:
            if not runs_as(entry.awaited, program):
                self._fail(f"the start of `{entry.awaited}` was not observed")
            if entry.is_forked and pid not in self._parents and parent in self._by_pid:
                self._parents[pid] = self._by_pid[parent].process
        elif entry.process.program or entry.is_forked or entry.state == _ENDED:
            self._fail(f"`{program}` was started by a program that was not observed")
        else:
            self._unannounced.append((pid, parent, program))
        entry.state = _RUNS
        entry.process = Process(program)
        self._programs.append(entry.process)

    def _announce(self, pid: int, entry: _PidState, kind: str, numbers: Sequence[int], text: str) -> None:
        if entry.state == _ENDED:
            self._fail(f"`{entry.process.program}` started a program after it had reported its end")
        if kind == "f":
            if numbers[0] in self._forked:
                self._fail("a process id was used twice")
            self._forked.add(numbers[0])
            self._parents[numbers[0]] = entry.process
            return
        entry.process.started.append(text)
        if kind == "x":
            entry.state, entry.awaited = _BECOMES, text
        elif kind == "S":
            self._shells.append(pid)
        elif numbers[0] in self._spawned:
            self._fail("a process id was used twice")
        else:
            self._spawned[numbers[0]] = text

    def _fail(self, clause: str) -> None:
        self._clause = self._clause or clause

    def finish(self) -> str:
        """The reason why the log is incomplete; empty if it is complete."""
        has_begun = False
        for pid, parent, program in self._unannounced:
            if pid in self._spawned:
                if not runs_as(self._spawned[pid], program):
                    continue  # the spawned program still has to report
                del self._spawned[pid]
            elif parent in self._shells and runs_as(_SHELL, program):
                self._shells.remove(parent)
            elif not has_begun and runs_as(self._program, program):
                has_begun = True
            else:
                self._fail(f"`{program}` was started by a program that was not observed")
        if not has_begun:
            self._fail(f"the start of `{self._program}` was not observed")
        for program in [*self._spawned.values(), *(_SHELL for _ in self._shells)]:
            self._fail(f"the start of `{program}` was not observed")
        for child in self._forked:
            if child not in self._by_pid or not self._by_pid[child].is_forked:
                self._fail(f"the end of a child of `{self._parents[child].program}` was not observed")
        for entry in self._by_pid.values():
            if entry.state == _BECOMES:
                self._fail(f"the start of `{entry.awaited}` was not observed")
            elif entry.state == _RUNS:
                self._fail(f"the end of `{entry.process.program or 'a child'}` was not observed")
        return self._clause

    def processes(self) -> list[Process]:
        """The programs, each with what its forked children did, and then children of unknown parents."""
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
    """Whether executing `path` starts the program that reported itself as `reported`.

    A script starts its interpreter. If the kernel cannot execute a file, the shell runs it, as with execvp.
    """
    for _ in range(_MOST_INTERPRETERS):
        try:
            if os.path.realpath(path) == reported or os.path.samefile(path, reported):
                return True
            with open(path, "rb") as stream:
                line = stream.read(_LONGEST_FIRST_LINE).partition(b"\n")[0]
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

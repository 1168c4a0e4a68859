"""The observer's log of one run of a tool, parsed into sets of paths, names and queries.

The library appends batches, each from one process (observer/log.c):

    batch  := '@' pid ' ' bytes '\\n' records
    record := kind ( ' ' number )* '\\t' text '\\0'

If the log cannot be parsed completely, or does not show every process from start to end, the observation says
why it is incomplete. stage_inputs.py and uncacheable.py decide which paths are products or temporary files,
and which queries matter.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import chain

from nvccache.files import signatures
from nvccache.files.signatures import Signature
from nvccache.observation import observed_process
from nvccache.observation.observed_process import GENERATED_FILES, Process, ProcessTree, for_all
from nvccache.values import dataclass, field

VERSION = 11  # LOG_VERSION in observer/observer.h
LIMIT = (64 << 20) + (1 << 20)  # bytes; the observer stops writing before this limit
# How most records begin: those of absent paths, of variables, and of realpath(3) for absent paths, from which
# a program does not learn whether there is a dangling link. Their order does not matter.
_ABSENT, _VARIABLE, _UNRESOLVED = "-\t", "e\t", f"r {errno.ENOENT}\t"
_MOST_INODES = (1 << 64) - 1
_CHANGED = "files changed during the compile"
_SLACK = 2 * 10**9  # nanoseconds of tolerance, because timestamps may be coarse


@dataclass(slots=True)
class Observation:
    """What a tool, and all programs that it started, were observed to do."""

    processes: list[Process]
    written: set[str]
    incomplete: str = ""  # the reason why the observation is incomplete; or empty
    made: set[tuple[int, int]] = field(default_factory=set)  # (device, inode) of created or truncated files


def read(path: str, program: str, began_ns: int = 0) -> Observation:
    """Parse the log of a run of `program` that began at `began_ns`; a bad log gives an incomplete result."""
    reader = _Reader(program, began_ns - _SLACK)
    try:
        with open(path, "rb") as stream:
            log = stream.read(LIMIT + 1)
        reader.read(log)
    except FileNotFoundError:
        reader.fails("there is no log of the observer")
    except OSError as error:
        reader.fails(f"the observer's log cannot be read: {error.strerror}")
    except (ValueError, IndexError):
        reader.fails("the observer's log is damaged")
    return reader.result()


def merged(observations: Sequence[Observation]) -> Observation:
    """What several runs were observed to do, as if they had been one run."""
    if len(observations) == 1:
        return observations[0]
    processes = [process for each in observations for process in each.processes]
    read: dict[str, Signature] = {}
    incomplete = next(filter(None, (each.incomplete for each in observations)), "")
    for files in chain.from_iterable((process.files, process.loaded) for process in processes):
        if any(read.setdefault(path, signature) != signature for path, signature in files.items()):
            incomplete = incomplete or _CHANGED
    written = set[str]().union(*(each.written for each in observations))
    made = set[tuple[int, int]]().union(*(each.made for each in observations))
    return Observation(observed_process.merged(processes), written, incomplete, made)


def _batches(log: bytes) -> Iterator[tuple[int, str]]:
    """The pid and records of each batch; raises ValueError if one is damaged."""
    at = 0
    while at < len(log):
        end = log.index(b"\n", at, at + 64)
        mark, pid, size = log[at : at + 1], *log[at + 1 : end].split(b" ")
        at = end + 1 + int(size)
        if mark != b"@" or not (pid.isdigit() and size.isdigit()) or log[at - 1 : at] != b"\0":
            raise ValueError("no batch")
        yield int(pid), os.fsdecode(log[end + 1 : at - 1])


@functools.cache
def _parsed(head: str) -> tuple[str, tuple[int, ...]]:
    """The kind and the numbers of a record; cached, since most passes read the same files."""
    kind, *fields = head.split(" ")
    return kind, tuple(map(int, fields))


class _Reader:
    def __init__(self, program: str, began: int) -> None:
        self.incomplete = ""
        self._began = began
        self._ours = os.getcwd()
        self._own = ""
        self._tree = ProcessTree(os.path.join(self._ours, program))
        self._signatures: dict[str, Signature] = {}
        self._made: set[tuple[int, int]] = set()
        self._written: set[str] = set()
        self._written_from_root: set[str] = set()
        self._process = Process("")

    def fails(self, clause: str) -> None:
        """Note why the observation is incomplete; the first reason is kept."""
        self.incomplete = self.incomplete or clause

    def result(self) -> Observation:
        self.fails(self._tree.finish())
        return Observation(self._tree.processes(), self._written, self.incomplete, self._made)

    def read(self, log: bytes) -> None:
        if len(log) > LIMIT:
            self.fails("the observer's log is too long")
            return
        for pid, text in _batches(log):
            self._process = self._tree.process_of(pid, begins=text.startswith("B "))
            self._own = f"/proc/{pid}/"
            records = text.split("\0")
            for record in records:
                if record[:2] != _ABSENT and record[:4] != _UNRESOLVED and record[:2] != _VARIABLE:
                    self._read_record(pid, record)
            # These come last, since the working directory must be known.
            process = self._process
            process.absent.update(self._paths([each[4:] for each in records if each[:4] == _UNRESOLVED]))
            process.absent.update(self._paths([each[2:] for each in records if each[:2] == _ABSENT]))
            process.variables.update([each[2:] for each in records if each[:2] == _VARIABLE])

    def _read_record(self, pid: int, record: str) -> None:
        """Note one record; raises ValueError or IndexError if it is damaged."""
        head, tab, text = record.partition("\t")
        kind, numbers = _parsed(head)
        if not tab:
            raise ValueError("no record")
        if kind == "B" and numbers[0] != VERSION:
            self.fails("the observer's log has the format of another version")
        elif kind in "BCQXxpfS":
            self._process = self._tree.note(pid, kind, numbers, text)
        elif kind in "gnk!":
            self._note_unobservable(kind, numbers, text)
        elif kind in "yijA":
            self._note_of_process(kind, numbers, text)
        else:
            self._note(kind, numbers, self._path(text))

    def _note_unobservable(self, kind: str, numbers: Sequence[int], text: str) -> None:
        name = f"`{self._process.program}`"
        if kind == "g":
            self.fails(f"{name} looks up `{text}` through a function that is not observed")
        elif kind == "n":
            self.fails(f"{name} uses the network")
        elif kind == "k":
            self.fails(f"{name} makes system call {numbers[0]}, which is not observed")
        else:
            self.fails(f"in {name}, {text}")

    def _note_of_process(self, kind: str, numbers: Sequence[int], text: str) -> None:
        """Note a record that has no path."""
        process = self._process
        if kind == "y":
            process.questions.add((text, numbers[0]))
        elif kind == "i":
            process.inputs.add((numbers[0], numbers[1] & _MOST_INODES))
        elif kind == "j":
            process.uses_descriptor = True
        else:
            process.arguments.append(text)

    def _paths(self, texts: list[str]) -> list[str]:
        return [text if text[:1] == "/" and text[:6] != "/proc/" else self._path(text) for text in texts]

    def _path(self, text: str) -> str:
        """A path that leads any process to the same file; a relative path starts at nvccache's directory."""
        process = self._process
        if text.startswith("/proc/"):
            if text.startswith(self._own):
                text = "/proc/self/" + text[len(self._own) :]
            text = for_all(text, process.directory)
        return text if text[:1] == "/" or process.directory == self._ours else self._from_root(text)

    def _note(self, kind: str, numbers: Sequence[int], path: str) -> None:
        if kind == "o":
            self._note_opened(path, numbers)
        elif kind == "m":
            self._note_file(self._process.loaded, path, numbers)
        elif kind == "w":
            self._note_made(path)
        elif kind == "u":
            self._process.written.add(os.path.normpath(path))
        elif kind == "z":
            self._note_removed(path)
        else:
            self._note_answer(kind, path, numbers)

    def _note_answer(self, kind: str, path: str, numbers: Sequence[int]) -> None:
        process, error = self._process, numbers[0]
        if kind == "a" and numbers[1] & (os.R_OK | os.W_OK):
            process.permissions.add(path)
        elif kind in "lhr":
            process.links.add(path)
            if error == errno.EINVAL:  # readlink sets this errno if the path exists and is not a link
                error = 0
        elif kind == "d" and not error:
            process.listed.add(path)
        if error:
            self._note_error(path, error)
        elif kind == "s" or (kind == "h" and not stat.S_ISLNK(numbers[1])):
            process.found[path] = numbers[1]
        else:
            process.found.setdefault(path, 0)

    def _note_error(self, path: str, error: int) -> None:
        if error in (errno.ENOENT, errno.ENOTDIR):
            self._process.absent.add(path)
        else:
            self._process.denied[path] = error

    def _note_opened(self, path: str, numbers: Sequence[int]) -> None:
        process, error, flags = self._process, numbers[0], numbers[1]
        if error == errno.EEXIST:
            process.links.add(path)  # O_EXCL fails even for a dangling link
            process.found.setdefault(path, 0)
        elif error:
            self._note_error(path, error)
        elif flags & os.O_PATH:
            if flags & os.O_NOFOLLOW:  # does not follow links, like lstat
                process.links.add(path)
            process.found.setdefault(path, 0 if stat.S_ISLNK(numbers[4]) else numbers[4])
        else:
            self._note_open_file(path, flags, numbers)

    def _note_open_file(self, path: str, flags: int, numbers: Sequence[int]) -> None:
        process = self._process
        if flags & (os.O_CREAT | os.O_TRUNC):
            self._made.add((numbers[2], numbers[3] & _MOST_INODES))
        if stat.S_ISREG(numbers[4]):
            self._note_write(path, flags, numbers[2:])
        if flags & os.O_ACCMODE == os.O_WRONLY:
            return
        if (
            stat.S_ISREG(numbers[4])
            and not path.startswith(GENERATED_FILES)
            and not signatures.is_pseudo_file_system(numbers[2])
        ):
            self._note_file(process.files, path, numbers[2:])
        else:
            process.others[path] = numbers[4]

    def _note_made(self, path: str) -> None:
        self._written.add(path)
        self._written_from_root.add(self._from_root(path))
        self._process.written.add(os.path.normpath(path))

    def _note_removed(self, path: str) -> None:
        """Note that a file was removed, truncated or replaced, whether or not the run had created it."""
        if self._from_root(path) in self._written_from_root:
            self._written.add(path)  # the run created it, perhaps under another name
        else:
            self._process.removed.add(path)

    def _note_write(self, path: str, flags: int, numbers: Sequence[int]) -> None:
        """Note whether a regular file that was opened may have been written or created.

        With O_CREAT, it counts as created if it is empty and has changed since the run began.
        """
        device, inode, _, size, modified, changed = numbers
        access = flags & os.O_ACCMODE
        if flags & os.O_CREAT and not size and changed >= self._began:
            self._note_made(path)
        elif access != os.O_RDONLY:
            before = (device, inode & _MOST_INODES, size, modified, changed)
            self._process.updated.setdefault(path, before)
        if access == os.O_WRONLY:
            self._process.found.setdefault(path, 0)

    def _note_file(self, files: dict[str, Signature], path: str, numbers: Sequence[int]) -> None:
        """Note a file that was read, unless the run itself has created it.

        The records of two processes are in no particular order. But a file that has not changed since the run
        began was read before the run wrote to its path.
        """
        device, inode, _, size, modified, changed = numbers
        is_new = changed >= self._began
        if is_new and (path in self._written or self._from_root(path) in self._written_from_root):
            return
        inode &= _MOST_INODES  # logged as a signed number
        files[path] = signature = (device, inode, size, modified, changed)
        if self._signatures.setdefault(path, signature) != signature:
            self.fails(_CHANGED)

    def _from_root(self, path: str) -> str:
        """An absolute path without `.` and `..`, for comparisons; links are not resolved."""
        if path[:1] == "/" and "/." not in path and "//" not in path:
            return path
        return os.path.normpath(os.path.join(self._process.directory or self._ours, path))

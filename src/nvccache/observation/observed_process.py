"""What one program was observed to do. The form of the log it is read from is not known here."""

from __future__ import annotations

import re

from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.files.signatures import Signature

_SETS = (
    *("absent", "executable", "links", "resolved", "listed", "written", "appended", "removed"),
    *("variables", "questions", "sought", "inputs", "used", "statuses", "attributes", "permissions"),
)


# A name that means another place to each process, or to each that works elsewhere.
RENAMED = re.compile(r"/proc/(?:self|thread-self)/(cwd|root)(?![^/])")


def for_all(path: str, directory: str) -> str:
    """What a process that works in this directory names, by the name that any other has (observer/log.c)."""
    while begin := RENAMED.match(path):
        path = (directory if begin[1] == "cwd" else "") + path[begin.end() :]
    return path


@dataclass(frozen=True, slots=True)
class Given:
    """What a program was given beside its arguments and variables (digests_of_given in observer/process.c).

    Digests of limits and umask, and in a rehearsal of what surrounds it; inodes of its three streams.
    """

    limits: int
    surroundings: int
    streams: tuple[int, ...]


@dataclass(slots=True)
class Process:
    """One program that ran, with what its forked children did before they became other programs.

    Paths are from the root, or from our own working directory. `found` has the mode that stat gave, 0 where
    only access saw the path, or lstat a link; `denied` the error where it is neither found nor absent.
    """

    program: str
    arguments: list[str] = field(default_factory=list)
    directory: str = ""
    given: Given | None = None
    environ: dict[str, str] = field(default_factory=dict)  # of a compiler alone
    files: dict[str, Signature] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)  # opened, but no regular files: their modes
    found: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    denied: dict[str, int] = field(default_factory=dict)
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

    def take(self, child: Process) -> None:
        """Add what a forked child did."""
        for name in ("files", "others", "denied", "loaded"):
            getattr(self, name).update(getattr(child, name))
        for path, mode in child.found.items():
            self.found[path] = mode or self.found.get(path, 0)
        self.updated = child.updated | self.updated  # as the first of them found it
        for name in _SETS:
            getattr(self, name).update(getattr(child, name))
        self.started += child.started

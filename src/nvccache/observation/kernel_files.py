"""Files that the kernel generates, and descriptors that a process inherits: in no input record.

Whether a process only looks at them for its own use depends on its kind.
"""

from __future__ import annotations

import os
import re
import stat

from nvccache.observation.observed_process import (
    COMPILERS,
    CUDA_TOOL,
    FRONT_ENDS,
    MADE_WHEN_READ,
    SHELL,
    Process,
)
from nvccache.records.input_records import UnreadableError

OF_KERNEL = ("/dev/", *MADE_WHEN_READ)
_INHERITED = (0, *range(3, 20))  # as in observer/input.c
# Paths with another content for each process. Not those below its working directory or root, which may be
# the caller's: the observer reports the files there by other names (observer/log.c).
_SELF = r"/proc/(?:self|thread-self)"
_OF_PROCESS = re.compile(
    rf"/dev/(?:std(?:in|out|err)|fd(?:/.*)?|tty|pts/.*)|{_SELF}(?:/(?!(?:task/\d+/)?(?:cwd|root)/).*)?"
)
_OTHER_PROCESS = re.compile(r"/proc/\d+(?:/.*)?")
_DESCRIPTORS = r"/+(?:dev|proc/+(?:thread-)?self(?:/+task/+\d+)?)/+fd(?:info)?"
_DESCRIPTOR = re.compile(rf"{_DESCRIPTORS}/+(\d+).*")
_LISTED_DESCRIPTORS = re.compile(rf"{_DESCRIPTORS}/*")
# What may be read there without being an input: about the process itself (limits and users are in
# facts.CALLER), and the processor's (facts.NATIVE). Compilers read memory and seeds, also from a stream.
_HARMLESS_TO_ALL = (
    r"/dev/(?:null|zero|full|tty)|/proc/(?:filesystems|sys/vm/overcommit_memory|cpuinfo)"
    r"|/sys/devices/system/cpu(?:/.*)?"
)
_OWN = r"(?:exe|cmdline|comm|status|limits|(?:task/\d+/)?fd(?:/.*)?)"
_HARMLESS = rf"{_HARMLESS_TO_ALL}|/dev/(?:stdin|stdout|stderr|fd/.*|pts/.*)|{_SELF}(?:/{_OWN})?"
# C libraries and garbage collectors read their memory maps.
_HARMLESS_TO_PROGRAMS = rf"{_HARMLESS}|{_SELF}/(?:task/\d+/)?(?:maps|smaps|stat|statm|auxv|comm|task)"
_HARMLESS_TO_COMPILERS = (
    rf"{_HARMLESS_TO_ALL}|/dev/u?random|/proc/meminfo|{_SELF}/(?!(?:.*/)?(?:environ$|\.\./)).*"
)
_NO_SOURCES = (stat.S_ISREG, stat.S_ISCHR, stat.S_ISBLK)
_SCRIPT_STREAMS = re.compile(r"/dev/(?:stdin|fd/.*)|/proc/(?:self|thread-self|\d+)/(?:task/\d+/)?fd/.*")


def descriptors_by_name(process: Process) -> str:
    """How a process finds out by path which descriptors its caller has open, a clause; or empty.

    A program's own listing, to close all of them, does not count, unless its arguments have such a path.
    """
    if process.kind == SHELL or any(re.search(_DESCRIPTORS, argument) for argument in process.arguments):
        for path in filter(_LISTED_DESCRIPTORS.fullmatch, process.listed):
            return f"lists `{path}`"
    looked = {*process.absent, *process.found, *process.links, *process.resolved, *process.permissions}
    for match in filter(None, map(_DESCRIPTOR.fullmatch, looked)):
        path, number = match[0], int(match[1])
        if number > 2 and (path in process.absent or _is_inheritable(number)):
            return f"looks at `{path}`"
    return ""


def unreadable_file(process: Process) -> str:
    """A file that a process reads and that may have another content each time, a clause; or empty."""
    kind = process.kind
    if kind == CUDA_TOOL and os.path.basename(process.program) not in FRONT_ENDS:
        return ""
    names_proc = any("proc/" in argument for argument in (f"{process.directory}/", *process.arguments[1:]))
    if kind in COMPILERS:
        harmless = _HARMLESS_TO_COMPILERS
    else:
        harmless = _HARMLESS if kind == SHELL or names_proc else _HARMLESS_TO_PROGRAMS
    named = {path: 0 for path in process.files if path.startswith(OF_KERNEL)}
    for path, mode in (named | process.others).items():
        if kind == SHELL and (_SCRIPT_STREAMS.fullmatch(path) or stat.S_ISFIFO(mode)):
            return f"reads `{path}`"
        # The only regular files in `others` are those generated on each read.
        is_made = path.startswith(MADE_WHEN_READ) or any(is_it(mode) for is_it in _NO_SOURCES)
        if (is_made or (kind in COMPILERS and stat.S_ISFIFO(mode))) and not re.fullmatch(harmless, path):
            return f"reads `{path}`"
    return ""


def is_same_for_all(path: str) -> bool:
    """Whether a path means the same to all processes; raises UnreadableError if it is about another one."""
    if not path.startswith(OF_KERNEL):
        return True
    if _OTHER_PROCESS.fullmatch(path):
        raise UnreadableError(f"`{path}` is of another process")
    if "/../" in path:
        raise UnreadableError(f"it is not known where `{path}` leads")
    return not _OF_PROCESS.fullmatch(path)


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


def inherited_descriptors() -> dict[tuple[int, int], str]:
    """The names of files that tools inherit open from the caller, by device and inode; without /dev/null."""
    nothing, found = os.stat(os.devnull), {}
    for descriptor in filter(_is_inheritable, reversed(_INHERITED)):
        status = os.fstat(descriptor)
        name = f"descriptor {descriptor}, which its caller opened" if descriptor else "its standard input"
        found[status.st_dev, status.st_ino] = name
    found.pop((nothing.st_dev, nothing.st_ino), None)
    return found


def reads_null_input(process: Process) -> bool:
    """Whether a process may have read nvccache's standard input, which is /dev/null."""
    try:
        status, nothing = os.fstat(0), os.stat(os.devnull)
    except OSError:
        return False
    return status.st_rdev == nothing.st_rdev and (status.st_dev, status.st_ino) in process.inputs

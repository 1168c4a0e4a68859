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
    GENERATED_FILES,
    OTHER,
    Process,
)
from nvccache.records.input_records import UnreadableError

OF_KERNEL = ("/dev/", *GENERATED_FILES)
_INHERITED = (0, *range(3, 20))  # as in observer/input.c
_SELF = r"/proc/(?:self|thread-self)"
_DESCRIPTORS = r"/+(?:dev|proc/+(?:thread-)?self(?:/+task/+\d+)?)/+fd(?:info)?"
_FURTHER_DESCRIPTOR = re.compile(rf"{_DESCRIPTORS}/+(?![012](?!\d))\d.*")
_STREAM = rf"/dev/std.*|{_DESCRIPTORS}/.*|/proc/\d+/(?:task/\d+/)?fd/.*"
# Paths with another content for each process. Not those below its working directory or root, which may be
# the caller's: the observer reports the files there by other names (observer/log.c).
_OF_PROCESS = re.compile(
    rf"/dev/(?:std(?:in|out|err)|fd(?:/.*)?|tty|pts/.*)|{_SELF}(?:/(?!(?:task/\d+/)?(?:cwd|root)/).*)?"
)
_OTHER_PROCESS = r"/proc/\d+(?:/.*)?"
# What may be read there without being an input. Limits and users are in facts.CALLER, the processor in
# facts.NATIVE. C libraries and garbage collectors read memory maps; compilers also memory and seeds.
_HARMLESS = (
    r"/dev/(?:null|zero|full|tty)|/proc/(?:filesystems|sys/vm/overcommit_memory|cpuinfo)"
    rf"|/sys/devices/system/cpu(?:/.*)?|{_SELF}/(?:exe|cmdline|comm|status|limits|(?:task/\d+/)?fd)"
)
_HARMLESS_TO_PROGRAMS = rf"{_HARMLESS}|{_SELF}/(?:task/\d+/)?(?:maps|smaps|stat|statm|auxv|comm|task)"
_HARMLESS_TO_COMPILERS = rf"{_HARMLESS}|/dev/u?random|/proc/meminfo|{_SELF}/(?!(?:.*/)?(?:environ$|\.\./)).*"


def unreadable_file(process: Process) -> str:
    """What a process reads or looks at there that may be another each time, a clause; or empty."""
    is_compiler = process.kind in COMPILERS
    names_proc = any("proc/" in argument for argument in (f"{process.directory}/", *process.arguments[1:]))
    looked = {*process.absent, *process.found, *process.links, *process.resolved, *process.permissions}
    if is_compiler:  # clang reads where the descriptor leads of each file that it has opened
        looked -= {path for path in process.links if not process.found.get(path, 1)}
    for path in filter(_FURTHER_DESCRIPTOR.fullmatch, looked):
        return f"looks at `{path}`"
    # To close all of them; not in a shell, nor if the path is among its arguments.
    if process.kind != OTHER or any(re.search(_DESCRIPTORS, argument) for argument in process.arguments):
        for path in filter(re.compile(rf"{_DESCRIPTORS}/*").fullmatch, process.listed):
            return f"lists `{path}`"
    if process.kind == CUDA_TOOL and os.path.basename(process.program) not in FRONT_ENDS:
        return ""
    harmless = _HARMLESS_TO_PROGRAMS if process.kind == OTHER and not names_proc else _HARMLESS
    for path, mode in (dict.fromkeys(process.files, 0) | process.others).items():
        is_special = mode and not stat.S_ISDIR(mode)
        is_stream = not is_compiler and re.fullmatch(_STREAM, path)
        if (is_special or is_stream or path.startswith(GENERATED_FILES)) and not re.fullmatch(
            _HARMLESS_TO_COMPILERS if is_compiler else harmless, path
        ):
            return f"reads `{path}`"
    return ""


def is_same_for_all(path: str) -> bool:
    """Whether a path means the same to all processes; raises UnreadableError if it is about another one."""
    if not path.startswith(OF_KERNEL):
        return True
    if re.fullmatch(_OTHER_PROCESS, path):
        raise UnreadableError(f"`{path}` is of another process")
    if "/../" in path:
        raise UnreadableError(f"it is not known where `{path}` leads")
    return not _OF_PROCESS.fullmatch(path)


def inherited_descriptors() -> dict[tuple[int, int], str]:
    """The names of files that tools inherit open from the caller, by device and inode; without /dev/null."""
    nothing, found = os.stat(os.devnull), {}
    for descriptor in reversed(_INHERITED):
        try:
            status = os.fstat(descriptor)
            if not os.get_inheritable(descriptor) or os.path.samestat(status, nothing):
                continue
        except OSError:
            continue
        name = f"descriptor {descriptor}, which its caller opened" if descriptor else "its standard input"
        found[status.st_dev, status.st_ino] = name
    return found


def reads_null_input(process: Process) -> bool:
    """Whether a process may have read nvccache's standard input, which is /dev/null."""
    try:
        status, nothing = os.fstat(0), os.stat(os.devnull)
    except OSError:
        return False
    return status.st_rdev == nothing.st_rdev and (status.st_dev, status.st_ino) in process.inputs

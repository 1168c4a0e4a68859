"""What the system queries of a process mean for its results, by kind of program.

A compiler that reads the clock may write the time into its output, while ptxas only measures how long it
takes; a shell reads variables without calling getenv. Observed on CUDA 11.8 to 13.5, gcc 11 and 12 and
clang 14. A program that is not listed may use any input for anything.
"""

from __future__ import annotations

import os
import re

from nvccache import environment
from nvccache.observation import shell_text
from nvccache.observation.observed_process import (
    COMPILERS,
    DEVICE,
    EDG,
    HOST,
    INTERPRETER,
    SHELL,
    UTILITY,
    Process,
)

_GREP = r"[ef]?grep"
_ASSEMBLER = r"(?:[\w.]+-)*as(?:-\d+(?:\.\d+)*)?"
_CLOCK = frozenset(
    ("time", "gettimeofday", "clock_gettime", "timespec_get", "ftime", "localtime", "localtime_r", "gmtime")
) | frozenset(("gmtime_r", "asctime", "asctime_r", "ctime", "ctime_r", "strftime"))
# cc1plus measures with gettimeofday and clock, and with SOURCE_DATE_EPOCH calls only gmtime. For
# __TIMESTAMP__ it calls functions that format a time, not ones that read it.
_CLOCK_OF_HOST = _CLOCK - {"gettimeofday", "clock_gettime", "gmtime", "gmtime_r"}
_RANDOM = frozenset(("getrandom", "getentropy", "arc4random", "arc4random_buf", "arc4random_uniform"))
_MACHINE = frozenset(
    ("uname", "gethostname", "sysconf", "get_nprocs", "get_nprocs_conf", "sched_getaffinity")
)
_MONOTONIC_CLOCKS = frozenset((1, 2, 3, 4, 6, 7, 9))  # all but the time of day
# Colours and links in messages: tools have no terminal, unless streams.py says so. The name of the working
# directory is part of keys where it matters.
_NOISE = frozenset(("TERM", "GCC_COLORS", "GCC_URLS", "TERM_URLS", "NOCOLOR", "NO_COLOR", "COLUMNS", "PWD"))
_COLOURS = _NOISE - {"PWD", "COLUMNS"}
_DIRECTORY_IN_SHELL = rb"\b(?:pwd|PWD|cd|pushd|popd|dirs|DIRSTACK)\b|~\+"
_OWN_DIRECTORY = r"/proc/[^/]*/(?:task/\d+/)?cwd"
_CALLER_IN_SHELL = (
    rb"\b(?:ulimit|umask|E?UID|GROUPS|times|trap)\b|(?:\[|\btest)\s[^\]\n]*-[GOSprtwx]\s"
    rb"|/proc/self|/dev/std|/dev/fd"
)
_CALLER_FILES = r"/proc/(?:self|thread-self)/(?:status|limits)"
# Tests of dates, owners and modes, also of directories; other tests depend only on contents. -g and -u only
# after `[` or `test`, since they are also options of compilers.
_STATUS_IN_SHELL = rb"(?<![\w-])-(?:nt|ot|ef|[OGNk])(?!\S)|(?:\[|\btest)\s(?:[^\n]*\s)?-[gu](?!\S)"
_STATUS_OF_FIND = (
    r"-(?:newer\w*|[acmB](?:newer|time|min)|perm|user|group|uid|gid|nouser|nogroup|size|links|inum|samefile|used"
    r"|readable|writable|executable|f?printf|f?ls)"
)
_STATUS_OF_LS = r"-\w*[cgilnostuS]\w*|--(?:[stifn]|au).*"
# Programs that look up the path they write to, and write whatever they find there, unless options say else.
_WRITERS = frozenset(("chmod", "cp", "ln", "mkdir", "mktemp", "mv", "rm", "rmdir", "tee", "touch"))
_OF_WRITERS = r"-[afLPpRrv]+|--|[^-].*|"
_INCLUDES_MORE = "--preinclude"


def volatile_query(process: Process) -> str:
    """What changes each time and a process may have put into its result, such as the time; or empty."""
    kind = process.kind
    if kind == DEVICE:
        return ""
    if kind == EDG:
        # They always read the clock. Their input is preprocessed, except for files that an option includes.
        includes = any(arg.startswith(_INCLUDES_MORE) for arg in process.arguments)
        return "the time" if includes else ""
    for name, number, phase in sorted(process.questions):
        if kind in (SHELL, INTERPRETER) and phase == 0:
            continue  # before it opened its script
        if name == "clock_gettime" and number in _MONOTONIC_CLOCKS:
            continue
        if name in (_CLOCK_OF_HOST if kind == HOST else _CLOCK):
            return "the time"
        # Utilities use them in names of temporary files; `mktemp -u` only prints such a name.
        if name in _RANDOM and (kind not in (HOST, UTILITY) or "-u" in process.arguments):
            return "random numbers"
        is_walk = os.path.basename(process.program) == "find"  # which distinguishes kinds of file systems
        if name == "statfs" and process.is_open_ended and not is_walk:
            return "the free space of a file system"
    return ""


def queries_machine(process: Process) -> bool:
    """Whether a process may depend on the machine in more than the processor's instructions."""
    is_heard = process.is_open_ended or process.kind == SHELL
    return is_heard and any(name in _MACHINE for name, _, _ in process.questions)


def reads_own_memory_maps(process: Process) -> bool:
    """Whether a process reads its memory maps in /proc for its own use, not as an input.

    GNU grep looks up the end of its stack each time.
    """
    if process.kind != UTILITY:
        return process.is_open_ended
    is_grep = re.fullmatch(_GREP, os.path.basename(process.program)) is not None
    return is_grep and not any("proc/" in arg for arg in (f"{process.directory}/", *process.arguments[1:]))


def may_use_descriptors(process: Process) -> bool:
    """Whether a process may depend on which descriptors its caller has open, apart from their contents.

    Compilers only look for a jobserver, and xargs for descriptors to close.
    """
    return process.kind not in COMPILERS and os.path.basename(process.program) != "xargs"


def queries_caller(process: Process) -> bool:
    """Whether a process may depend on users, limits and the like, queries that are not observed."""
    if any(re.fullmatch(_CALLER_FILES, path) for path in process.others):
        return True
    return process.is_open_ended or (process.kind == SHELL and _has_in_scripts(process, _CALLER_IN_SHELL))


def _has_in_scripts(shell: Process, pattern: bytes) -> bool:
    return any(re.search(pattern, text) for text in shell_text.scripts_of(shell))


def queries_directory(process: Process) -> bool:
    """Whether a process may depend on the name of its working directory; for compilers, keys cover that.

    A system call for it may not be observed. An assembler reads PWD only to write it into its output, because
    of an option, or of a `.loc` in the text.
    """
    if process.kind == HOST:
        return (
            "PWD" in process.variables
            and re.fullmatch(_ASSEMBLER, os.path.basename(process.program)) is not None
        )
    if process.kind == SHELL:
        texts = shell_text.scripts_of(process)
        return not texts or any(re.search(_DIRECTORY_IN_SHELL, text) for text in texts)
    if process.kind == UTILITY:
        name = os.path.basename(process.program)
        relative = (arg for arg in process.arguments[1:] if arg[:1] not in ("/", "-"))
        follows = name in ("readlink", "realpath")
        return name == "pwd" or (
            follows and (any(relative) or any(re.match(_OWN_DIRECTORY, arg) for arg in process.arguments))
        )
    return process.is_open_ended


def queries_status(process: Process) -> bool:
    """Whether a process uses dates, modes and owners of directories, FIFOs and links.

    For Python and other open-ended programs this is unknown, and false.
    """
    if process.kind == SHELL:
        return _has_in_scripts(process, _STATUS_IN_SHELL)
    name, argv = os.path.basename(process.program), process.arguments[1:]
    if name == "find":
        return any(re.fullmatch(_STATUS_OF_FIND, arg) for arg in argv)
    return name == "stat" or (name == "ls" and any(re.fullmatch(_STATUS_OF_LS, arg) for arg in argv))


def distinguishes_directories(process: Process) -> bool:
    """Whether a process may behave differently if two names are of the same directory.

    Shells and cicc compare `PWD` with the working directory, but only to find its name.
    """
    return process.kind not in (EDG, DEVICE, SHELL) or queries_status(process)


def checks_existing_outputs(process: Process) -> bool:
    """Whether a process may behave differently if a path that it looks up exists."""
    if process.kind == UTILITY:
        is_writer = os.path.basename(process.program) in _WRITERS
        return not (is_writer and all(re.fullmatch(_OF_WRITERS, arg) for arg in process.arguments[1:]))
    return process.is_open_ended or process.kind == SHELL


def is_noise(name: str, kind: str, requests_colours: bool) -> bool:
    """Whether a variable that a program of this kind reads affects none of its results."""
    if kind not in COMPILERS:
        return name.startswith(environment.OWN)
    return environment.is_ignored(name) or (name in _NOISE and not (requests_colours and name in _COLOURS))

"""What the questions of a process mean for its results, by the kind of program that it is.

A compiler that asks for the clock writes it into its result, ptxas measures how long it takes; a shell looks
at variables without asking for them by name. Observed on CUDA 11.8 to 13.5, gcc 11 and 12 and
clang 14. A program that is not listed may do anything with what it is given.
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
# cc1plus measures by gettimeofday and clock, and with SOURCE_DATE_EPOCH asks for gmtime alone. For
# __TIMESTAMP__ it asks for how to write a time, not for the time.
_CLOCK_OF_HOST = _CLOCK - {"gettimeofday", "clock_gettime", "gmtime", "gmtime_r"}
_RANDOM = frozenset(("getrandom", "getentropy", "arc4random", "arc4random_buf", "arc4random_uniform"))
_MACHINE = frozenset(
    ("uname", "gethostname", "sysconf", "get_nprocs", "get_nprocs_conf", "sched_getaffinity")
)
_MONOTONIC_CLOCKS = frozenset((1, 2, 3, 4, 6, 7, 9))  # all but the time of day
# Colours and links in messages: no tool that is run has a terminal, unless streams.py says so. The name of
# the working directory is part of keys where it counts.
_NOISE = frozenset(("TERM", "GCC_COLORS", "GCC_URLS", "TERM_URLS", "NOCOLOR", "NO_COLOR", "COLUMNS", "PWD"))
_COLOURS = _NOISE - {"PWD", "COLUMNS"}
_DIRECTORY_IN_SHELL = rb"\b(?:pwd|PWD|cd|pushd|popd|dirs|DIRSTACK)\b|~\+"
_OWN_DIRECTORY = r"/proc/[^/]*/(?:task/\d+/)?cwd"
_CALLER_IN_SHELL = (
    rb"\b(?:ulimit|umask|E?UID|GROUPS|times|trap)\b|(?:\[|\btest)\s[^\]\n]*-[GOSprtwx]\s"
    rb"|/proc/self|/dev/std|/dev/fd"
)
_TELLS_OF_CALLER = r"/proc/(?:self|thread-self)/(?:status|limits)"
# Tests of dates, owners and modes, which may be those of a directory; for the rest it is enough what stands
# there. Compilers have options -g and -u.
_STATUS_IN_SHELL = rb"(?<![\w-])-(?:nt|ot|ef|[OGNk])(?!\S)|(?:\[|\btest)\s(?:[^\n]*\s)?-[gu](?!\S)"
_STATUS_OF_FIND = (
    r"-(?:newer\w*|[acmB](?:newer|time|min)|perm|user|group|uid|gid|nouser|nogroup|size|links|inum|samefile|used"
    r"|readable|writable|executable|f?printf|f?ls)"
)
_STATUS_OF_LS = r"-\w*[cgilnostuS]\w*|--(?:[stifn]|au).*"
# Who look where they write, and write there whatever they find; options may have them do otherwise.
_WRITERS = frozenset(("chmod", "cp", "ln", "mkdir", "mktemp", "mv", "rm", "rmdir", "tee", "touch"))
_OF_WRITERS = r"-[afLPpRrv]+|--|[^-].*|"
_INCLUDES_MORE = "--preinclude"


def clock_of(process: Process) -> str:
    """The question of a process, if any, whose answer its result may hold; empty if there is none."""
    kind = process.kind
    if kind == DEVICE:
        return ""
    if kind == EDG:
        # They ask always. What they read has been preprocessed, but for files that an option includes.
        includes = any(word.startswith(_INCLUDES_MORE) for word in process.arguments)
        return "the time" if includes else ""
    for name, number, phase in sorted(process.questions):
        if kind in (SHELL, INTERPRETER) and phase == 0:
            continue  # before it has opened its script
        if name == "clock_gettime" and number in _MONOTONIC_CLOCKS:
            continue
        if name in (_CLOCK_OF_HOST if kind == HOST else _CLOCK):
            return "the time"
        # Utilities make up names of temporary files; `mktemp -u` does no more than that.
        if name in _RANDOM and (kind not in (HOST, UTILITY) or "-u" in process.arguments):
            return "random numbers"
        is_walk = os.path.basename(process.program) == "find"  # which tells kinds of file systems apart
        if name == "statfs" and process.is_open_ended and not is_walk:
            return "the room on a file system"
    return ""


def asks_for_machine(process: Process) -> bool:
    """Whether a process may have learnt what machine it runs on, not only its processor's instructions."""
    is_heard = process.is_open_ended or process.kind == SHELL
    return is_heard and any(name in _MACHINE for name, _, _ in process.questions)


def looks_at_its_memory(process: Process) -> bool:
    """Whether what a process reads in /proc of its memory is for itself, and not what it was asked to read.

    GNU grep looks where its stack ends each time.
    """
    if process.kind != UTILITY:
        return process.is_open_ended
    is_grep = re.fullmatch(_GREP, os.path.basename(process.program)) is not None
    return is_grep and not any("proc/" in word for word in (f"{process.directory}/", *process.arguments[1:]))


def heeds_descriptors(process: Process) -> bool:
    """Whether it may matter to a process which descriptors its caller has open, whatever it reads from them.

    Compilers look for a jobserver, and xargs for what it should not hand on.
    """
    return process.kind not in COMPILERS and os.path.basename(process.program) != "xargs"


def asks_for_caller(process: Process) -> bool:
    """Whether a process may see users, limits and the like, which the C library is not asked for by name."""
    if any(re.fullmatch(_TELLS_OF_CALLER, path) for path in process.others):
        return True
    return process.is_open_ended or (process.kind == SHELL and _has_in_scripts(process, _CALLER_IN_SHELL))


def _has_in_scripts(shell: Process, pattern: bytes) -> bool:
    return any(re.search(pattern, text) for text in shell_text.scripts_of(shell))


def asks_for_directory(process: Process) -> bool:
    """Whether a process may have learnt where it works; of compilers, keys say what counts.

    Where nothing was observed: the kernel is asked, not the C library. An assembler asks when it writes the
    answer into what it makes: an option tells it to, or a `.loc` in the text.
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
        relative = (word for word in process.arguments[1:] if word[:1] not in ("/", "-"))
        follows = name in ("readlink", "realpath")
        return name == "pwd" or (
            follows and (any(relative) or any(re.match(_OWN_DIRECTORY, word) for word in process.arguments))
        )
    return process.is_open_ended


def asks_for_status(process: Process) -> bool:
    """Whether a process looks at dates, modes and owners of directories, FIFOs and links.

    Of Python and others that is not known.
    """
    if process.kind == SHELL:
        return _has_in_scripts(process, _STATUS_IN_SHELL)
    name, argv = os.path.basename(process.program), process.arguments[1:]
    if name == "find":
        return any(re.fullmatch(_STATUS_OF_FIND, word) for word in argv)
    return name == "stat" or (name == "ls" and any(re.fullmatch(_STATUS_OF_LS, word) for word in argv))


def tells_directories_apart(process: Process) -> bool:
    """Whether a process may do something else because two names are of one directory.

    Shells and cicc look at `PWD` and where they work as well, but only to know what that is called.
    """
    return process.kind not in (EDG, DEVICE, SHELL) or asks_for_status(process)


def heeds_what_lies_there(process: Process) -> bool:
    """Whether a process may do something else where a name is taken that it looks for."""
    if process.kind == UTILITY:
        is_writer = os.path.basename(process.program) in _WRITERS
        return not (is_writer and all(re.fullmatch(_OF_WRITERS, word) for word in process.arguments[1:]))
    return process.is_open_ended or process.kind == SHELL


def is_noise(name: str, kind: str, requests_colours: bool) -> bool:
    """Whether a variable that a program of this kind asked for reaches none of its results."""
    if kind not in COMPILERS:
        return environment.is_hidden(name)
    return environment.is_ignored(name) or (name in _NOISE and not (requests_colours and name in _COLOURS))

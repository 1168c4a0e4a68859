"""What kinds of programs take part in a compile, and what each kind's questions mean for its results.

A compiler that asks for the clock writes it into its result, ptxas measures how long it takes; a shell looks
at variables without asking for them by name. Seen with the observer on CUDA 11.8 to 13.5, gcc 11 and 12 and
clang 14. A program that is not listed may do anything with what it is told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from nvccache import environment
from nvccache.observation.observed_process import Process

HOST, EDG, DEVICE, SHELL, INTERPRETER, UTILITY, UNKNOWN = (
    "host compiler",
    "EDG front end",
    "device tool",
    "shell",
    "interpreter",
    "utility",
    "unknown",
)
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


def kind_of(process: Process) -> str:
    """The kind of program that a process ran; a script is what reads it."""
    name = os.path.basename(process.program)
    if name == "env" and process.started:  # as scripts call it, to find their interpreter
        return UTILITY
    return next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, name)), UNKNOWN)


def clock_of(process: Process, kind: str) -> str:
    """The question of a process, if any, whose answer its result may hold; empty if there is none."""
    if kind == DEVICE:
        return ""
    if kind == EDG:
        # They ask always. What they read has been preprocessed, but for files that they are told to include.
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
        if name == "statfs" and kind in (UNKNOWN, INTERPRETER) and not is_walk:
            return "the room on a file system"
    return ""


def asks_for_machine(process: Process, kind: str) -> bool:
    """Whether a process may have been told what machine it runs on, beyond its processor's instructions."""
    return kind in (UNKNOWN, INTERPRETER, SHELL) and any(name in _MACHINE for name, _, _ in process.questions)


def looks_at_its_memory(process: Process, kind: str) -> bool:
    """Whether what a process reads in /proc of its memory is for itself, and not what it was asked to read.

    GNU grep looks where its stack ends each time.
    """
    if kind != UTILITY:
        return kind in (UNKNOWN, INTERPRETER)
    is_grep = re.fullmatch(_GREP, os.path.basename(process.program)) is not None
    return is_grep and not any("proc/" in word for word in (f"{process.directory}/", *process.arguments[1:]))


def heeds_descriptors(process: Process, kind: str) -> bool:
    """Whether it may matter to a process which descriptors its caller has open, beyond what it reads there.

    Compilers look for a jobserver, and xargs for what it should not hand on.
    """
    return kind not in (HOST, EDG, DEVICE) and os.path.basename(process.program) != "xargs"


def asks_for_caller(kind: str, scripts: Iterable[bytes]) -> bool:
    """Whether a process may see users, limits and the like, which the C library is not asked for by name."""
    if kind == SHELL:
        return any(re.search(_CALLER_IN_SHELL, text) for text in scripts)
    return kind in (UNKNOWN, INTERPRETER)


def asks_for_directory(process: Process, kind: str, scripts: Iterable[bytes]) -> bool:
    """Whether a process may have been told where it works, of which compilers' keys say what counts.

    Where nothing was observed: the kernel is asked, not the C library. An assembler asks when it writes the
    answer into what it makes: an option tells it to, or a `.loc` in the text.
    """
    if kind == HOST:
        return (
            "PWD" in process.variables
            and re.fullmatch(_ASSEMBLER, os.path.basename(process.program)) is not None
        )
    if kind == SHELL:
        texts = list(scripts)
        return not texts or any(re.search(_DIRECTORY_IN_SHELL, text) for text in texts)
    if kind == UTILITY:
        name = os.path.basename(process.program)
        relative = (word for word in process.arguments[1:] if word[:1] not in ("/", "-"))
        follows = name in ("readlink", "realpath")
        return name == "pwd" or (
            follows and (any(relative) or any(re.match(_OWN_DIRECTORY, word) for word in process.arguments))
        )
    return kind in (UNKNOWN, INTERPRETER)


def asks_for_status(process: Process, kind: str, scripts: Iterable[bytes]) -> bool:
    """Whether a process looks at dates, modes and owners of directories, FIFOs and links.

    Of Python and others it cannot be told.
    """
    if kind == SHELL:
        return any(re.search(_STATUS_IN_SHELL, text) for text in scripts)
    name, words = os.path.basename(process.program), process.arguments[1:]
    if name == "find":
        return any(re.fullmatch(_STATUS_OF_FIND, word) for word in words)
    return name == "stat" or (name == "ls" and any(re.fullmatch(_STATUS_OF_LS, word) for word in words))


def tells_directories_apart(process: Process, kind: str, scripts: Iterable[bytes]) -> bool:
    """Whether a process may do something else because two names are of one directory.

    Shells and cicc look at `PWD` and where they work as well, but only to know what that is called.
    """
    return kind not in (EDG, DEVICE, SHELL) or asks_for_status(process, kind, scripts)


def heeds_what_lies_there(process: Process, kind: str) -> bool:
    """Whether a process may do something else where a name is taken that it looks for."""
    if kind == UTILITY:
        is_writer = os.path.basename(process.program) in _WRITERS
        return not (is_writer and all(re.fullmatch(_OF_WRITERS, word) for word in process.arguments[1:]))
    return kind in (UNKNOWN, INTERPRETER, SHELL)


def is_noise(name: str, kind: str, asks_for_colours: bool) -> bool:
    """Whether a variable that a program of this kind asked for reaches none of its results."""
    if kind not in (HOST, EDG, DEVICE):
        return environment.is_hidden(name)
    return environment.is_ignored(name) or (name in _NOISE and not (asks_for_colours and name in _COLOURS))

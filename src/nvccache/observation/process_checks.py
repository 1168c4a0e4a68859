"""What one observed process has learnt beside the files that it opened, and whether it may be recorded.

The clock, random numbers and what the kernel makes up are different each time; scripts and options are text.
"""

from __future__ import annotations

import os
import re
import stat

from nvccache.observation import known_programs, shell_text
from nvccache.observation.known_programs import DEVICE, EDG, HOST, SHELL
from nvccache.records.input_record import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.observation.observer_log import Process

_LARGEST_SCRIPT = 1 << 20
_LARGEST_ARGUMENT = 4096  # where the observer cuts them
_OPTIONS_OF_CLANG = ".cfg"
OF_KERNEL = ("/dev/", "/proc/", "/sys/")
_TELLS_NOTHING = re.compile(
    r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/.*|pts/.*)"
    r"|/proc/(?:self|thread-self|\d+)(?:/(?!(?:.*/)?environ$).*)?"
    r"|/proc/filesystems|/proc/sys/vm/overcommit_memory"
)
# What they read is part of their result, also what comes from /dev/stdin; gcc takes its seed from a device.
_HARMLESS_TO_COMPILERS = re.compile(
    r"/dev/(?:null|zero|full|tty|u?random)|/proc/(?:self|thread-self|\d+)/(?!(?:.*/)?environ$).*"
    r"|/proc/(?:filesystems|meminfo|sys/vm/overcommit_memory)"
)
_TELLS_OF_PROCESSOR = re.compile(r"/proc/cpuinfo|/sys/devices/system/cpu(?:/.*)?")
# What gcc's driver hands on beside what it made of the former, wherever that stood.
_NATIVE = re.compile(rb"=native\b|\bl1-cache-size=")
_RESPONSE_FILE = re.compile(rb"(?:^|(?<=\s))@(\S+)")
_TIME_WORD = re.compile(rb"\b__(?:DATE|TIME|TIMESTAMP)__\b")


def object_to(process: Process, kind: str) -> None:
    """Raise UnreadableError where a result may hold what no reading can tell."""
    program = os.path.basename(process.program)
    if _standard_input() in process.inputs:
        raise UnreadableError(f"`{program}` reads its standard input")
    asked = known_programs.clock_of(process, kind)
    if asked:
        raise UnreadableError(f"`{program}` asks for {asked}{_perhaps_for(process)}")
    if kind == SHELL:
        texts = scripts_of(process)
        if not texts:
            raise UnreadableError(f"what `{program}` runs is not known")
        word = shell_text.asks_anew(texts)
        if word:
            raise UnreadableError(f"a script uses `{word}`")
    harmless = _HARMLESS_TO_COMPILERS if kind in (HOST, EDG) else _TELLS_NOTHING
    for path, mode in (*dict.fromkeys(process.files, 0).items(), *process.others.items()):
        is_known = harmless.fullmatch(path) or _TELLS_OF_PROCESSOR.fullmatch(path)
        is_stream = kind in (HOST, EDG) and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode))
        if kind != DEVICE and (path.startswith(OF_KERNEL) or is_stream) and not is_known:
            raise UnreadableError(f"`{program}` reads `{path}`")


def _standard_input() -> tuple[int, int] | None:
    """What tells the standard input of this call, and so of its tools, unless nothing comes from there."""
    try:
        status, nothing = os.fstat(0), os.stat(os.devnull)
    except OSError:
        return None
    return None if status.st_rdev == nothing.st_rdev else (status.st_dev, status.st_ino)


def _perhaps_for(process: Process) -> str:
    """For whom a compiler may ask for the time: the first file with a word for it."""
    for path in process.files:
        word = _TIME_WORD.search(_text(path))
        if word:
            return f" (`{path}` has `{word[0].decode()}`)"
    return ""


def depends_on_processor(process: Process) -> bool:
    if any(_TELLS_OF_PROCESSOR.fullmatch(path) for path in (*process.files, *process.others)):
        return True
    texts = [os.fsencode("\n".join(process.arguments))]
    texts += [_text(path) for path in process.files if path.endswith(_OPTIONS_OF_CLANG)]
    named: set[str] = set()
    for text in texts:  # which grows
        if _NATIVE.search(text):
            return True
        inner = {os.fsdecode(name) for name in _RESPONSE_FILE.findall(text)} - named
        named |= inner
        texts += [_text(path) for path in inner.intersection(process.files)]
    return False


def scripts_of(process: Process) -> list[bytes]:
    """The text that a shell has read, or was given as an argument; none if that is not known."""
    words = process.arguments[1:]
    named = {*words, *(os.path.join(process.directory, word) for word in words)}
    texts = [_text(path) for path in process.files]
    is_whole = all(len(text) < _LARGEST_SCRIPT for text in texts)
    is_whole = is_whole and all(len(os.fsencode(word)) < _LARGEST_ARGUMENT for word in words)
    is_command = any(word[:1] == "-" != word[1:2] and "c" in word for word in words)
    if not is_whole or (not is_command and named.isdisjoint(process.files)):
        return []
    return [*texts, *map(os.fsencode, words)]


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(_LARGEST_SCRIPT)
    except OSError:
        return b""

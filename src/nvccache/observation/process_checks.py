"""What one observed process has learnt apart from the files that it opened, and whether it may be recorded.

The clock, random numbers and what the kernel makes up are different each time; scripts and options are text.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping

from nvccache import environment
from nvccache.files import signatures
from nvccache.files.presence import ATTRIBUTES, STATUS_OF_LINK, WHOLE_STATUS
from nvccache.observation import known_programs, shell_text
from nvccache.observation.observed_process import DEVICE, EDG, HOST, MADE_WHEN_READ, SHELL, UTILITY, Process
from nvccache.observation.shell_text import text_of
from nvccache.records.input_records import UnreadableError

_NO_FILES = (stat.S_ISREG, stat.S_ISCHR, stat.S_ISBLK)
_HANDED_DOWN = (0, *range(3, 20))  # as in observer/input.c
_CLOSED = {(0, 0): "a descriptor that its caller has not opened"}
_OPTIONS_OF_CLANG = ".cfg"
OF_KERNEL = ("/dev/", *MADE_WHEN_READ)
_NO_PLACES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/fd/",
    "/dev/std",
    "/dev/tty",
    "/dev/pts/",
    "/proc/",
)
# What stands there is another thing for each process. Not what lies below its working directory or its root,
# where a name that the caller has given may lead: what was observed is called otherwise (observer/log.c).
_SELF = r"/proc/(?:self|thread-self)"
_OF_PROCESS = (
    rf"/dev/(?:std(?:in|out|err)|fd(?:/.*)?|tty|pts/.*)|{_SELF}(?:/(?!(?:task/\d+/)?(?:cwd|root)/).*)?"
)
_DESCRIPTORS = r"/+(?:dev|proc/+(?:thread-)?self(?:/+task/+\d+)?)/+fd(?:info)?"
_OTHER_PROCESS = r"/proc/\d+(?:/.*)?"
_IN_ALL = r"/proc/filesystems|/proc/sys/vm/overcommit_memory"
# What they do themselves; for limits and users they ask as well (facts.CALLER).
_OWN = r"(?:exe|cmdline|comm|status|limits|(?:task/\d+/)?fd(?:/.*)?)"
_TELLS_NOTHING = (
    rf"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/.*|pts/.*)|{_SELF}(?:/{_OWN})?|{_IN_ALL}"
)
# C libraries and those that collect garbage look where their memory is.
_HARMLESS_TO_PROGRAMS = rf"{_TELLS_NOTHING}|{_SELF}/(?:task/\d+/)?(?:maps|smaps|stat|statm|auxv|comm|task)"
# What they read is part of their result, also what comes from /dev/stdin; gcc takes its seed from a device.
_HARMLESS_TO_COMPILERS = (
    rf"/dev/(?:null|zero|full|tty|u?random)|{_SELF}/(?!(?:.*/)?(?:environ$|\.\./)).*|/proc/meminfo|{_IN_ALL}"
)
# What a shell reads from there may be text that it runs.
_IN_NO_FILE = r"/dev/(?:stdin|fd/.*)|/proc/(?:self|thread-self|\d+)/(?:task/\d+/)?fd/.*"
_TELLS_OF_PROCESSOR = r"/proc/cpuinfo|/sys/devices/system/cpu(?:/.*)?"
# What gcc's driver hands on in addition to what it made of the former, wherever that stood.
_NATIVE = rb"=native\b|\bl1-cache-size="
_RESPONSE_FILE = rb"(?:^|(?<=\s))@(\S+)"
_TIME_WORD = rb"\b__(?:DATE|TIME|TIMESTAMP)__\b"


def object_to(process: Process) -> None:
    """Raise UnreadableError where a result may hold what no input record can tell."""
    kind = process.kind
    program = os.path.basename(process.program)
    from_caller = handed_down() if process.inputs else {}
    for read in process.inputs.intersection(from_caller):
        raise UnreadableError(f"`{program}` reads {from_caller[read]}")
    if known_programs.heeds_descriptors(process):
        for used in process.used.intersection(at_hand := _open_for_caller() | _CLOSED):
            raise UnreadableError(f"`{program}` uses {at_hand[used]}")
    _object_to_names_of_descriptors(process)
    asked = known_programs.clock_of(process)
    if asked:
        raise UnreadableError(f"`{program}` asks for {asked}{_perhaps_for(process)}")
    if kind == SHELL:
        texts = shell_text.scripts_of(process)
        if not texts:
            raise UnreadableError(f"what `{program}` runs is not known")
        word = shell_text.asks_anew(texts)
        if word:
            raise UnreadableError(f"a script uses `{word}`")
    if kind == DEVICE:
        return
    harmless = _HARMLESS_TO_COMPILERS if kind in (HOST, EDG) else _TELLS_NOTHING
    if known_programs.looks_at_its_memory(process):
        harmless = _HARMLESS_TO_PROGRAMS
    named = {path: 0 for path in process.files if path.startswith(OF_KERNEL)}
    for path, mode in (named | process.others).items():
        if kind == SHELL and (re.fullmatch(_IN_NO_FILE, path) or stat.S_ISFIFO(mode)):
            raise UnreadableError(f"`{program}` reads `{path}`")
        # Of regular files only those are among the others that are made when they are read.
        is_made = path.startswith(MADE_WHEN_READ) or any(is_it(mode) for is_it in _NO_FILES)
        is_stream = kind in (HOST, EDG) and stat.S_ISFIFO(mode)
        is_known = re.fullmatch(harmless, path) or re.fullmatch(_TELLS_OF_PROCESSOR, path)
        if (is_made or is_stream) and not is_known:
            raise UnreadableError(f"`{program}` reads `{path}`")


def _object_to_names_of_descriptors(process: Process) -> None:
    """Raise UnreadableError where a process looks which descriptors its caller has open, by their names.

    Programs that are about to close all of them list them first, without being asked to.
    """
    is_asked = any(re.search(_DESCRIPTORS, word) for word in process.arguments)
    is_asked |= process.kind in (SHELL, UTILITY)
    for path in filter(re.compile(rf"{_DESCRIPTORS}/*").fullmatch, process.listed if is_asked else ()):
        raise UnreadableError(f"`{os.path.basename(process.program)}` lists `{path}`")
    looked = {*process.absent, *process.found, *process.links, *process.resolved, *process.permissions}
    for match in filter(None, map(re.compile(rf"{_DESCRIPTORS}/+(\d+).*").fullmatch, looked)):
        path, number = match[0], int(match[1])
        if number > 2 and (path in process.absent or _is_handed_on(number)):
            raise UnreadableError(f"`{os.path.basename(process.program)}` looks at `{path}`")


def _is_handed_on(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


def tells_of_all(path: str) -> bool:
    """Whether a name says the same to all processes; raises UnreadableError if it is about another one."""
    if not path.startswith(OF_KERNEL):
        return True
    if re.fullmatch(_OTHER_PROCESS, path):
        raise UnreadableError(f"`{path}` is of another process")
    if "/../" in path:
        raise UnreadableError(f"where `{path}` leads is not known")
    return not re.fullmatch(_OF_PROCESS, path)


def handed_down() -> dict[tuple[int, int], str]:
    """What tells the descriptors that the tools have from the caller, and how to name them.

    Not those from which nothing comes.
    """
    nothing = os.stat(os.devnull)
    return {
        shown: name for shown, name in _open_for_caller().items() if shown != (nothing.st_dev, nothing.st_ino)
    }


def _open_for_caller() -> dict[tuple[int, int], str]:
    found = {}
    for descriptor in filter(_is_handed_on, reversed(_HANDED_DOWN)):
        status = os.fstat(descriptor)
        name = f"descriptor {descriptor}, which its caller opened" if descriptor else "its standard input"
        found[status.st_dev, status.st_ino] = name
    return found


def reads_nothing(process: Process) -> bool:
    """Whether a process may have read our standard input, and found nothing there since it is /dev/null."""
    try:
        status, nothing = os.fstat(0), os.stat(os.devnull)
    except OSError:
        return False
    return status.st_rdev == nothing.st_rdev and (status.st_dev, status.st_ino) in process.inputs


def _perhaps_for(process: Process) -> str:
    """For whom a compiler may ask for the time: the first file with a word for it."""
    for path in process.files:
        word = re.search(_TIME_WORD, text_of(path))
        if word:
            return f" (`{path}` has `{word[0].decode()}`)"
    return ""


def depends_on_processor(process: Process) -> bool:
    if any(re.fullmatch(_TELLS_OF_PROCESSOR, path) for path in (*process.files, *process.others)):
        return True
    texts = [os.fsencode("\n".join(process.arguments))]
    texts += [text_of(path) for path in process.files if path.endswith(_OPTIONS_OF_CLANG)]
    named: set[str] = set()
    for text in texts:  # which grows
        if re.search(_NATIVE, text):
            return True
        inner = {os.fsdecode(name) for name in re.findall(_RESPONSE_FILE, text)} - named
        named |= inner
        texts += [text_of(path) for path in inner.intersection(process.files)]
    return False


def heeds_arguments(process: Process) -> bool:
    """Whether a shell does more with the arguments of its script than hand all of them on."""
    return shell_text.heeds_arguments(shell_text.own_texts(process))


def may_heed(process: Process, word: str) -> bool:
    """Whether a process was given a word among its arguments, and may do something else for it."""
    return any(word in argument for argument in process.arguments) and may_choose(process)


def may_choose(process: Process) -> bool:
    """Whether a process may do something else for other arguments than hand them on."""
    return heeds_arguments(process) if process.kind == SHELL else process.is_open_ended


def places_looked_at(process: Process, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Directories, links and others that are no files, of which a process may have read the whole status.

    Each with how it looked. A shell looks at where it works when it starts.
    """
    if not known_programs.asks_for_status(process):
        return []
    own = {".", process.directory, environ.get("PWD", ""), environ.get("OLDPWD", "")}
    own = own if process.kind == SHELL else set()
    found = [
        (path, WHOLE_STATUS)
        for path, mode in process.found.items()
        if mode and not stat.S_ISREG(mode) and path not in own
    ]
    return found + [(path, STATUS_OF_LINK) for path in process.links if os.path.islink(path)]


def files_looked_at(process: Process, opened: Mapping[tuple[int, int], str]) -> list[tuple[str, str]]:
    """Regular files of which a process that is no compiler may have read the whole status; and attributes.

    Each with how it looked. `opened` are the paths of files by device and inode: every program asks for the
    status of what it opens, but what utilities do with it is known, and shells do nothing with it unless a
    script asks.
    """
    found = {path for path, mode in process.found.items() if stat.S_ISREG(mode)}
    found.update(filter(os.path.isfile, process.permissions))
    script_asks = process.kind == SHELL and known_programs.asks_for_status(process)
    if script_asks or process.is_open_ended:
        found.update(opened[file] for file in process.statuses if file in opened)
    attributed = filter(os.path.exists, process.attributes)
    return [*((path, WHOLE_STATUS) for path in found), *((path, ATTRIBUTES) for path in attributed)]


def object_to_products(process: Process, scratch: str, outputs: Iterable[str] = ()) -> None:
    """Raise UnreadableError where a process has made what a hit would not bring back, apart from its outputs.

    Or removed what a hit would leave.
    """
    own = (scratch + "/", os.path.realpath(scratch) + "/", *_NO_PLACES)
    brought_back = set(map(_with_real_directory, outputs))
    updated = {path for path, shown in process.updated.items() if signatures.of(path) != shown}
    for path in sorted(process.written | updated):
        if path.startswith(own) or not os.path.lexists(path):
            continue
        real_path = _with_real_directory(path)
        if not real_path.startswith(own) and real_path not in brought_back:
            raise UnreadableError(f"`{os.path.basename(process.program)}` writes `{path}`")
    for path in sorted(process.removed):
        if not path.startswith(own) and not os.path.lexists(path):
            raise UnreadableError(f"`{os.path.basename(process.program)}` removes `{path}`")


def grown_file(processes: Iterable[Process], scratch: str) -> str:
    """A file outside the scratch directory that one of these processes appends to, or empty."""
    own = (scratch + "/", os.path.realpath(scratch) + "/", *_NO_PLACES)
    appended = (path for process in processes for path in process.appended)
    return min((path for path in appended if not path.startswith(own)), default="")


def looks_for_product(process: Process, product: str, *, existed: bool) -> bool:
    """Whether a process that is no compiler has looked at a product's path before the product was made.

    One that was not there before, and is found, has been made by then.
    """
    if not known_programs.heeds_what_lies_there(process):
        return False
    observed = process.absent | (process.found.keys() | process.files.keys() if existed else set())
    name, path = os.path.basename(product), _with_real_directory(product)
    return any(os.path.basename(one) == name and _with_real_directory(one) == path for one in observed)


def _with_real_directory(path: str) -> str:
    directory, name = os.path.split(path)
    return os.path.join(os.path.realpath(directory), name)


def variables_of(process: Process, environ: Mapping[str, str]) -> set[str]:
    """Those that may have reached a process unseen; environment.WHOLE for all of them."""
    if process.kind == SHELL:
        begun = shell_text.begun_by(process.arguments[1:])
        is_remote_command = bool(begun and begun.is_command and os.path.basename(process.program) == "bash")
        texts = shell_text.own_texts(process) if shell_text.scripts_of(process) else []
        names = shell_text.variables_in(texts)
        return names | shell_text.variables_at_start(process.arguments, is_remote_command, environ)
    if process.is_open_ended:
        texts = [*map(os.fsencode, process.arguments), *(text_of(path) for path in process.files)]
        return {environment.WHOLE} | shell_text.ignored_variables_in(texts)
    return set(environment.OF_DATES) if process.kind == UTILITY else set()

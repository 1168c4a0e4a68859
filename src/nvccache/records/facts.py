"""The facts of an input record: dependencies other than file contents and directory entries.

Each element of FACTS describes a kind of fact: how an input record stores such facts, how they are compared
with the current state, and what `nvccache explain` prints if one has changed. To add a kind, add an element
of FACTS or, if it is about the machine, a topic; then record it where stages are observed
(docs/development/extending.md). Direct hits load this module, so it is part of the hot path.
"""

from __future__ import annotations

import os
import stat
import time

from nvccache import environment
from nvccache.files import keys, signatures
from nvccache.files.presence import (
    LIKE,
    WHOLE_STATUS,
    date_and_size,
    dates_of_copies,
    digest_of_listing,
    state_of,
    status_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from nvccache.files.signatures import Signature
    from nvccache.records.input_records import InputRecord

    Check = Callable[[list[Any], InputRecord, "CurrentState"], Iterator["Difference"]]

# Topics of questions that a tool can ask about the machine. A record has digests of the answers. Only
# questions about LIBRARIES have a subject.
HOST = "host"  # the machine's name, kernel and number of processors
NATIVE = "native"  # the processor's model and all its features
CALLER = "caller"  # what child processes inherit from this one: users, limits, standard input and so on
DIRECTORY = "directory"  # the working directory and PWD
FEATURES = "features"  # the features of the processor by which libm chooses functions
# The paths that ld.so.cache lists for a library. The subject is `PATH:NAME`: ld.so.cache, and the library.
LIBRARIES = "libraries"
CACHE_OF_LOADER = "/etc/ld.so.cache"
_loader_caches: dict[Signature | None, bytes] = {}  # contents of ld.so.cache, so that each is read once
# Fields of /proc/self/status that child processes inherit.
_STATUS_OF_CALLER = frozenset(("Umask", "Uid", "Gid", "Groups", "CapEff", "Cpus_allowed"))
_CPUINFO = ("vendor_id", "cpu family", "model", "stepping", "flags", "cache size", "CPU part", "Features")
# This file contains the processor's vendor, family, model and features. It is short even with many cores.
_PROCESSOR_ALIAS = "/sys/devices/system/cpu/modalias"
# The features by which glibc 2.28 to 2.42 choose functions of libm (all ifuncs in
# sysdeps/x86_64/fpu/multiarch), with the numbers that the kernel gives these features (cpufeatures.h).
USED_BY_LIBM = {"avx": "009C", "avx2": "0125", "fma": "008C", "fma4": "00D0", "sse4_1": "0093"}
_LAST_KNOWN_GLIBC = [2, 42]


class Difference:
    """A change since an input record was made: a word (see `sentence`), and the path or name that changed."""

    def __init__(self, what: str, path: str) -> None:
        self.what = what
        self.path = path


class CurrentState:
    """The current state of files, environment and machine, with which input records are compared.

    Each file is checked only once. If `files` is given, both states share what they know about files.
    """

    def __init__(self, environ: Mapping[str, str], files: CurrentState | None = None) -> None:
        self.environ = environ
        self._answers: dict[tuple[str, str], str] = {}
        self.since_ns: int = files.since_ns if files else time.time_ns()  # a time before any file is read
        self._signatures: dict[str, Signature | None] = files._signatures if files else {}
        # Digests of sources that have the same signature as in a record, by path and signature.
        self.recorded: dict[tuple[str, Signature], str] = files.recorded if files else {}
        self.code_digests: dict[str, str] = files.code_digests if files else {}
        self.read: dict[str, str] = files.read if files else {}  # digests of the files that had to be read
        self._states: dict[str, str] = files._states if files else {}
        self._links: dict[str, bool] = files._links if files else {}

    def signatures(self, paths: list[str]) -> list[Signature | None]:
        known = self._signatures
        new = [path for path in paths if path not in known]
        known.update(zip(new, signatures.all_of(new) or map(signatures.signature_of, new), strict=True))
        return [known[path] for path in paths]

    def state(self, path: str) -> str:
        """What exists at a path: a constant of presence.py."""
        if path not in self._states:
            self._states[path] = state_of(path)
        return self._states[path]

    def is_link(self, path: str) -> bool:
        if path not in self._links:
            self._links[path] = os.path.islink(path)
        return self._links[path]

    def answer(self, topic: str, subject: str) -> str:
        """The digest of the current answer to a question about the machine; see `answer` below."""
        question = topic, subject
        if question not in self._answers:
            self._answers[question] = answer(topic, subject, self.environ)
        return self._answers[question]

    def digest(self, path: str) -> str:
        """The current digest of a file; empty if the file cannot be read or is not a regular file."""
        (signature,) = self.signatures([path])
        if signature and (path, signature) in self.recorded:
            return self.recorded[path, signature]
        if path not in self.read:
            try:
                self.read[path] = keys.digest_file(path)
            except (OSError, ValueError):
                self.read[path] = ""
        return self.read[path]

    def digest_of_code(self, path: str) -> str:
        """The digest of a file without its comments; empty if the file cannot be read or is too large."""
        if path not in self.code_digests:
            from nvccache.files import comments  # not at the top, as most hits do not need it

            try:
                self.code_digests[path] = comments.digest_of_code(path)
            except (OSError, ValueError):
                self.code_digests[path] = ""
        return self.code_digests[path]


class Fact:
    """A kind of fact: how it is stored and checked, and how a change is described."""

    def __init__(
        self,
        name: str,  # the attribute of InputRecord that has a row for each fact of this kind
        width: int,  # the number of strings in a row: a tuple, but a plain string if the number is 1
        check: Check,
        sentences: Mapping[str, str],  # a clause for each word of a Difference; `{}` stands for its path
    ) -> None:
        self.name, self.width, self.check, self.sentences = name, width, check, sentences


def _links(rows: list[tuple[str, str]], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    for path, target in rows:
        resolved = os.path.realpath(path)
        if resolved != target and resolved != os.path.abspath(target):
            yield Difference("moved", path)


def _plain(rows: list[str], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    return (Difference("moved", path) for path in rows if now.is_link(path))


def _include_paths(rows: list[str], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    for row in rows:
        lines = row.split("\n")
        paths = [line.partition(" ")[2] for line in lines]
        for path, line, is_now in zip(paths, lines, which_are_one(paths).split("\n"), strict=True):
            if line != is_now:
                yield Difference("searched", path)


def which_are_one(paths: Iterable[str]) -> str:
    """A line for each path, with the number of the first path that leads to the same directory."""
    first: dict[str | tuple[int, int], int] = {}
    lines = []
    for index, path in enumerate(paths):
        try:
            status = os.stat(path)
            identity: str | tuple[int, int] = (status.st_dev, status.st_ino)
        except (OSError, ValueError):
            identity = path
        lines.append(f"{first.setdefault(identity, index)} {path}")
    return "\n".join(lines)


def _listings(rows: list[tuple[str, str]], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    return (Difference("relisted", path) for path, digest in rows if digest_of_listing(path) != digest)


def _dates(rows: list[tuple[str, str]], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    copies = {path for path, date in rows if date[:1] == LIKE}
    digests = zip(read.files, read.digests, strict=True) if copies else ()
    likes = dict(dates_of_copies(file for file in digests if file[0] in copies))
    of_kind: dict[str, Callable[[str], str | None]] = {LIKE: likes.get, WHOLE_STATUS: status_of}
    for path, date in rows:
        if of_kind.get(date[:1], date_and_size)(path) != date:
            yield Difference("redated", path)


def _variables(rows: list[tuple[str, str]], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    for name, digest in rows:
        if environment.digest_of(name, now.environ) != digest:
            yield Difference("variable", name)


def _sought(rows: list[str], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    path = now.environ.get("PATH", "")
    if path == read.search_path:
        return
    found_on = environment.found_on
    if any(found_on(read.search_path, name) != found_on(path, name) for name in rows):
        yield Difference("variable", "PATH")


def _machine(rows: list[tuple[str, str, str]], read: InputRecord, now: CurrentState) -> Iterator[Difference]:
    for topic, subject, answer in rows:
        if not answer or now.answer(topic, subject) != answer:
            yield Difference(topic, subject.partition(":")[0])


_MOVED_CLAUSE = {"moved": "{} leads to another file"}
_VARIABLE_CLAUSE = {"variable": "the environment variable {} changed"}
_MACHINE_CLAUSES = {
    "native": "the processor changed",
    "features": "the class of the processor, by which libm chooses functions, changed",
    "host": "the machine changed",
    "directory": "the working directory changed",
    "caller": "the user, limits, processors or standard input changed, which a program may have read",
    "libraries": "the libraries that {} lists changed",
}
# These kinds of facts are checked before any file is read. The comment below each kind describes a row.
ENVIRONMENT_FACTS = (
    Fact("variables", 2, _variables, _VARIABLE_CLAUSE),
    # (variable, digest of its value), see environment.py
    Fact("sought", 1, _sought, _VARIABLE_CLAUSE),
    # a program that was searched on PATH
)
# These kinds are checked in this order, the most expensive last.
FACTS = (
    *ENVIRONMENT_FACTS,
    Fact("listings", 2, _listings, {"relisted": "the names in {} changed"}),
    # (directory, digest of the names and types of its entries)
    Fact("links", 2, _links, _MOVED_CLAUSE),
    # (path, resolved path, which may be relative to the working directory)
    Fact("plain", 1, _plain, _MOVED_CLAUSE),
    # a directory that is not a symbolic link
    Fact("include_paths", 1, _include_paths, {"searched": "{} is another directory among the include paths"}),
    # lines of `which_are_one`: gcc searches a directory once, even if options name it several times
    Fact("dates", 2, _dates, {"redated": "the date of {} changed"}),
    # (path, its date and size, its whole status, or which copy of it has the same date)
    Fact("machine", 3, _machine, _MACHINE_CLAUSES),
    # (topic, subject, digest of the answer), see the topics above
)
# Clauses for the changes of files and of names in directories, which input_records.py finds.
_FILE_CLAUSES = {
    "changed": "{} changed",
    "gone": "{} is gone",
    "appeared": "{} has appeared",
    "unreadable": "{} cannot be read",
}


def sentence(what: str) -> str:
    """The clause that `nvccache explain` prints for the word of a Difference; `{}` stands for its path."""
    tables = (_FILE_CLAUSES, *(fact.sentences for fact in FACTS))
    return next((clauses[what] for clauses in tables if what in clauses), "the machine changed")


def answer(topic: str, subject: str, environ: Mapping[str, str]) -> str:
    """The digest of the current answer to a question about the machine; empty if there is no answer.

    The launcher does not ask these questions, because most answers cannot change before a reboot.

    The subject may come from a damaged record or from a remote, so it must not decide which file is read.
    """
    if topic == LIBRARIES:
        return _libraries_named(subject.partition(":")[2])
    if topic == HOST:
        text = os.fsencode(" ".join([*os.uname(), str(os.cpu_count())]))
    elif topic == CALLER:
        text = os.fsencode(_state_of_caller())
    elif topic == NATIVE:
        text = os.fsencode(describe_processor())
    elif topic == DIRECTORY:
        text = os.fsencode(f"{os.getcwd()}\0{environ.get('PWD', '')}")
    elif topic == FEATURES:
        text = os.fsencode(processor_class())
    else:
        return ""
    return keys.digest_bytes(text) if text else ""


def _state_of_caller() -> str:
    """What child processes inherit from this process, as /proc shows it; empty if /proc cannot be read."""
    try:
        status, limits = (_text_of_kernel(f"/proc/self/{name}") for name in ("status", "limits"))
    except OSError:
        return ""
    try:
        typed = os.fstat(0)
    except OSError:  # standard input is closed
        typed = None
    lines = [line for line in status.split("\n") if line.partition(":")[0] in _STATUS_OF_CALLER]
    stream = f"{stat.S_IFMT(typed.st_mode)} {typed.st_rdev}" if typed else ""
    return "\0".join([*lines, limits, str(os.getpriority(os.PRIO_PROCESS, 0)), stream])


def _text_of_kernel(path: str) -> str:
    with open(path, "rb") as stream:
        return stream.read().decode("utf-8", "surrogateescape")


def _libraries_named(name: str) -> str:
    """The digest of the paths that ld.so.cache lists for a library; empty if ld.so.cache cannot be read.

    The order of the paths does not count. It changes only if directories in ld.so.conf change places.
    """
    signature = signatures.signature_of(CACHE_OF_LOADER)
    if signature not in _loader_caches:
        try:
            with open(CACHE_OF_LOADER, "rb") as stream:
                _loader_caches[signature] = stream.read()
        except OSError:
            return ""
    content = _loader_caches[signature]
    ending = b"/" + os.fsencode(name) + b"\0"
    paths = set()
    at = content.find(ending)
    while at >= 0:
        paths.add(content[content.rfind(b"\0", 0, at) + 1 : at + len(ending)])
        at = content.find(ending, at + 1)
    return keys.digest_bytes(b"".join(sorted(paths)))


def describe_processor() -> str:
    """The lines of /proc/cpuinfo about one processor that never change; without that file, `os.uname()`."""
    lines = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    break  # the lines of one processor are enough
                if line.partition(":")[0].strip() in _CPUINFO:
                    lines.append(line)
    except OSError:
        pass
    return "".join(lines) or " ".join(os.uname())


def processor_class() -> str:
    """The version of the C library, and the processor's features by which its libm chooses functions.

    These features are only known for x86 and glibc up to 2.42. In other cases, the text describes the
    processor in full, in several lines.
    """
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
        alias = _text_of_kernel(_PROCESSOR_ALIAS)
    except (OSError, ValueError):
        version = alias = ""
    return class_in(alias, version)


def class_in(alias: str, version: str) -> str:
    name, _, number = version.partition(" ")
    is_known = name == "glibc" and [int(part) for part in number.split(".")[:2]] <= _LAST_KNOWN_GLIBC
    kind, _, features = alias.strip().partition(":feature:")
    if not is_known or not kind.startswith("cpu:type:x86") or not features:
        return f"{version}\n{describe_processor()}"
    present = features.split(",")
    return " ".join([version, *(flag for flag, number in USED_BY_LIBM.items() if number in present)])

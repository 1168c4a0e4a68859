"""Observations of tools and the input records that follow from them, for tests."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from pathlib import Path

import pytest

from answering import Answering
from nvccache import environment
from nvccache.files import signatures
from nvccache.observation.observed_process import Process
from nvccache.observation.observer_log import Observation
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.records import input_records
from nvccache.records.facts import CurrentState
from nvccache.records.input_records import InputRecord
from nvccache.store.store import Store

LATER = 60 * 10**9  # nanoseconds
ENVIRON = {"PATH": "bin", "CPATH": "inc", "SECRET": "1"}
FILE, FOLDER = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755
PIPE, DEVICE = stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o666
COMPILERS = ("cc1plus", "g++", "clang", "as", "cudafe++", "cicc", "ptxas")
PROGRAMS = (*COMPILERS, "sh", "python3", "cat", "grep", "wrapper")
TOOLS, OTHERS = "g++ cicc ptxas", "python3 wrapper cat"
ANY_KIND = f"{TOOLS} {OTHERS} sh"


def process(program: str = "x", *arguments: str, **seen) -> Process:
    if program in ("sh", "bash") and not arguments:
        arguments = ("-c", "exec g++")
    seen = {name: seen[name] if isinstance(seen[name], dict | bool) else {*seen[name]} for name in seen}
    return Process(f"/usr/bin/{program}", [program, *arguments], **seen)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """`a.h` and its copy `copy.h`, a library, and programs without dependencies under various names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        (tmp_path / "bin" / name).write_text(name)
        (tmp_path / "bin" / name).chmod(0o755)
    for name, text in (("a.h", "int a;"), ("copy.h", "int a;"), ("b.h", "int b;"), ("libx.so", "x")):
        (tmp_path / name).write_text(text)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "a.ii").write_text("")
    return tmp_path


@pytest.fixture
def inherited_descriptors():
    """The number of an inherited pipe that is not empty, and its device and inode.

    The observer remembers small numbers only, so the number is small whatever other tests have left open.
    """
    reads, writes = os.pipe()
    os.write(writes, b"one\ntwo\n")
    os.close(writes)
    number = 9
    kept = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 20) if os.path.exists(f"/proc/self/fd/{number}") else -1
    os.dup2(reads, number)
    if reads != number:
        os.close(reads)
    status = os.fstat(number)
    yield number, (status.st_dev, status.st_ino)
    os.close(number)
    if kept >= 0:
        os.dup2(kept, number, inheritable=False)
        os.close(kept)


def inputs(place: Path, since_ns: int = 0) -> ObservedInputs:
    cache = Store(str(place / "cache"))
    return ObservedInputs(
        cache, str(place), f"{place}/scratch", since_ns or time.time_ns() + LATER, CurrentState({})
    )


def subject(word: str = "g++", environ=ENVIRON, **more) -> Subject:
    return Subject(environ, word, **more)


def ran(name: str = "cc1plus", *argv: str, files=(), **seen) -> Process:
    """A process that has read these files as they are now."""
    program = os.path.realpath(f"bin/{name}")
    read = {path: signatures.signature_of(path) for path in files}
    return Process(program, [name, *argv], os.getcwd(), files=read, **seen)


def read_by(place: Path, *processes: Process, written=(), of: Subject | None = None) -> InputRecord:
    return inputs(place).input_record(Observation([*processes], {*written}), of or subject())


def kinds(made: InputRecord) -> dict[str, str]:
    return {os.path.relpath(path): kind for path, kind in zip(made.files, made.kinds, strict=True)}


def asked(made: InputRecord) -> set[str]:
    return {name for name, _ in made.variables} - {
        *environment.OF_LIBC,
        *environment.OF_LOADER,
        *("TZ", "TZDIR"),  # read when a date is printed, such as by `ls -l`
    }


def changes_since(made: InputRecord) -> list[tuple[str, str]]:
    """The differences by now; facts about the machine have the recorded answers."""
    answers = {(topic, what): answer for topic, what, answer in made.machine}
    found = input_records.differences(made, Answering(ENVIRON, lambda *asked: answers[asked]))
    return [(one.what, one.path) for one in found]

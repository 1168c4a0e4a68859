"""A call in its own directory, recorded by hand, for the launcher to answer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvccache import environment
from nvccache.files import keys, signatures
from nvccache.records.input_records import LIBRARIES, InputRecord
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.store import event_line
from nvccache.store.event_line import StageEvent
from nvccache.store.store import Store
from replays import Launcher, prepare_journal, stand_alone

ARGUMENTS = ["-c", "a.cu", "-o", "out/a.o", "-MD", "-MF", "out/a.d"]
OBJECT = b"\x7fELF object"
DIGEST = keys.digest_bytes(OBJECT)
ENVIRON = {"ASKED": "1", "GROUP_A": "2", "PATH": "/usr/bin:/bin", "OTHER": "3", "GROUP_IGNORED": "x"}


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Working directories, created many at a time, with files old enough to be trusted."""

    def make() -> Iterator[Path]:
        while True:
            made = [_made(tmp_path_factory.mktemp("call") / "work") for _ in range(20)]
            time.sleep(0.15)
            yield from made

    return make()


@pytest.fixture
def place(places: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files of a call, all old enough to be trusted."""
    place = next(places)
    monkeypatch.chdir(place)
    return place


def _made(place: Path) -> Path:
    place.mkdir()
    for name in (
        *("late/a.h", "early/other.h", "listed/b.h", "listed/tool", "parts/one", "a.cu", "caches"),
        *("out/keep", "compiler/nvcc"),
    ):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(name)
    for name in ("listed/tool", "compiler/nvcc"):
        (place / name).chmod(0o755)
    (place / "listed" / "folder").mkdir()
    (place / "listed" / "loop").symlink_to("loop")
    (place / "listed" / "same").symlink_to("../early")
    (place / "nvcc").symlink_to("a.cu")
    return place


@pytest.fixture
def nvcc(place: Path) -> str:
    return str(place / "compiler/nvcc")


@pytest.fixture
def stored(cache: Store) -> Store:
    """A cache that has the product, and in which calls are counted."""
    cache.add_blob(DIGEST, OBJECT, compress=False)
    prepare_journal(cache.root)
    return cache


@pytest.fixture
def launcher(place: Path, nvcc: str, workers_base: Path, stored: Store) -> Launcher:
    program = stand_alone(workers_base)
    return Launcher(program, stored.root, ENVIRON, [str(program), nvcc])


def input_record_of_call() -> InputRecord:
    """`early` and `late` have lasting signatures, `listed` does not."""
    made = InputRecord()
    made.files, made.kinds = ["a.cu", "late/a.h"], "ss"
    made.digests = [keys.digest_file(path) for path in made.files]
    made.signatures = [signatures.of(path) for path in made.files]
    made.directories = ["early", "late", "listed"]
    made.directory_signatures = [signatures.of("early"), signatures.of("late"), signatures.UNKNOWN]
    made.names = [["-a.h"], ["+a.h"], ["!loop", "+b.h", "-a.h", "-sub", "dfolder", "xtool"]]
    made.links = [("nvcc", os.path.realpath("nvcc"))]
    made.plain = ["late"]
    made.identities = [("early", "early"), ("listed/folder", "listed/folder"), ("listed/same", "early")]
    made.variables = [(name, environment.digest_of(name, ENVIRON)) for name in ("ASKED", "UNSET", "GROUP_*")]
    made.sought, made.search_path = ["nvcc"], ENVIRON["PATH"]
    made.machine = [("native", "", "this one"), (LIBRARIES, "caches:libm.so.6", "x")]
    made.cache_signatures = [signatures.of("caches")]
    return made


def answer_of_call() -> Answer:
    given = Answer(Result())
    given.products = [("out/a.o", DIGEST, True)]
    given.dependency_file, given.rule = "out/a.d", b"out/a.o : a.cu \\\n    late/a.h\n"
    given.result.stdout, given.result.stderr = b"out\0\n", b"\xff warning\n"
    given.result.seconds = 12.5
    given.sources, given.result.stages = ["a.cu"], [event_line.text_of_hit(StageEvent("cicc", "ran", 1.5))]
    return given


@pytest.fixture
def recorded(launcher: Launcher, nvcc: str) -> Launcher:
    assert launcher.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())
    return launcher


def holds(launcher: Launcher, **changed: str | None) -> bool:
    """Whether the record answers the call; if not, nothing is written."""
    made = [Path("out/a.o"), Path("out/a.d")]
    for path in made:
        path.unlink(missing_ok=True)
    found = launcher.ask(ARGUMENTS, **changed)
    assert [path.exists() for path in made] == [found.is_answer] * 2
    return found.is_answer

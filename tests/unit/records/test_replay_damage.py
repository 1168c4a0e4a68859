"""Replay records that are damaged, of another version or of somebody else: left to Python.

The launcher is compiled with the sanitizers of addresses and of undefined behaviour, which end it with a
status that fails the test.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from damage import shuffled, torn
from nvccache.files import keys
from nvccache.records import replay_layout
from nvccache.store import store
from nvccache.store.store import Store
from recorded_call import (
    ARGUMENTS,
    DIGEST,
    ENVIRON,
    OBJECT,
    answer_of_call,
    input_record_of_call,
    nvcc,
    place,
    places,
    stored,
)
from replays import Launcher, put, stand_alone, with_sum

__all__ = ["nvcc", "place", "places", "stored"]  # fixtures
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=77", "UBSAN_OPTIONS": "halt_on_error=1:exitcode=77"}
ROUNDS = 150
PRODUCTS = [name for name, _ in replay_layout.PRODUCT]
Sections = dict[str, bytearray]


@pytest.fixture
def launcher(place: Path, nvcc: str, stored: Store, workers_base: Path) -> Launcher:
    """One with sanitizers, and a valid record, next to a file that must never change."""
    (place.parent / "outside").write_text("precious")
    program = stand_alone(workers_base, *SANITIZERS)
    launcher = Launcher(program, stored.root, {**ENVIRON, **OPTIONS}, [str(program), nvcc])
    assert launcher.record(nvcc, ARGUMENTS, input_record_of_call(), answer_of_call())
    return launcher


@pytest.fixture
def record(launcher: Launcher) -> Path:
    (path,) = launcher.records()
    return path


def seen(place: Path) -> dict[str, bytes]:
    found = [place.parent / "outside", *place.rglob("*")]
    return {str(path.relative_to(place.parent)): path.read_bytes() for path in found if path.is_file()}


def is_answered(launcher: Launcher, place: Path) -> bool:
    """Whether the call is answered; if so, only its own products are written."""
    for name in ("a.o", "a.d"):
        (place / "out" / name).unlink(missing_ok=True)
    before = seen(place)
    found = launcher.ask(ARGUMENTS)
    after = seen(place)
    made = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert made == ({"work/out/a.o", "work/out/a.d"} if found.is_answer else set())
    assert not found.is_answer or (place / "out/a.o").read_bytes() == OBJECT
    return found.is_answer


def mangled(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Records with some bytes changed, more often in the header and the table after it."""
    choose = random.Random(seed)
    for _ in range(count):
        record = bytearray(whole)
        for _ in range(choose.choice((1, 1, 2, 8))):
            at = choose.randrange(choose.choice((220, len(record))))
            record[at] = choose.choice((0, 255, choose.randrange(256), record[at] ^ 1 << choose.randrange(8)))
        yield bytes(record[: choose.randrange(24, len(record))] if choose.random() < 0.1 else record)


def test_the_record_holds(launcher: Launcher, place: Path) -> None:
    assert is_answered(launcher, place)


def test_every_damage_to_the_file_is_left_to_python(launcher: Launcher, record: Path, place: Path) -> None:
    whole = record.read_bytes()
    choose = random.Random(1)
    for content in choose.sample([*torn(whole), *mangled(whole, 500, 2), *shuffled(whole, 200)], ROUNDS):
        if content != whole:
            put(record, content)
            assert not is_answered(launcher, place)
    put(record, whole)
    assert is_answered(launcher, place)


@pytest.mark.parametrize("which", ["record", "blob"])
def test_what_is_cut_off_while_it_is_read_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, nvcc: str, stored: Store, which: str
) -> None:
    """No signal ends the launcher."""
    content = OBJECT * 100_000  # which takes a while to be read
    digest = keys.digest_bytes(content)
    stored.add_blob(digest, content, compress=False)
    answer = answer_of_call()
    answer.products = [("out/a.o", digest, True)]
    assert launcher.record(nvcc, ARGUMENTS, input_record_of_call(), answer)
    path = record if which == "record" else Path(stored.path(store.BLOB, digest))
    whole, is_over = path.read_bytes(), threading.Event()

    def meddle() -> None:
        with path.open("r+b", buffering=0) as stream:
            while not is_over.is_set():
                stream.truncate(0)
                stream.seek(0)
                stream.write(whole)
                time.sleep(0.0005)

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        for _ in range(ROUNDS):
            if launcher.ask(ARGUMENTS).is_answer:
                assert (place / "out/a.o").read_bytes() == content
    finally:
        is_over.set()
        meddler.join()


@pytest.mark.parametrize("magic", [b"replay-8", b"replay-:", b"nvccache", bytes(8)])
def test_a_record_of_another_version_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, magic: bytes
) -> None:
    put(record, magic + record.read_bytes()[len(magic) :])
    assert not is_answered(launcher, place)


def test_a_record_under_another_name_is_left_to_python(launcher: Launcher, record: Path) -> None:
    arguments = [*ARGUMENTS, "-g"]
    name = launcher.ask(arguments).name
    put(record.parents[1] / name[:2] / name, record.read_bytes())
    assert not launcher.ask(arguments).is_answer


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


STRANGE = {
    "a directory": _instead(lambda path: path.mkdir()),
    "a link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "empty": _instead(lambda path: put(path, b"")),
    "a FIFO": _instead(os.mkfifo),
    "a sparse giant": lambda path: os.truncate(path, 1 << 40),
    "no tag": lambda path: (path.parents[2] / "CACHEDIR.TAG").unlink(),
    "another tag": lambda path: (path.parents[2] / "CACHEDIR.TAG").write_text("Signature: 8a"),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_record_of_ours_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, kind: str
) -> None:
    STRANGE[kind](record)
    assert not is_answered(launcher, place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("which", ["record", "cache"])
def test_what_belongs_to_others_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, which: str
) -> None:
    os.chown({"record": record, "cache": record.parents[2]}[which], 12345, -1)
    assert not is_answered(launcher, place)


def test_python_finds_the_blobs_of_a_record_and_what_is_none(record: Path) -> None:
    whole = record.read_bytes()
    assert replay_layout.blobs_in(whole) == [DIGEST]
    for content in (b"", whole[:-1], whole + b"x", b"replay-8" + whole[8:], whole[:50]):
        with pytest.raises(ValueError):
            replay_layout.blobs_in(content)


def test_only_a_record_with_the_right_sum_is_whole(record: Path) -> None:
    whole = record.read_bytes()
    assert with_sum(whole) == whole
    assert keys.sum_bytes(whole[replay_layout.SUMMED_FROM :]) == whole[8:24]

"""Damaged records: refused, or no worse than any other record; the launcher leaves them to Python.

The launcher is compiled with the sanitizers of addresses and of undefined behaviour, which end it with a
status that fails the test.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from answering import Answering
from damage import changed, shuffled, torn
from nvccache.records import input_records, record, replay_layout
from nvccache.records.record import Entry, Result
from nvccache.store.store import Store
from replays import Launcher, put, stand_alone, with_sum
from sample_entries import FRONT, add, encoded
from world import ARGUMENTS, DIGEST, ENVIRON, OBJECT, answer_of_call, everything, replayed

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=77", "UBSAN_OPTIONS": "halt_on_error=1:exitcode=77"}
ROUNDS = 150


def inputs_of(body: bytes) -> list[input_records.InputRecord]:
    return [input_records.decode(body)]


def inputs_of_pairs(body: bytes) -> list[input_records.InputRecord]:
    entries: list[Entry] = list(record._entries(record._parts(body), FRONT))
    return [entry.input_record for entry in entries]


def whole_input_record(cache: Store) -> bytes:
    return input_records.encode(everything())


def whole_record(cache: Store) -> bytes:
    add(cache, everything(), Result([("0", DIGEST), ("link/a.o", DIGEST)], b"out\xff\0", b"warning\n"))
    return encoded(cache)


@pytest.mark.parametrize(
    ("make", "read"),
    [(whole_input_record, inputs_of), (whole_record, inputs_of_pairs)],
    ids=["input record", "record"],
)
def test_damaged_records_raise_no_error_but_valueerror(place, cache, make, read) -> None:
    """Any exception but ValueError fails the test."""

    def of(body: bytes) -> list[input_records.InputRecord]:
        try:
            return read(body)
        except ValueError:
            return []

    whole = make(cache)
    assert len(of(whole)) == 1
    assert [body for body in torn(whole) if of(body)] == []
    for body in (*changed(whole), *shuffled(whole, 1000)):
        for inputs in of(body):
            list(input_records.differences(inputs, Answering()))


@pytest.fixture
def launcher(place: Path, compiler: str, stored: Store, workers_base: Path) -> Launcher:
    """One with sanitizers, and a valid record, next to a file that must never change."""
    (place.parent / "outside").write_text("precious")
    program = stand_alone(workers_base, *SANITIZERS)
    launcher = Launcher(program, stored.root, {**ENVIRON, **OPTIONS}, [str(program), compiler])
    assert launcher.record(compiler, ARGUMENTS, replayed(), answer_of_call())
    return launcher


@pytest.fixture
def replay(launcher: Launcher) -> Path:
    """The record."""
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
        body = bytearray(whole)
        for _ in range(choose.choice((1, 1, 2, 8))):
            at = choose.randrange(choose.choice((220, len(body))))
            body[at] = choose.choice((0, 255, choose.randrange(256), body[at] ^ 1 << choose.randrange(8)))
        yield bytes(body[: choose.randrange(24, len(body))] if choose.random() < 0.1 else body)


def test_a_damaged_replay_record_is_never_replayed(launcher, replay, place) -> None:
    whole = replay.read_bytes()
    assert with_sum(whole) == whole and replay_layout.blobs_in(whole) == [DIGEST]
    for content in random.Random(1).sample(
        [*torn(whole), *mangled(whole, 500, 2), *shuffled(whole, 200)], ROUNDS
    ):
        if content != whole:
            put(replay, content)
            assert not is_answered(launcher, place)
            with pytest.raises(ValueError):
                replay_layout.blobs_in(content)
    put(replay, whole)
    assert is_answered(launcher, place)


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


STRANGE = {
    "another version": lambda path: put(path, b"replay-8" + path.read_bytes()[8:]),
    "a link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "empty": _instead(lambda path: put(path, b"")),
    "a FIFO": _instead(os.mkfifo),
    "a sparse giant": lambda path: os.truncate(path, 1 << 40),
    "no tag": lambda path: (path.parents[2] / "CACHEDIR.TAG").unlink(),
    "a cache that others may write": lambda path: path.parents[2].chmod(0o757),
    "a record that others may write": lambda path: path.chmod(0o602),
    "a cache of another user": lambda path: os.chown(path.parents[2], 12345, -1),
    "a record of another user": lambda path: os.chown(path, 12345, -1),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_replay_records_of_other_users_or_forms_are_left_to_python(launcher, replay, place, kind) -> None:
    if "another user" in kind and os.geteuid() != 0:
        pytest.skip("only root may give files away")
    STRANGE[kind](replay)
    assert not is_answered(launcher, place)


def test_a_replay_record_of_another_call_under_this_calls_name_is_not_replayed(launcher, replay) -> None:
    """Two calls of one name would have one sum: the record holds the call itself."""
    arguments = [*ARGUMENTS, "-g"]
    name = launcher.ask(arguments).name
    put(replay.parents[1] / name[:2] / name, replay.read_bytes())
    assert not launcher.ask(arguments).is_answer

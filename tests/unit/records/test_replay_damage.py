"""Replay records that are damaged, of another version, or written by an attacker: left to Python.

The launcher is compiled with the sanitizers of addresses and of undefined behaviour, which end it with a
status that fails the test.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from damage import shuffled, torn
from nvccache.files import keys, signatures
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
from replays import Launcher, add_string, edited, put, stand_alone, with_sum

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


def check_mangled(launcher: Launcher, record: Path, place: Path, count: int, seed: int) -> None:
    whole = record.read_bytes()
    records = [*mangled(whole, count, seed), *shuffled(whole, count // 10, seed)]
    for content in records:
        put(record, with_sum(content))
        is_answered(launcher, place)


def test_no_mangled_record_has_a_file_written_that_is_not_the_calls(
    launcher: Launcher, record: Path, place: Path
) -> None:
    check_mangled(launcher, record, place, ROUNDS, 3)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10, 20))
def test_no_mangled_record_of_many(launcher: Launcher, record: Path, place: Path, seed: int) -> None:
    check_mangled(launcher, record, place, 10 * ROUNDS, seed)


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


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_record_that_others_may_touch_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, mode: int
) -> None:
    record.chmod(mode)
    assert not is_answered(launcher, place)


def _second_name(path: Path) -> None:
    os.link(path, path.with_name("0" * 32))


def _linked_folder(path: Path) -> None:
    path.parent.rename(path.parents[1] / "elsewhere")
    path.parent.symlink_to("elsewhere")


def _linked_bucket(path: Path) -> None:
    path.parents[1].rename(path.parents[2] / "elsewhere")
    path.parents[1].symlink_to("elsewhere")


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


STRANGE = {
    "a directory": _instead(lambda path: path.mkdir()),
    "a link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "a link to a record": lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")),
    "empty": _instead(lambda path: put(path, b"")),
    "a FIFO": _instead(os.mkfifo),
    "a sparse giant": lambda path: os.truncate(path, 1 << 40),
    "a second name": _second_name,
    "a folder that is a link": _linked_folder,
    "a bucket that is a link": _linked_bucket,
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
@pytest.mark.parametrize("which", ["record", "bucket", "cache"])
def test_what_belongs_to_others_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, which: str
) -> None:
    os.chown({"record": record, "bucket": record.parents[1], "cache": record.parents[2]}[which], 12345, -1)
    assert not is_answered(launcher, place)


def patched(index: int, name: str, value: int | bytes) -> Callable[[dict[str, int], Sections], None]:
    """A product with another value in a field; for text, its position."""

    def change(_: dict[str, int], sections: Sections) -> None:
        product = replay_layout.FORMATS["product"]
        values = list(product.unpack_from(sections["products"], index * product.size))
        number = add_string(sections, value) if isinstance(value, bytes) else value
        values[PRODUCTS.index(name)] = number
        product.pack_into(sections["products"], index * product.size, *values)

    return change


ELSEWHERE = (
    *("/etc/passwd", "/x", "../x", "../../x", "../.x", "/home/other/.bashrc", "sub/x", ".", "..", "", "/"),
    *("//x", "../outside", "/tmp/a.o/../../etc/passwd", "a.cu", "late/a.h", "Makefile", ".envrc"),
    *("out/a.ptx", "./out/a.o", "out/a.o.o", "out/./a.o", "out//a.o", "out/keep"),
)


@pytest.mark.parametrize("index", [0, 1])
def test_a_record_that_names_a_file_which_the_call_does_not_make_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, index: int
) -> None:
    whole = record.read_bytes()
    for destination in ELSEWHERE:
        put(record, edited(whole, patched(index, "path", destination.encode())))
        assert not is_answered(launcher, place), destination


@pytest.mark.parametrize(
    "digest",
    [
        *(b"../../outside", b"../" * 10 + b"xx", b"/" * 64, b"." * 64, b"0" * 63, b"0" * 65, b""),
        *(b"0" * 63 + b"/", b"%s" % DIGEST.upper().encode(), b"0" * 64),
    ],
)
def test_a_blob_never_lies_outside_of_the_cache(
    launcher: Launcher, record: Path, place: Path, digest: bytes
) -> None:
    put(record, edited(record.read_bytes(), patched(1, "blob", digest)))
    assert not is_answered(launcher, place)


def _twice(_: dict[str, int], sections: Sections) -> None:
    sections["products"] += sections["products"][-replay_layout.size_of("product") :]


def _none(_: dict[str, int], sections: Sections) -> None:
    sections["products"].clear()


def _no_rule(head: dict[str, int], _: Sections) -> None:
    head["rule"] = 0


def _only_rule(_: dict[str, int], sections: Sections) -> None:
    del sections["products"][replay_layout.size_of("product") :]


def _without_sum(_: dict[str, int], sections: Sections) -> None:
    at = replay_layout.size_of("product")
    sections["products"][at : at + replay_layout.SUM] = bytes(replay_layout.SUM)


SENSELESS = {
    "the product twice": _twice,
    "no product": _none,
    "no dependency file": _no_rule,
    "only a dependency file": _only_rule,
    "a product that is a text": patched(1, "blob", 0),
    "a dependency file that is a blob": patched(0, "blob", DIGEST.encode()),
    "an endless rule": patched(0, "size", 1 << 63),
    "a rule that is too long": patched(0, "size", 1 << 20),
    "a rule from elsewhere": patched(0, "content", (1 << 32) - 1),
    "an endless product": patched(1, "size", (1 << 64) - 1),
    "a product that is longer": patched(1, "size", len(OBJECT) + 1),
    "another sum": _without_sum,
    "words of nvcc's that are not": lambda head, _: head.update(first=2),
    "an endless output": lambda head, _: head.update(output_size=(1 << 32) - 1),
    "messages from elsewhere": lambda head, _: head.update(messages=(1 << 32) - 1),
    "a journal elsewhere": lambda head, _: head.update(journal=(1 << 32) - 1),
    "a start from elsewhere": lambda head, _: head.update(boot=(1 << 32) - 1),
}


@pytest.mark.parametrize("kind", SENSELESS)
def test_a_record_that_makes_no_sense_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, kind: str
) -> None:
    put(record, edited(record.read_bytes(), SENSELESS[kind]))
    assert not is_answered(launcher, place)


@pytest.mark.parametrize("name", ["a.o", "a.d"])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_what_was_read_is_not_written(
    launcher: Launcher, record: Path, place: Path, name: str, is_absolute: bool
) -> None:
    """Whatever the command line says: the input is unchanged."""
    path = place / "out" / name
    path.write_text("precious")

    def change(_: dict[str, int], sections: Sections) -> None:
        directory = add_string(sections, bytes(path.parent) if is_absolute else b"out")
        number = len(sections["directories"]) // 4
        sections["directories"] += struct.pack("=I", directory)
        signature = signatures.of(str(path)) or signatures.UNKNOWN
        at = add_string(sections, name.encode())
        sections["files"] += replay_layout.FORMATS["file"].pack(*signature, at, number)

    put(record, edited(record.read_bytes(), change))
    assert not launcher.ask(ARGUMENTS).is_answer
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    "rule",
    [
        *(b"out/a.o : a.cu\n\techo\n", b"out/a.o : a.cu ; echo\n", b"X = 1\n", b"$(shell echo) : a.cu\n"),
        *(b"include x : y\n", b"include : y\n", b"-include x\n", b"out/a.o\n", b"export : a\n", b": a\n"),
        *(b"a b : c\n", b"out/a.o : a.cu\0\n", b"out/a.o : a.cu \\\r\n", b"define : x\nx\nendef : y\n"),
    ],
)
def test_a_rule_that_has_make_do_something_is_left_to_python(
    launcher: Launcher, record: Path, place: Path, rule: bytes
) -> None:
    def change(head: dict[str, int], sections: Sections) -> None:
        patched(0, "content", rule)(head, sections)
        patched(0, "size", len(rule))(head, sections)

    put(record, edited(record.read_bytes(), change))
    assert not is_answered(launcher, place)


@pytest.mark.parametrize("rule", [b"out/a.o : a.cu \\\n  b\\ c.h\n", b"\n \na\\ b : c\nincludes : y", b""])
def test_a_plain_rule_is_given(launcher: Launcher, record: Path, place: Path, rule: bytes) -> None:
    def change(head: dict[str, int], sections: Sections) -> None:
        patched(0, "content", rule)(head, sections)
        patched(0, "size", len(rule))(head, sections)

    put(record, edited(record.read_bytes(), change))
    assert is_answered(launcher, place)
    assert (place / "out/a.d").read_bytes() == rule


@pytest.mark.parametrize("section", replay_layout.SECTIONS)
def test_no_section_leads_out_of_the_record(
    launcher: Launcher, record: Path, place: Path, section: str
) -> None:
    """Neither by its start nor by its length."""
    whole = record.read_bytes()
    at = replay_layout.FORMATS["head"].size + 8 * list(replay_layout.SECTIONS).index(section)
    numbers = (0, 1, 3, 7, 8, 1 << 20, (1 << 31) - 1, (1 << 32) - 1)
    for number, offset in itertools.product(numbers, (at, at + 4)):
        put(record, with_sum(whole[:offset] + struct.pack("=I", number) + whole[offset + 4 :]))
        is_answered(launcher, place)


def test_python_finds_the_blobs_of_a_record_and_what_is_none(record: Path) -> None:
    whole = record.read_bytes()
    assert replay_layout.blobs_in(whole) == [DIGEST]
    for content in (b"", whole[:-1], whole + b"x", b"replay-8" + whole[8:], whole[:50]):
        with pytest.raises(ValueError):
            replay_layout.blobs_in(content)
    for content in (*mangled(whole, 300, 5), *shuffled(whole, 100)):
        try:
            replay_layout.blobs_in(with_sum(content))
        except ValueError:
            continue


def test_only_a_record_with_the_right_sum_is_whole(record: Path) -> None:
    whole = record.read_bytes()
    assert with_sum(whole) == whole
    assert keys.sum_bytes(whole[replay_layout.SUMMED_FROM :]) == whole[8:24]

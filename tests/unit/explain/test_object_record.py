"""Object records: writing and reading, their size, and which are refused."""

from __future__ import annotations

import os

import pytest

from nvccache import outcomes
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord, StageKeys
from nvccache.store import store
from nvccache.store.store import Store

PRODUCT = "/project/a.o"
COMPONENTS = [("arguments", [("-O2", ""), ("-DN=…", "0" * 64)]), ("files", [])]


@pytest.fixture
def cache(tmp_path) -> Store:
    return Store(str(tmp_path / "cache"))


def made() -> ObjectRecord:
    return ObjectRecord(
        cause="`\udcff` changed",
        outcome="miss",
        digest_key="ab" * 16,
        record_name="c" * 64,
        scope="placed",
        details=["`a.h` is gone"],
        components=[*COMPONENTS, ("nvcc", [("nvcc", "")])],
        stages=[StageKeys("ptxas for sm_80", "d" * 64, COMPONENTS), StageKeys("fatbinary", "", [])],
        stage_reasons=[("ptxas for sm_80", "`a.h` changed")],
    )


def test_a_record_comes_back_under_each_of_its_objects(cache):
    object_record.add([PRODUCT, "/project/x/../b.o"], made(), cache)
    for product in ("/project/./a.o", "/project/b.o"):
        assert object_record.find(product, cache) == made()
    assert object_record.find("/project/c.o", cache) is None


def compiled(cache: Store, command: str, record_name: str = "", outcome: str = "miss") -> None:
    record = made()
    record.command, record.record_name, record.outcome = command, record_name, outcome
    object_record.add([PRODUCT], record, cache)


def bases(cache: Store) -> list[str]:
    return [found.command + found.record_name for found in object_record.bases(PRODUCT, cache)]


def test_the_last_compiles_are_kept_newest_first(cache):
    for number in range(9):
        compiled(cache, "line ", str(number))
    assert bases(cache) == [f"line {number}" for number in (8, 7, 6, 5, 4, 3, 2)]


def test_of_compiles_that_can_stand_for_each_other_the_last_is_kept(cache):
    for command, inputs in (("one ", "x"), ("two ", "x"), ("one ", "y"), ("two ", "x"), ("one ", "x")):
        compiled(cache, command, inputs)
    assert bases(cache) == ["one x", "two x", "one y"]


def test_the_last_compile_of_a_command_line_is_kept_beside_many_of_others(cache):
    compiled(cache, "one", "x")
    for number in range(30):
        compiled(cache, f"line {number}", "x")
    assert [found.command for found in object_record.bases(PRODUCT, cache, "one")] == ["one"]
    assert len(list(object_record.bases(PRODUCT, cache, "none"))) == 7


def test_a_failed_compile_is_kept_until_the_next(cache):
    compiled(cache, "broken", outcome=outcomes.FAILED)
    assert bases(cache) == ["broken"]
    compiled(cache, "one ", "x")
    compiled(cache, "broken", outcome=outcomes.FAILED)
    assert object_record.find(PRODUCT, cache).command == "broken"
    assert bases(cache) == ["one x"]
    compiled(cache, "two ", "x")
    assert bases(cache) == ["two x", "one x"]


def test_each_record_can_be_found_by_its_object(cache):
    compiled(cache, "one", "x")
    compiled(cache, "two", "x")
    for found in object_record.bases(PRODUCT, cache):
        keys_of = object_record.keys_of(PRODUCT, found)
        assert any(cache.find_record(store.OBJECT, key) == object_record._encode(found) for key in keys_of)


def test_a_source_is_found_by_its_place_and_by_its_content(cache):
    def made_of(source: str, checkout: str, digest: str, product: str) -> None:
        record = ObjectRecord(source=source, checkout=checkout, source_digest=digest)
        object_record.note_of_source(record, product, cache)

    made_of("/one/src/a.cu", "/one", "1", "/one/a.o")
    made_of("/two/a.cu", "/two", "2", "/two/a.o")
    for source, digest, products in (
        ("/three/src/a.cu", "3", ["/one/a.o"]),
        ("/three/b.cu", "1", ["/one/a.o"]),
        ("/three/a.cu", "1", ["/two/a.o", "/one/a.o"]),
        ("/three/b.cu", "", []),
    ):
        place = object_record.below("/three", source)
        assert object_record.made_from(place, digest, cache) == products


def test_what_stands_for_a_hidden_value_can_be_kept_in_every_locale(cache, monkeypatch):
    monkeypatch.setattr(os, "fsencode", lambda name: os.fspath(name).encode("latin-1"))
    monkeypatch.setattr(os, "fsdecode", lambda name: name.decode("latin-1"))
    object_record.add([PRODUCT], made(), cache)
    assert object_record.find(PRODUCT, cache).components == made().components


def test_it_can_only_be_read_by_its_owner(cache):
    object_record.add([PRODUCT], made(), cache)
    path = cache.path(store.OBJECT, object_record.key_of(PRODUCT))
    assert os.stat(path).st_mode & 0o077 == 0


def test_it_does_not_grow_with_the_length_of_a_command_or_the_number_of_stages(cache):
    record = made()
    long = ("arguments", [(f"-I/include/{number}", "") for number in range(10_000)])
    record.stages = [StageKeys(f"cicc for compute_80 ({number})", "", [long]) for number in range(500)]
    object_record.add([PRODUCT], record, cache)
    assert len(cache.find_record(store.OBJECT, object_record.key_of(PRODUCT))) < 20_000
    record.stages = [StageKeys("ptxas", "", [("arguments", [("-I" + "x" * 20_000, "")])])]
    object_record.add(["/project/b.o"], record, cache)
    assert len(cache.find_record(store.OBJECT, object_record.key_of("/project/b.o"))) < 1000
    (first, *_), other = object_record.find(PRODUCT, cache).stages, made()
    other.stages = [StageKeys("x", "", [("arguments", long[1][1:])])]
    object_record.add([PRODUCT], other, cache)
    assert first.components != object_record.find(PRODUCT, cache).stages[0].components


def test_digests_differ_with_the_text_and_with_the_key():
    texts = {object_record.digest(key, text) for key in ("a", "b") for text in ("x", "y", "\udcff")}
    assert len(texts) == 6
    assert object_record.digest("a", "x") == object_record.digest("a", "x")


@pytest.mark.parametrize(
    ("field", "rows"),
    [
        ("texts", [b"x"]),
        ("texts", []),
        ("texts", [b"2", b"first", b"miss", b""]),
        ("details", []),
        ("details", [b"x", b""]),
        ("components", [b"1", b"", b""]),
        ("components", [b"3", b"", b"tag", b""]),
        ("components", [b"4", b"", b"arguments", b"-O2", b""]),
        ("components", [b"5", b"", b"arguments", b"-O2", b"", b""]),
        ("components", [b"3", b"", b"arguments", b"-O2", b""]),
        ("components", [b"x", b"", b"arguments", b""]),
        ("components", [b"9999999999", b"", b"arguments", b""]),
        ("components", [b"-2", b"", b"arguments", b""]),
        ("components", ["²".encode(), b"", b"arguments", b""]),
        ("stages", [b"1", b"x", b""]),
        ("stage_reasons", [b"1", b"x", b""]),
    ],
)
def test_what_makes_no_sense_is_refused_and_removed(cache, field, rows):
    object_record.add([PRODUCT], made(), cache)
    key = object_record.key_of(PRODUCT)
    fields = object_record._RECORD.sections_of(cache.find_record(store.OBJECT, key))
    forged = object_record._RECORD.joined(fields | {field: b"\0".join(rows)})
    cache.add_record(store.OBJECT, key, forged, lock=False)
    assert object_record.find(PRODUCT, cache) is None
    assert not os.path.exists(cache.path(store.OBJECT, key))

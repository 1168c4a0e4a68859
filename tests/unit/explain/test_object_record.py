"""Object records: writing and reading, their size, and which are refused."""

from __future__ import annotations

import os

import pytest

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

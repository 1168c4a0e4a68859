"""Restoring an answer: all files that nvcc would have written, or none."""

from __future__ import annotations

import itertools
import os

import pytest

from nvccache.files import keys
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.records.products import LOST, RESTORED, UNWRITABLE, Answer, restore
from nvccache.records.record import Result
from nvccache.store import store
from nvccache.store.store import Store

OBJECT, PTX = b"\x7fELF object", b"// ptx\n"
RULE = b"a.o : a.cu\n"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Store:
    """A store with two products; the working directory is empty."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    cache = Store(str(tmp_path / "cache"))
    cache.add_blob(keys.digest_bytes(OBJECT), OBJECT, compress=False)
    cache.add_blob(keys.digest_bytes(PTX), PTX, compress=True)
    return cache


def answer(*products: tuple[str, bytes, bool], dependency_file: str = "") -> Answer:
    made = Answer(Result())
    made.products = [(path, keys.digest_bytes(content), first) for path, content, first in products]
    made.dependency_file, made.rule = dependency_file, RULE if dependency_file else None
    return made


def read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def test_products_and_dependency_file_are_written(cache):
    assert (
        restore(answer(("a.o", OBJECT, True), ("a.ptx", PTX, False), dependency_file="a.d"), cache)
        == RESTORED
    )
    assert {name: read(name) for name in os.listdir()} == {"a.o": OBJECT, "a.ptx": PTX, "a.d": RULE}


def test_an_answer_of_diagnostics_alone_writes_nothing(cache):
    assert restore(answer(), cache) == RESTORED
    assert os.listdir() == []


def test_the_umask_decides_who_may_read_a_product(cache):
    before = os.umask(0o027)
    try:
        restore(answer(("a.o", OBJECT, True), dependency_file="a.d"), cache)
    finally:
        os.umask(before)
    assert [os.stat(name).st_mode & 0o777 for name in ("a.o", "a.d")] == [0o640, 0o640]


def test_existing_files_are_overwritten_or_replaced_as_the_tools_do(cache):
    for name in ("a.o", "a.ptx", "a.d"):
        with open(name, "wb") as stream:
            stream.write(b"x" * 100)
        os.link(name, name + ".link")
    restore(answer(("a.o", OBJECT, True), ("a.ptx", PTX, False), dependency_file="a.d"), cache)
    assert (read("a.o"), read("a.ptx"), read("a.d")) == (OBJECT, PTX, RULE)
    assert read("a.o.link") == b"x" * 100
    assert (read("a.ptx.link"), read("a.d.link")) == (PTX, RULE)


@pytest.mark.parametrize("damage", ["gone", "torn", "changed", "empty"])
@pytest.mark.parametrize("content", [OBJECT, PTX])
def test_a_product_that_the_store_has_lost_leaves_everything_as_it_was(cache, content, damage):
    path = cache.path(store.BLOB, keys.digest_bytes(content))
    path = path if os.path.exists(path) else path + ".zst"
    whole = read(path)
    if damage == "gone":
        os.unlink(path)
    else:
        with open(path, "wb") as stream:
            stream.write({"torn": whole[:-1], "changed": whole[:-1] + b"\0", "empty": b""}[damage])
    with open("a.o", "wb") as stream:
        stream.write(b"old")
    given = answer(("a.o", OBJECT, True), ("a.ptx", PTX, False), dependency_file="a.d")
    assert restore(given, cache) == LOST
    assert os.listdir() == ["a.o"]
    assert read("a.o") == b"old"
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("path", "is_dependency_file"),
    [
        *itertools.product(["missing/a.o", "taken", "file/a.o", "nul\0", "x" * 300], [False, True]),
        ("", True),
    ],
)
def test_where_nothing_can_be_written_nvcc_is_left_to_say_why(cache, path, is_dependency_file):
    os.mkdir("taken")
    with open("file", "wb"):
        pass
    given = answer(dependency_file="a.d") if is_dependency_file else answer((path, OBJECT, False))
    given.dependency_file = path if is_dependency_file else ""
    assert restore(given, cache) == UNWRITABLE


def test_what_a_query_says_is_given_as_text(cache):
    given = answer((STANDARD_OUTPUT, OBJECT, False))
    before = os.listdir(".")
    assert restore(given, cache) == RESTORED
    assert given.result.stdout == OBJECT
    assert os.listdir(".") == before


def test_where_a_product_cannot_be_written_no_other_is_given(cache):
    """nvcc then runs and writes what it can."""
    assert restore(answer(("missing/a.o", OBJECT, True), dependency_file="a.d"), cache) == UNWRITABLE
    assert os.listdir() == []


def test_a_product_can_be_written_through_a_link(cache):
    os.symlink("target", "a.o")
    assert restore(answer(("a.o", OBJECT, True)), cache) == RESTORED
    assert os.path.islink("a.o")
    assert read("target") == OBJECT


def test_a_product_is_no_link_into_the_cache(cache):
    restore(answer(("a.o", OBJECT, True)), cache)
    with open("a.o", "ab") as stream:
        stream.write(b"more")
    assert cache.read_blob(keys.digest_bytes(OBJECT)) == OBJECT


def test_a_product_that_was_just_given_counts_as_used(cache):
    path = cache.path(store.BLOB, keys.digest_bytes(OBJECT))
    os.utime(path, (1, 1))
    restore(answer(("a.o", OBJECT, True)), cache)
    assert os.stat(path).st_mtime > 1

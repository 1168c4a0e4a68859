"""Restoring an answer: all files that nvcc would have written, or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.records.products import LOST, RESTORED, UNWRITABLE, Answer, restore
from nvccache.records.record import Result
from nvccache.store import store
from nvccache.store.store import Store

OBJECT, PTX = b"\x7fELF object", b"// ptx\n"
RULE = b"a.o : a.cu\n"
BOTH = (("a.o", OBJECT, True), ("a.ptx", PTX, False))


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


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


def test_products_and_dependency_file_are_written(cache):
    path = cache.path(store.BLOB, keys.digest_bytes(OBJECT))
    os.utime(path, (1, 1))
    assert restore(answer(*BOTH, dependency_file="a.d"), cache) == RESTORED
    assert files() == {"a.o": OBJECT, "a.ptx": PTX, "a.d": RULE}
    assert os.stat(path).st_mtime > 1, "it counts as used"
    with open("a.o", "ab") as stream:
        stream.write(b"more")
    assert cache.read_blob(keys.digest_bytes(OBJECT)) == OBJECT, "it is no link into the cache"


def test_an_answer_of_diagnostics_alone_writes_nothing(cache):
    assert restore(answer(), cache) == RESTORED
    assert files() == {}


def test_existing_files_are_overwritten_or_replaced_as_the_tools_do(cache):
    for name in ("a.o", "a.ptx", "a.d"):
        Path(name).write_bytes(b"x" * 100)
        os.link(name, name + ".link")
    assert restore(answer(*BOTH, dependency_file="a.d"), cache) == RESTORED
    assert {name: content for name, content in files().items() if name.endswith(".link")} == {
        "a.o.link": b"x" * 100, "a.ptx.link": PTX, "a.d.link": RULE,
    }  # fmt: skip


@pytest.mark.parametrize("damage", [None, lambda whole: whole[:-1], lambda whole: whole[:-1] + b"\0"])
@pytest.mark.parametrize("content", [OBJECT, PTX])
def test_a_product_that_the_store_has_lost_leaves_everything_as_it_was(cache, content, damage):
    path = Path(cache.path(store.BLOB, keys.digest_bytes(content)))
    path = path if path.exists() else path.with_name(path.name + ".zst")
    if damage:
        path.write_bytes(damage(path.read_bytes()))
    else:
        path.unlink()
    Path("a.o").write_bytes(b"old")
    assert restore(answer(*BOTH, dependency_file="a.d"), cache) == LOST
    assert files() == {"a.o": b"old"}
    assert not path.exists()


@pytest.mark.parametrize("is_dependency_file", [False, True])
@pytest.mark.parametrize("path", ["missing/a.o", "taken", "file/a.o", "nul\0", "x" * 300])
def test_where_one_file_cannot_be_written_nvcc_is_left_to_say_why(cache, path, is_dependency_file):
    """No other is given: nvcc writes what it can."""
    os.mkdir("taken")
    Path("file").touch()
    before = sorted(os.listdir())
    given = answer(("a.o" if is_dependency_file else path, OBJECT, True), dependency_file="a.d")
    given.dependency_file = path if is_dependency_file else "a.d"
    assert restore(given, cache) == UNWRITABLE
    assert sorted(os.listdir()) == before


def test_what_a_query_says_is_given_as_text(cache):
    given = answer((STANDARD_OUTPUT, OBJECT, False))
    assert restore(given, cache) == RESTORED
    assert given.result.stdout == OBJECT
    assert files() == {}

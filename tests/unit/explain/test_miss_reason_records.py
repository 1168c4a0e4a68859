"""Object records: writing and reading, who can read them, and what is refused."""

from __future__ import annotations

import os

import pytest

from nvccache.explain import miss_reason
from nvccache.explain.miss_reason import ObjectRecord
from nvccache.store import store

PRODUCT = "/project/a.o"
COMPONENTS = [("argument", [("-O2", ""), ("-DN=…", "0" * 64)]), ("nvcc", [("nvcc", "")])]


def made() -> ObjectRecord:
    return ObjectRecord(
        digest_key="ab" * 16,
        record_name="c" * 64,
        scope="placed",
        reason_against_record="`\udcff` uses `__TIME__`",
        components=COMPONENTS,
    )


def test_an_object_record_is_found_under_the_path_of_each_of_its_objects(cache):
    miss_reason.add_record([PRODUCT, "/project/x/../b.o"], made(), cache)
    for product in ("/project/./a.o", "/project/b.o"):
        assert miss_reason.find_record(product, cache) == made()
    assert miss_reason.find_record("/project/c.o", cache) is None


def test_an_object_record_is_readable_only_by_its_owner(cache):
    miss_reason.add_record([PRODUCT], made(), cache)
    path = cache.path(store.OBJECT, miss_reason.key_of_object(PRODUCT))
    assert os.stat(path).st_mode & 0o077 == 0


def hidden(text: str, digest_key: str = "key") -> str:
    """The digest that is stored of the value of a macro."""
    ((_, [(shown, digest)]),) = miss_reason.stored_form([("argument", (f"-DX={text}",))], digest_key)
    assert shown == "-DX=…"
    return digest


def test_hidden_values_have_digests_that_depend_on_value_and_object():
    assert len({hidden(text, key) for key in ("a", "b") for text in ("x", "y", "\udcff")}) == 6
    assert hidden("x") == hidden("x")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"1", b'["", "", "", "", [1]]'])
def test_a_malformed_object_record_is_ignored(cache, body):
    cache.add_record(store.OBJECT, miss_reason.key_of_object(PRODUCT), body)
    assert miss_reason.find_record(PRODUCT, cache) is None

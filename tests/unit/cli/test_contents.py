"""What can be read from entries of a cache."""

from __future__ import annotations

import os

import pytest

from nvccache.cli import contents
from nvccache.cli.settings import untouched
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.store import store
from nvccache.store.store import Store


@pytest.mark.parametrize(
    ("words", "product", "paths"),
    [
        (["-c", "src/a.cu", "-o out/x.o"], "out/x.o", ["/b/out/x.o", "/b/src/a.cu"]),
        (["-c", "a.cu", "--output-file=x.o"], "x.o", ["/b/x.o", "/b/a.cu"]),
        (["-c", "/s/a.cu"], "a.o", ["/b/a.o", "/s/a.cu"]),
        (["-ptx", "../a.cu"], "a.ptx", ["/b/a.ptx", "/a.cu"]),
        (["a.cu", "b.o"], "a.out", ["/b/a.out", "/b/a.cu", "/b/b.o"]),
        (["-c", "a.cu", "-odir elsewhere"], "elsewhere/a.o", ["/b/a.cu"]),
        ([""], "a.o", []),
    ],
)
def test_the_paths_of_a_compile_follow_from_its_command_line(words, product, paths):
    components = [("arguments", [(word, "") for word in words]), ("directory", [("/b", "")])]
    record = ObjectRecord(components=components)
    assert contents.paths_of(record, object_record.key_of(f"/b/{product}")) == paths


def test_records_that_others_have_put_there_are_not_looked_at(cache_dir):
    """In a directory shared by a group, they could name anything."""
    if os.geteuid() != 0:
        pytest.skip("a file of another user can be made only by root")
    record = ObjectRecord(components=[("nvcc", [("/tmp/anything", "")])])
    cache = Store(cache_dir)
    object_record.add(["/b/mine.o", "/b/theirs.o"], record, cache)
    os.chmod(cache_dir, 0o777)
    theirs = cache.path(store.OBJECT, object_record.key_of("/b/theirs.o"))
    os.chmod(theirs, 0o644)
    os.chown(theirs, 54321, 54321)
    found = contents.read(untouched(cache_dir), lambda done, total: None)
    assert list(found.objects) == [object_record.key_of("/b/mine.o")]
    assert found.of_others == 1

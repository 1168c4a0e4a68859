"""`nvccache clean --matching`: which objects and sources a pattern names."""

from __future__ import annotations

import pytest

from nvccache.cli import clean
from nvccache.explain import miss_reason
from nvccache.store import event_line, store
from nvccache.store.store import COMPRESSED, Store
from sample_events import event


@pytest.mark.parametrize(
    ("path", "glob", "is_match"),
    [
        ("HERE/src/conv.cu", "conv*.cu", True), ("HERE/src/conv.cu", "src*", False),
        ("HERE/src/conv.cu", "src/*.cu", True), ("HERE/src/conv.cu", "HERE/*/conv.cu", True),
        ("HERE/src/conv.cu", "*/CONV.cu", False), ("/src/conv.cu", "src/conv.cu", False),
    ],
)  # fmt: skip
def test_a_pattern_matches_base_names_or_with_a_slash_whole_paths(
    tmp_path, monkeypatch, path, glob, is_match
):
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert clean._matches(path.replace("HERE", here), glob.replace("HERE", here)) == is_match


def test_a_matching_call_names_the_record_of_its_object_even_if_no_other_is_left(cache_dir):
    call = event("miss", product="/b/a.o", sources=["s/../x.cu"], directory="/b")
    event_line.append(cache_dir, call)
    event_line.append(cache_dir, event("bypass", sources=["x.cu"], directory="/c"))
    cache = Store(cache_dir)
    name = cache.name(store.OBJECT, miss_reason.key_of_object("/b/a.o"))
    for glob in ("a.*", "x.cu", "/b/*.cu"):
        assert clean._names_of(glob, cache) == {name, name + COMPRESSED}
    assert clean._names_of("b.o", cache) == set()

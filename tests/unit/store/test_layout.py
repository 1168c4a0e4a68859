"""The layout of the cache matches its documentation."""

from __future__ import annotations

import re
from pathlib import Path

from nvccache.files import keys
from nvccache.store import eviction, store
from nvccache.store.event_line import FOLDER, LOG, OLD_LOG

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cache-layout.md"
DRAWN = re.compile(r"^      ([\w-]+-v\d+)/ab/", re.MULTILINE)


def test_the_documented_cache_layout_names_the_current_buckets_and_the_log():
    assert set(DRAWN.findall(PAGE.read_text())) == set(store.BUCKETS)
    assert set(DRAWN.findall(store.__doc__ or "")) == set(store.BUCKETS)
    assert f"{FOLDER}/{LOG}" in PAGE.read_text()
    assert f"{FOLDER}/{OLD_LOG}" in PAGE.read_text()


def test_only_names_that_nvccache_gives_match_files_it_may_remove():
    names = ("manifest-v5", "replay-v1", *store.BUCKETS, "reading", "-v1", "Src-v1", "v1", "blob-v1.bak")
    assert [name for name in names if re.fullmatch(eviction.BUCKET, name)] == [*names[:-5]]
    assert all(re.fullmatch(eviction.ENTRY, "0123456789abcdef" * count) for count in (2, keys.LENGTH // 16))
    for name in ("0" * 31, "0" * 33, "0" * 63, "0" * 65, "0" * 96, "A" * 64, "g" * 64):
        assert not re.fullmatch(eviction.ENTRY, name)

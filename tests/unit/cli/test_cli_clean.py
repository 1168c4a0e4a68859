from __future__ import annotations

import os

import pytest

from nvccache.store import event_line, event_totals, eviction, store
from nvccache.store.event_line import Event
from unprivileged import read_only


@pytest.fixture
def filled_cache(cache_dir):
    """A cache with four blobs of 1000 bytes, used one, two, three and four hours ago."""
    filled = store.Store(cache_dir)
    for hours in (1, 2, 3, 4):
        digest = f"{hours}{hours}" * 32
        filled.add_blob(digest, b"x" * 1000, compress=False)
        path = filled.path(store.BLOB, digest)
        used = os.stat(path).st_mtime - hours * 3600
        os.utime(path, (used, used))
    return cache_dir


def test_all_removes_every_entry_and_keeps_the_counts(nvccache, filled_cache):
    event_line.append(filled_cache, Event("miss"))
    result = nvccache("clean", "--all")
    assert result.output == "removed 4 files, 3.9 KiB\n"
    assert eviction.usage(filled_cache).files == 0
    assert event_totals.read(filled_cache)["calls"]["miss"] == 1


def test_max_size_removes_what_was_used_least_recently(nvccache, filled_cache):
    assert nvccache("clean", "--max-size", "2500B").output == "removed 2 files, 2.0 KiB\n"
    assert os.path.exists(store.Store(filled_cache).path(store.BLOB, "11" * 32))
    assert not os.path.exists(store.Store(filled_cache).path(store.BLOB, "33" * 32))


@pytest.mark.parametrize(("age", "removed"), [("150m", 2), ("3w", 0), ("30s", 4), ("1d", 0), ("2h", 3)])
def test_older_than_removes_what_was_not_used_for_so_long(nvccache, filled_cache, age, removed):
    assert nvccache("clean", "--older-than", age).output.startswith(f"removed {removed} file")


@pytest.mark.parametrize(
    ("arguments", "limit", "output"),
    [
        ([], "", "removed 0 files, 0 bytes\n"),
        ([], "0", "removed 0 files, 0 bytes\n"),
        ([], "1100B", "removed 3 files, 2.9 KiB\n"),
        (["--max-size", "2500B"], "ten", "removed 2 files, 2.0 KiB\n"),
    ],
)
def test_without_an_option_the_limit_that_is_set_is_enforced(
    nvccache, filled_cache, arguments, limit, output
):
    assert nvccache("clean", *arguments, NVCCACHE_MAX_SIZE=limit).stdout == output


UNITS = "has no unit: `K`, `M`, `G`, `T`, or `B` for bytes"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--max-size", "much"], "is not a size"), (["--max-size", "5"], f"`5` {UNITS}"),
        (["--max-size", "1048576"], UNITS), (["--max-size", "0"], "`--all`"),
        (["--max-size", "0G"], "`--all`"), (["--older-than", "30"], "is not an age"),
        (["--older-than", "d"], "is not an age"), (["--older-than", "1y"], "is not an age"),
        (["--all", "--max-size", "1G"], "can be combined"),
        (["--all", "--older-than", "0s"], "can be combined"),
    ],
)  # fmt: skip
def test_options_that_are_refused(nvccache, filled_cache, arguments, sentence):
    result = nvccache("clean", *arguments)
    assert (result.exit_code, sentence in result.output) == (2, True), result.output
    assert eviction.usage(filled_cache).files == 4


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], {"NVCCACHE_MAX_SIZE": "ten"}),
        (["--all"], {"NVCCACHE_DIR": "~nobody-of-that-name/cache"}),
        (["--older-than", "1s"], {"NVCCACHE_DIR": "~nobody-of-that-name/cache"}),
    ],
)
def test_nothing_is_removed_that_a_default_would_choose(
    nvccache, filled_cache, monkeypatch, arguments, wrong
):
    """The default of `dir` is this cache, here."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.dirname(filled_cache))
    os.rename(filled_cache, os.path.join(os.path.dirname(filled_cache), "nvccache"))
    filled_cache = os.path.join(os.path.dirname(filled_cache), "nvccache")
    result = nvccache("clean", *arguments, **{"NVCCACHE_DIR": filled_cache, **wrong})
    assert result.exit_code == 1
    assert "nothing was removed" in result.output
    assert eviction.usage(filled_cache).files == 4


def test_missing_cache_is_a_sentence_and_stays_missing(nvccache, cache_dir):
    result = nvccache("clean")
    assert result.output == f"There is no cache in `{cache_dir}`\n"
    assert result.exit_code == 0
    assert not os.path.exists(cache_dir)


def test_nothing_is_removed_where_readonly_is_on(nvccache, filled_cache):
    before = eviction.usage(filled_cache)
    for options in (["--all"], ["--older-than", "0s"], ["--matching", "*.cu"]):
        result = nvccache("clean", *options, NVCCACHE_READONLY="1")
        assert (result.exit_code, "`readonly` is on (NVCCACHE_READONLY" in result.output) == (1, True)
    assert nvccache("clean", "--all", "--dry-run", NVCCACHE_READONLY="1").exit_code == 0
    assert eviction.usage(filled_cache) == before


def test_read_only_cache_is_one_sentence(nvccache, filled_cache):
    nvccache("clean")  # loads what the interpreter may not read below
    with read_only(filled_cache) as copy:
        result = nvccache("clean", "--all", NVCCACHE_DIR=copy)
        assert eviction.usage(copy).files == 4
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    assert "Permission denied" in result.output

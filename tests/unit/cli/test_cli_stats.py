from __future__ import annotations

import json
import os

import pytest

from made_events import event
from nvccache import __version__, outcomes
from nvccache.store import event_line, store
from unprivileged import read_only, unreadable


@pytest.fixture
def used_cache(cache_dir):
    """A cache with one blob and a few calls."""
    store.Store(cache_dir).add_blob("ab" * 16, b"x" * 2048, compress=False)
    stages = [("cicc", False, 61.0), ("ptxas", True, 1.5)]
    event_line.append(cache_dir, event(outcomes.PARTIAL_HIT, stages=stages, tool_saved=1.5))
    event_line.append(cache_dir, event(outcomes.BYPASS, "library"))
    last = event(outcomes.BYPASS, "of_tomorrow")
    last.store_fault, last.wrong_settings = "disk_full", "max_size,unknown"
    event_line.append(cache_dir, last)
    return cache_dir


def test_json_has_the_keys_that_scripts_rely_on(nvccache, used_cache):
    statistics = json.loads(nvccache("stats", "--format", "json").output)
    assert set(statistics) == {
        "version", "calls", "bypass_reasons", "store_faults", "wrong_settings", "stages", "seconds_saved",
        "store",
    }  # fmt: skip
    assert statistics["version"] == __version__
    assert statistics["calls"] == {
        "direct_hit": 0, "stage_hit": 0, "partial_hit": 1, "miss": 0, "bypass": 2, "failed": 0, "fault": 0,
    }  # fmt: skip
    assert statistics["bypass_reasons"] == {"library": 1, "of_tomorrow": 1}
    assert statistics["store_faults"] == {"disk_full": 1}
    assert statistics["wrong_settings"] == {"max_size": 1, "unknown": 1}
    assert set(statistics["stages"]) == {
        "host_preprocess", "cudafe", "device_preprocess", "cicc", "ptxas", "fatbinary", "host_compile",
        "nvlink",
    }  # fmt: skip
    assert statistics["stages"]["ptxas"] == {"hit": 1, "miss": 0, "seconds": 0, "seconds_saved": 1.5}
    assert statistics["seconds_saved"] == 1.5
    size = statistics["store"].pop("bytes")
    assert 2048 < size < 4096
    assert statistics["store"] == {"max_bytes": 10 * 1024**3, "entries": 1}


def test_text_tells_the_same(nvccache, used_cache):
    lines = [" ".join(line.split()) for line in nvccache("stats").output.splitlines()]
    assert "calls 3" in lines
    assert "partial_hit 1 33.3 %" in lines
    assert f"library 1 {outcomes.REASONS['library']}" in lines
    assert "of_tomorrow 1 a reason of another version of nvccache" in lines
    assert f"disk_full 1 {outcomes.STORE_FAULTS['disk_full']}" in lines
    assert "max_size 1 `NVCCACHE_MAX_SIZE` had a default's value" in lines
    assert f"unknown 1 {outcomes.WRONG_SETTINGS['unknown']}" in lines
    assert "cicc 0 1 1 min 1 s 0.00 s" in lines
    assert "ptxas 1 0 0.00 s 1.50 s" in lines
    assert any(line.startswith("cache size 2.") and "KiB of 10.0 GiB in 1 file" in line for line in lines)


def test_reset_prints_and_then_counts_from_zero(nvccache, used_cache):
    first = json.loads(nvccache("stats", "--format", "json", "--reset").output)
    assert first["calls"]["bypass"] == 2
    second = json.loads(nvccache("stats", "--format", "json").output)
    assert set(second["calls"].values()) == {0}
    assert second["store"]["entries"] == first["store"]["entries"] == 1


def test_missing_cache_is_zeros_and_stays_missing(nvccache, cache_dir):
    result = nvccache("stats")
    assert result.exit_code == 0
    assert f"There is no cache in `{cache_dir}` yet" in result.output
    statistics = json.loads(nvccache("stats", "--format", "json", "--reset").output)
    assert statistics["store"] == {"bytes": 0, "max_bytes": 10 * 1024**3, "entries": 0}
    assert not os.path.exists(cache_dir)


def test_file_in_place_of_the_cache_is_one_sentence(nvccache, cache_dir):
    with open(cache_dir, "w"):
        pass
    for arguments in (["stats"], ["stats", "--format", "json"], ["stats", "--reset"]):
        result = nvccache(*arguments)
        assert result.exit_code == 1
        assert result.output == f"Error: the cache directory `{cache_dir}` is not a directory\n"


def test_read_only_cache_is_shown(nvccache, used_cache):
    nvccache("stats")  # what is not yet counted takes more room
    wanted = nvccache("stats", "--format", "json").output
    with read_only(used_cache) as copy:
        result = nvccache("stats", "--format", "json", NVCCACHE_DIR=copy)
        refused = nvccache("stats", "--reset", NVCCACHE_DIR=copy)
    assert result.output == wanted
    assert refused.exit_code == 1
    assert refused.output == f"Error: cannot reset the counts in `{copy}/journal`: Permission denied\n"


def test_unreadable_cache_is_one_sentence(nvccache, used_cache):
    nvccache("stats", "--format", "json")
    with unreadable(used_cache) as copy:
        result = nvccache("stats", NVCCACHE_DIR=copy)
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot use ")
    assert result.output.count("\n") == 1

from __future__ import annotations

import os
import re
import time

import pytest

from made_events import event
from nvccache import __version__, endpoint, outcomes, remote_url
from nvccache.machine import slots
from nvccache.remote import outages, uploads
from nvccache.store import event_line, store
from nvccache.store.directory import Directory
from nvccache.store.event_line import HIT, RAN, StageEvent
from unprivileged import read_only, unreadable


@pytest.fixture
def used_cache(cache_dir):
    """A cache with one blob and a few calls."""
    store.Store(cache_dir).add_blob("ab" * 32, b"x" * 2048, compress=False)
    stages = [("cicc", False, 61.0), ("ptxas", True, 1.5)]
    event_line.append(cache_dir, event(outcomes.PARTIAL_HIT, stages=stages, tool_saved=1.5))
    event_line.append(cache_dir, event(outcomes.BYPASS, "library"))
    last = event(outcomes.BYPASS, "of_tomorrow")
    last.store_fault, last.wrong_settings = "disk_full", "max_size,unknown"
    event_line.append(cache_dir, last)
    return cache_dir


@pytest.mark.smoke("stats")
def test_json_has_the_keys_that_scripts_rely_on(nvccache, used_cache):
    statistics = nvccache.json("stats")
    assert set(statistics) == {
        "version", "calls", "bypass_reasons", "store_faults", "wrong_settings", "stages", "seconds_saved",
        "store", "seconds_spent", "since", "rates", "last_build", "remote", "uploads",
        "executor", "executor_outage", "in_vain",
    }  # fmt: skip
    assert statistics["version"] == __version__
    assert statistics["calls"] == {
        "direct_hit": 0, "stage_hit": 0, "partial_hit": 1, "miss": 0, "query_hit": 0, "query_miss": 0,
        "bypass": 2, "failed": 0, "fault": 0,
    }  # fmt: skip
    assert statistics["bypass_reasons"] == {"library": 1, "of_tomorrow": 1}
    assert statistics["store_faults"] == {"disk_full": 1}
    assert statistics["wrong_settings"] == {"max_size": 1, "unknown": 1}
    assert set(statistics["stages"]) == {
        "host_preprocess", "cudafe", "device_preprocess", "cicc", "ptxas", "fatbinary", "host_compile",
        "nvlink",
    }  # fmt: skip
    assert statistics["stages"]["ptxas"] == {
        "hit": 1, "miss": 0, "replayed": 0, "seconds": 0, "seconds_saved": 1.5,
    }  # fmt: skip
    assert statistics["seconds_saved"] == 1.5
    size = statistics["store"].pop("bytes")
    assert 2048 < size < 4096
    assert statistics["store"] == {"max_bytes": 10 * 1024**3, "entries": 1}


def test_a_summary_has_at_most_twelve_aligned_lines_and_no_zeros(
    nvccache, used_cache, used_remote, used_executor
):
    more = [outcomes.DIRECT_HIT, *outcomes.QUERIES, outcomes.FAILED, outcomes.FAULT]
    for outcome in more:
        event_line.append(used_cache, event(outcome, started=time.time()))
    lines = nvccache("stats").output.splitlines()
    assert len(lines) == 12
    assert [line[:16].strip() for line in lines] == [
        "hit rate", "compiler time", "cache size", "last build", "",
        "hits", "ran", "left to nvcc", "others", "remotes", "other machines", "problems",
    ]  # fmt: skip
    assert all(line[26] != " " and line[27:29] == "  " for line in lines if line)
    assert not any(re.search(r"\b0 (?!bytes)[a-z]+", line[28:]) for line in lines)
    assert lines[-1].endswith(": see `nvccache doctor`") and "2 timeout" in lines[-1]


def test_a_summary_says_that_a_setting_is_wrong(nvccache, cache_dir):
    event_line.append(cache_dir, event(outcomes.MISS, wrong_settings="remote"))
    assert nvccache("stats").output.splitlines()[-1].split("  ")[-1] == (
        "1 with wrong setting `remote`: see `nvccache doctor`"
    )


def test_a_summary_names_the_most_frequent_reasons(nvccache, cache_dir):
    for reason, count in (("verbose", 3), ("library", 2), ("run", 1), ("unexplained", 1), ("time_report", 1)):
        for _ in range(count):
            event_line.append(cache_dir, event(outcomes.BYPASS, reason))
    cache, empty, reasons = words_of(nvccache("stats"))  # and no line for what is zero
    assert cache.startswith("cache size ") and empty == ""
    assert reasons == "left to nvcc 8 3 verbose, 2 library, 1 run, 2 others"


def test_reset_prints_and_then_counts_from_zero(nvccache, used_cache):
    first = nvccache.json("stats", "--reset")
    assert first["calls"]["bypass"] == 2
    second = nvccache.json("stats")
    assert set(second["calls"].values()) == {0}
    assert second["store"]["entries"] == first["store"]["entries"] == 1


def test_a_build_that_was_set_to_zero_is_no_last_build(nvccache, two_builds):
    assert "\nlast build " in nvccache("stats", "--zero").output
    assert "\nlast build " not in nvccache("stats").output
    event_line.append(two_builds, event(outcomes.MISS, started=time.time()))
    found = nvccache.json("stats")
    assert (found["last_build"]["calls"], found["calls"]["miss"]) == (1, 1)


def test_what_was_set_to_zero_is_counted_nowhere(nvccache, two_builds):
    nvccache("stats", "--zero")
    for options in ((), ("--since", "last-build"), ("--since", "2h")):
        assert set(nvccache.json("stats", *options)["calls"].values()) == {0}
    assert nvccache.json("stats", "--by", "source") == []
    event_line.append(two_builds, event(outcomes.MISS, started=time.time() - 9, seconds=10.0, sources=["a"]))
    for options in ((), ("--since", "last-build"), ("--since", "2h")):
        assert nvccache.json("stats", *options)["calls"]["miss"] == 1
    assert [group["calls"] for group in nvccache.json("stats", "--by", "source")] == [1]


def test_missing_cache_is_zeros_and_stays_missing(nvccache, cache_dir):
    result = nvccache("stats")
    assert result.exit_code == 0
    assert f"there is no cache in `{cache_dir}` yet" in result.output
    statistics = nvccache.json("stats", "--reset")
    assert statistics["store"] == {"bytes": 0, "max_bytes": 10 * 1024**3, "entries": 0}
    assert not os.path.exists(cache_dir)


def test_read_only_cache_is_shown(nvccache, used_cache):
    nvccache("stats")  # what is not yet counted takes more room
    wanted = nvccache("stats", "--json").stdout
    with read_only(used_cache) as copy:
        result = nvccache("stats", "--json", NVCCACHE_DIR=copy)
        assert f"calls are not counted, because `{copy}` cannot be written to" in result.stderr
        refused = nvccache("stats", "--reset", NVCCACHE_DIR=copy)
    assert result.stdout == wanted
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[-1:] == [
        f"Error: cannot reset the counts in `{copy}/journal`: Permission denied"
    ]


def test_unreadable_cache_is_one_sentence(nvccache, used_cache):
    nvccache("stats", "--json")
    with unreadable(used_cache) as copy:
        result = nvccache("stats", NVCCACHE_DIR=copy)
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot use ")
    assert result.output.count("\n") == 1


@pytest.fixture
def two_builds(cache_dir):
    """A build of four calls an hour ago, and one of two calls just now."""
    now = time.time()
    builds = [(outcomes.MISS, 3600), (outcomes.MISS, 3590), (outcomes.MISS, 3580)]
    builds += [(outcomes.PARTIAL_HIT, 3570), (outcomes.DIRECT_HIT, 20), (outcomes.MISS, 10)]
    for index, (outcome, ago) in enumerate(builds):
        made = event(outcome, started=now - ago, seconds=1.0, directory="/build", sources=[f"{index % 2}.cu"])
        made.stages = [StageEvent("cicc", HIT, 4.0, "compute_80")]
        made.stages.append(StageEvent("cicc", RAN, 2.0, "compute_90"))
        made.tool_saved, made.cause = 4.0, "" if outcome == outcomes.DIRECT_HIT else "`x.h` changed"
        event_line.append(cache_dir, made)
    return cache_dir


def test_the_first_lines_are_rates_of_the_last_build_and_of_all(nvccache, two_builds):
    first, second, _, fourth = words_of(nvccache("stats"))[:4]
    assert first.startswith("hit rate 16.7 % 1 of 6 calls since ")
    assert second == "compiler time 66.7 % avoided: 24.00 s, and 12.00 s spent"
    assert fourth.startswith("last build 50.0 % 1 of 2 calls, 8.00 s of compiler time avoided, ")


def test_counts_that_a_restored_cache_brings_are_not_in_the_rate_of_the_last_build(nvccache, two_builds):
    found = nvccache.json("stats")["last_build"]
    assert (found["calls"], found["hits"], found["cacheable"], found["hit_rate"]) == (2, 1, 2, 0.5)


@pytest.mark.parametrize(("since", "calls"), [("last-build", 2), ("30m", 2), ("2h", 6)])
def test_only_calls_since_then_count(nvccache, two_builds, since, calls):
    found = nvccache.json("stats", "--since", since)
    assert sum(found["calls"].values()) == calls
    assert found["last_build"] is None


def test_since_all_is_the_default(nvccache, two_builds):
    assert nvccache("stats", "--since", "all").stdout == nvccache("stats").stdout


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        ("source", {"/build/0.cu": (3, 1), "/build/1.cu": (3, 0)}),
        ("reason", {"`x.h` changed": (5, 0)}),
        ("architecture", {"compute_80": (6, 6), "compute_90": (6, 0)}),
    ],
)
def test_groups_add_up(nvccache, two_builds, by, wanted):
    groups = nvccache.json("stats", "--by", by)
    assert {group["name"]: (group["calls"], group["hits"]) for group in groups} == wanted
    text = nvccache("stats", "--by", by).output
    assert all(name in text for name in wanted)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--zero", "--since", "1h"],
        ["--by", "directory"],
    ],
)
def test_what_does_not_go_together_is_refused(nvccache, two_builds, arguments):
    result = nvccache("stats", *arguments)
    assert result.exit_code == 2
    assert sum(nvccache.json("stats")["calls"].values()) == 6


@pytest.fixture
def used_remote(cache_dir, tmp_path, monkeypatch):
    """Two calls have queried a remote, and an item is queued."""
    first = event(outcomes.MISS, remote=event_line.RemoteUse(5, 3, 2048, 0.25, ("timeout",)))
    second = event(outcomes.STAGE_HIT, remote=event_line.RemoteUse(2, 2, 1024, 0.5, ("timeout", "tls")))
    for call in (first, second):
        event_line.append(cache_dir, call)
    monkeypatch.setattr(outages.slots, "pool_directory", lambda: str(tmp_path))
    monkeypatch.setenv("NVCCACHE_REMOTE", "redis://nowhere:1,rw")
    (remote,) = remote_url.parse("redis://nowhere:1,rw")
    uploads.enqueue(Directory(cache_dir), [remote.identity], [("blob-v1", "a" * 64), ("blob-v1", "b" * 64)])
    return remote


def test_why_objects_are_still_to_be_sent(nvccache, used_remote):
    outages.begin(outages.OF_WRITING.format(used_remote.identity), "full", "it is full")
    assert nvccache.json("stats")["uploads"]["outage"]["word"] == "full"
    assert "2 objects still to be sent (full): see `nvccache remote" in nvccache("stats").output


def test_what_was_asked_of_remotes_and_is_still_to_be_sent(nvccache, used_remote):
    printed = nvccache.json("stats")
    assert printed["remote"] == {
        "calls": 2,
        "asked": 7,
        "found": 5,
        "bytes_received": 3072,
        "seconds_waited": 0.75,
        "faults": {"timeout": 2, "tls": 1},
    }
    assert printed["uploads"] == {"pending": 2, "outage": None}
    assert "2 objects still to be sent" in nvccache("stats").output


def test_calls_that_did_without_a_remote_have_not_asked_it(nvccache, cache_dir):
    use = event_line.RemoteUse(0, 0, 0, 0.0, ("left_alone",))
    event_line.append(cache_dir, event(outcomes.MISS, remote=use))
    printed = nvccache.json("stats")["remote"]
    assert (printed["calls"], printed["faults"]) == (0, {"left_alone": 1})
    assert "1 left_alone" in nvccache("stats").output


def test_remotes_are_not_mentioned_where_there_are_none(nvccache, used_cache):
    assert "\nremotes" not in nvccache("stats").output


@pytest.fixture
def used_executor(cache_dir, tmp_path, monkeypatch):
    """Two stages were run remotely, one of them from the action cache, and one was sent but run locally."""
    monkeypatch.setattr(slots.pool_directory, "__defaults__", ((str(tmp_path),),))
    stages = [StageEvent("cicc", RAN, 2.0, architecture="compute_80") for _ in range(4)]
    for stage in stages[:2]:
        stage.where = "grpc://h:1"
    stages[0].away = "1.500 0.250 2.000 0.500 2048 1024 0"
    stages[1].away = "0.000 0.000 30.000 0.250 0 1024 1"
    stages[2].away = "unreachable"
    for sources, made in ((["a.cu"], stages), (["b.cu"], stages[3:])):
        call = event(outcomes.MISS, directory="/build", sources=sources, started=time.time() - 5)
        call.stages = made
        event_line.append(cache_dir, call)
    return cache_dir


def words_of(result):
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.output.splitlines()]


@pytest.mark.parametrize("since", [(), ("--since", "last-build"), ("--since", "1h")])
def test_what_became_of_stages_that_were_sent(nvccache, used_executor, since):
    printed = nvccache.json("stats", *since)
    assert printed["executor"] == {"sent": 3, "came_back": 2, "reasons": {"unreachable": 1}}
    assert printed["executor_outage"] is None


def test_stages_that_were_sent_count_for_their_groups(nvccache, used_executor):
    for by, wanted in (("source", {"/build/a.cu": 3, "/build/b.cu": 0}), ("architecture", {"compute_80": 3})):
        groups = nvccache.json("stats", "--by", by)
        assert {group["name"]: group["sent"] for group in groups} == wanted
    assert words_of(nvccache("stats", "--by", "source"))[:2] == [
        "calls hits sent spent avoided source",
        "1 0 3 6.00 s 0.00 s /build/a.cu",
    ]
    assert nvccache.json("stats")["last_build"]["sent"] == 3


def test_an_outage_of_the_executor_is_shown(nvccache, used_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(slots.pool_directory, "__defaults__", ((str(tmp_path),),))
    url = "grpc://127.0.0.1:1"
    assert "other machines" not in words_of(nvccache("stats", NVCCACHE_EXECUTOR=url))
    outages.begin(outages.OF_EXECUTOR.format(endpoint.parse(url).identity), "full", "no room")
    printed = nvccache.json("stats", NVCCACHE_EXECUTOR=url)["executor_outage"]
    assert (printed["word"], printed["text"]) == ("full", "no room")
    assert time.time() < printed["until"] < time.time() + 61
    assert any(
        line.endswith("; none are sent now") for line in words_of(nvccache("stats", NVCCACHE_EXECUTOR=url))
    )
    assert "other machines" not in words_of(nvccache("stats"))  # of this executor alone


def test_an_outage_that_is_over_is_not_shown(nvccache, used_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(slots.pool_directory, "__defaults__", ((str(tmp_path),),))
    url = "grpc://127.0.0.1:1"
    outages.begin(outages.OF_EXECUTOR.format(endpoint.parse(url).identity), "full", "no room")
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert nvccache.json("stats", NVCCACHE_EXECUTOR=url)["executor_outage"] is None


def test_other_machines_are_not_mentioned_where_nothing_was_sent(nvccache, used_cache):
    assert "other machines" not in nvccache("stats").output


@pytest.mark.parametrize("command", ["stats", "explain", "report", "events"])
def test_a_cache_that_cannot_be_written_to_is_named(nvccache, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NVCCACHE_DIR", str(tmp_path / "cache"))
    assert "not counted" not in nvccache(command).stderr  # also imports files that another user may not read
    (tmp_path / "others").mkdir()
    with read_only(tmp_path / "others") as copy:
        result = nvccache(command, NVCCACHE_DIR=f"{copy}/cache")
        assert f"calls are not counted, because `{copy}/cache` cannot be written to" in result.stderr
        assert "`nvccache doctor`" in result.stderr


def test_an_obstacle_to_counting_is_named_by_its_kind(nvccache, tmp_path, monkeypatch):
    result = nvccache("stats", NVCCACHE_DIR="/proc/x")
    assert "calls are not counted, because `/proc/x` cannot be written to" in result.stderr
    full = os.statvfs_result((4096, 4096, 75, 0, 0, 9, 9, 9, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    result = nvccache("stats", NVCCACHE_DIR=str(tmp_path / "cache"))
    assert f"calls are not counted, because `{tmp_path}/cache` is on a full disk" in result.stderr

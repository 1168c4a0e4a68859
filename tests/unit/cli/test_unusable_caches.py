"""`stats`, `explain` and `clean` on caches that cannot be used; see also golden/."""

from __future__ import annotations

import pytest

from nvccache import config, outcomes
from nvccache.store import event_line, eviction
from nvccache.store.store import Store
from sample_events import event
from unprivileged import read_only, unreadable


@pytest.fixture
def used_cache(cache_dir):
    """A cache with a blob and a call."""
    Store(cache_dir).add_blob("ab" * 32, b"x" * 2048, compress=False)
    event_line.append(cache_dir, event(outcomes.MISS, product="/b/a.o"))
    return cache_dir


def test_stats_work_and_clean_fails_on_a_read_only_cache(nvccache, used_cache):
    nvccache("clean")  # loads what the interpreter may not read below, and counts what takes room
    expected = nvccache("stats", "--json").stdout
    with read_only(used_cache) as copy:
        shown = nvccache("stats", "--json", NVCCACHE_DIR=copy)
        zeroed = nvccache("stats", "--zero", NVCCACHE_DIR=copy)
        cleaned = nvccache("clean", "--all", NVCCACHE_DIR=copy)
        assert eviction.usage(copy).files == 1
    assert shown.stdout == expected
    warning = f"calls are not counted, because `{copy}` cannot be written to: see `nvccache doctor`"
    assert shown.stderr == f"nvccache: {warning}\n"
    assert (zeroed.exit_code, cleaned.exit_code) == (1, 1)
    error = f"Error: cannot reset the counts in `{copy}/journal`: Permission denied\n"
    assert zeroed.stderr.endswith(error)
    assert cleaned.output.startswith("Error: ") and cleaned.output.endswith("Permission denied\n")


def test_without_a_home_directory_stats_show_an_empty_cache(nvccache, monkeypatch):
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    store = nvccache.json("stats", NVCCACHE_DIR="")["store"]
    assert (store["bytes"], store["entries"]) == (0, 0)


def test_commands_report_an_unreadable_cache_in_one_sentence(nvccache, used_cache):
    names = ("stats", "explain", "clean")
    for name in names:
        nvccache(name)
    with unreadable(used_cache) as copy:
        found = {name: nvccache(name, NVCCACHE_DIR=copy) for name in names}
    for result in found.values():
        assert (result.exit_code, result.output.count("\n")) == (1, 1)
        assert result.output.startswith(("Error: cannot use ", "Error: cannot read "))


def test_commands_warn_that_a_cache_cannot_be_created(nvccache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "others").mkdir()
    names = ("stats", "explain", "report", "events")
    for name in names:
        assert "not counted" not in nvccache(name).stderr  # also imports what another user may not read
    with read_only(tmp_path / "others") as copy:
        warnings = [nvccache(name, NVCCACHE_DIR=f"{copy}/cache").stderr for name in names]
    text = f"calls are not counted, because `{copy}/cache` cannot be written to"
    assert [text in warning for warning in warnings] == [True] * 4

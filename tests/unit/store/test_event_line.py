"""The line of one call: appended at little cost, without ever failing a call."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from made_events import event, stages_of
from nvccache import outcomes
from nvccache.store import event_line, events

MISS = event(outcomes.MISS, stages=[("cicc", False, 2.0)], seconds=2.5)


def test_only_a_large_log_is_to_be_folded(cache_dir, monkeypatch):
    log = os.path.join(cache_dir, "journal", event_line.LOG)
    event_line.append(cache_dir, MISS)
    assert not event_line.is_large(cache_dir)
    monkeypatch.setattr(event_line, "LARGE", os.path.getsize(log))
    assert event_line.is_large(cache_dir)
    monkeypatch.setattr(event_line, "LARGE", os.path.getsize(log) + 1)
    assert not event_line.is_large(cache_dir)


def test_the_last_calls_of_a_build_tell_how_many_jobs_it_has(cache_dir):
    assert event_line.most_jobs(cache_dir, "7-1") == 0
    for build, jobs in (("7-1", 3), ("7-1", 2), ("8-9", 5), ("", 9)):
        event_line.append(cache_dir, event(outcomes.MISS, build=build, jobs=jobs, cause="\t7-1\t4\t" * 9))
    assert [event_line.most_jobs(cache_dir, build) for build in ("7-1", "8-9", "9-1")] == [3, 5, 0]
    with open(os.path.join(cache_dir, "journal", event_line.LOG), "ab") as log:
        log.write(b"\n" + b"x\t" * 14 + b"7-1\tmany\t.\n" + b"\n7-1\t.\n")
    assert event_line.most_jobs(cache_dir, "7-1") == 3
    with open(os.path.join(cache_dir, "journal", event_line.LOG), "ab") as log:
        log.write(b"\n" + b"x\t" * 14 + b"7-1\t" + b"9" * 5000 + b"\t.\n")
    assert event_line.most_jobs(cache_dir, "7-1") == 999_999_999


@pytest.mark.parametrize(
    ("directory", "log"),
    [(0o755, 0o600), (0o700, 0o600), (0o2775, 0o660), (0o1777, 0o666)],
    ids="{:o}".format,
)
def test_only_who_shares_the_cache_may_read_the_log(tmp_path, directory, log):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(directory)
    event_line.append(str(tmp_path / "cache"), MISS)
    found = tmp_path / "cache" / "journal" / event_line.LOG
    assert found.stat().st_mode & 0o777 == log


def test_unusable_directory_is_silent_for_a_call(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    event_line.append(str(in_the_way), MISS)
    assert not event_line.is_large(str(in_the_way))
    assert in_the_way.read_text() == ""


@pytest.mark.parametrize("kind", ["FIFO", "link", "dangling link", "second name"])
def test_what_was_planted_in_the_place_of_the_log_loses_no_call_and_stays_as_it_is(cache_dir, tmp_path, kind):
    outside, log = tmp_path / "outside", tmp_path / "cache" / "journal" / event_line.LOG
    event_line.append(cache_dir, MISS)
    log.unlink()
    if kind == "FIFO":
        os.mkfifo(log)
    elif kind == "dangling link":
        log.symlink_to(outside)
    else:
        outside.write_text("of a user")
        os.link(outside, log) if kind == "second name" else log.symlink_to(outside)
    event_line.append(cache_dir, MISS)
    assert [stages_of(found) for found in events.read(cache_dir)] == [stages_of(MISS)]
    assert outside.exists() == (kind in ("link", "second name"))
    assert not outside.exists() or outside.read_text() == "of a user"


def test_appending_imports_nothing_heavy(cache_dir):
    program = (
        "import errno, os, sys, __future__; before = set(sys.modules); sys.path[:0] = sys.argv[2:]\n"
        "from nvccache.store import event_line as calls\n"
        "calls.append(sys.argv[1], calls.Event('miss'))\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    source = os.path.dirname(os.path.dirname(os.path.dirname(event_line.__file__)))
    command = [sys.executable, "-I", "-S", "-c", program, cache_dir, source]
    loaded = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()
    assert set(loaded) == {
        b"nvccache",
        b"nvccache.files",
        b"nvccache.store",
        b"nvccache.store.cachedir_tag",
        b"nvccache.store.event_line",
        b"nvccache.store.directory",
        b"nvccache.files.untrusted",
    }

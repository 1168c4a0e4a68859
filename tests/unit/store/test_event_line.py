"""The line of one call: appended at little cost, without ever failing a call."""

from __future__ import annotations

import os

import pytest

from nvccache import outcomes
from nvccache.cli.events import to_json
from nvccache.store import event_line
from nvccache.store.event_line import HIT, RAN, RemoteUse, StageEvent
from sample_events import event

MISS = event(outcomes.MISS, stages=[("cicc", False, 2.0)], seconds=2.5)


def test_the_event_log_is_merged_only_once_it_is_large(cache_dir, monkeypatch):
    log = os.path.join(cache_dir, "journal", event_line.LOG)
    assert not event_line.append(cache_dir, MISS)
    monkeypatch.setattr(event_line, "LARGE", os.path.getsize(log))
    assert event_line.append(cache_dir, MISS)


@pytest.mark.parametrize(
    ("where", "away", "why_here"),
    [
        ("grpc://h:1", event_line.CACHED, ""),
        ("grpc://h:1", "", ""),
        (event_line.LOCAL, "no_workers", "no_workers"),
    ],
)
def test_an_event_survives_writing_and_parsing_its_log_line(where, away, why_here):
    product = "/tab\tbed/a\nb%09\xfc\udcff.o"
    made = event(outcomes.BYPASS, "library", started=1000.25, seconds=2.5, product=product, pid=4711)
    made.directory, made.sources, made.cause = "/cwd\udcff", ["a.cu", "b\x1f\x1e.cu"], "`x.h` changed"
    made.details = ["`y.h`\tchanged", ""]
    made.build, made.tool_saved = "7-1", 3.0
    made.remote = RemoteUse(5, 3, 2048, 0.25, ("timeout", "tls"))
    stage = StageEvent("cicc", RAN, 2.0, "compute_80", 1.5)
    assert (stage.kind, stage.result, stage.seconds, stage.architecture) == ("cicc", RAN, 2.0, "compute_80")
    assert (stage.cpu, stage.where) == (1.5, event_line.LOCAL)
    stage.start, stage.slot = 0.125, 3
    stage.where, stage.away = where, away
    made.stages = [stage, StageEvent("ptxas", HIT, 0.5)]
    found = event_line.parse_line(event_line.format_line(made).strip(b"\n"))
    assert found.remote.texts() == made.remote.texts()
    for read, written in zip([found, *found.stages], [made, *made.stages], strict=True):
        for name in written.FIELDS:
            assert name == "remote" or getattr(read, name) == getattr(written, name), name
    printed = to_json(found)["stages"][0]
    assert printed["where"] == where and printed["why_here"] == why_here
    assert printed["away"] == ("" if why_here else away)


def test_an_event_with_long_texts_is_one_log_line_of_limited_length():
    call = event(outcomes.MISS, product="/a.o", sources=["x" * 100] * 1000, cause="y" * 10_000)
    line = event_line.format_line(call)
    assert len(line) < 10_000
    assert event_line.parse_line(line.strip(b"\n")).product == "/a.o"


def test_a_truncated_or_damaged_log_line_is_ignored():
    line = event_line.format_line(MISS).strip(b"\n")
    assert event_line.parse_line(line)
    damaged = [line[:end] for end in range(len(line))]
    damaged += [line.replace(b"2.5", b"x"), line.replace(b"\tmiss", b""), line.replace(b"\x1fran", b"")]
    assert not any(map(event_line.parse_line, damaged))


def test_stage_texts_from_a_remote_cannot_break_a_log_line():
    call = event(outcomes.DIRECT_HIT)
    call.replayed = ["cicc\n", "cicc\t.", event_line.text_of_hit(MISS.stages[0])]
    found = event_line.parse_line(event_line.format_line(call).strip(b"\n"))
    assert [stage.kind for stage in found.stages] == ["cicc"]


@pytest.mark.parametrize(
    ("directory", "log"),
    [(0o755, 0o600), (0o700, 0o600), (0o2775, 0o660), (0o1777, 0o666)],
    ids="{:o}".format,
)
def test_the_event_log_is_readable_only_by_users_who_share_the_cache(tmp_path, directory, log):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(directory)
    event_line.append(str(tmp_path / "cache"), MISS)
    found = tmp_path / "cache" / "journal" / event_line.LOG
    assert found.stat().st_mode & 0o777 == log

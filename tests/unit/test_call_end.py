"""The end of a call: what it prints, and what its event says."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time

import pytest

from nvccache import call_end, config, outcomes
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.run.report import Report
from nvccache.store import event_line, events
from nvccache.store.event_line import RemoteUse, StageEvent

CICC = StageEvent("cicc", event_line.RAN, 2.0, "compute_80", cpu=1.5)


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """Where the call is made."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(os, "_exit", sys.exit)
    return str(tmp_path / "work")


@pytest.fixture
def settings(cache_dir, tmp_path):
    return config.load({"NVCCACHE_DIR": cache_dir, "NVCCACHE_LOG": str(tmp_path / "log"), "HOME": "/nowhere"})


def event_in(cache_dir):
    (event,) = events.read(cache_dir)
    return event


def compiled() -> Answer:
    answer = Answer(Result((), b"out", b"err"))
    answer.result.seconds, answer.result.stages = 2.5, [event_line.text_of_hit(CICC)]
    answer.products, answer.sources = [("a.o", "", False), ("b.d", "", False)], ["a.cu"]
    return answer


def test_a_hit_prints_its_messages_and_leaves_an_event(settings, cache_dir, work, tmp_path, capfd):
    with pytest.raises(SystemExit, match=r"^0$"):
        call_end.exit_with_hit(compiled(), settings, time.monotonic() - 3, RemoteUse(4, 2))
    assert capfd.readouterr() == ("out", "err")
    event = event_in(cache_dir)
    assert (event.outcome, event.product, event.sources) == ("direct_hit", f"{work}/a.o", ["a.cu"])
    assert (event.tool_saved, event.remote.asked, event.directory) == (2.5, 4, work)
    assert [(stage.kind, stage.is_hit, stage.cpu) for stage in event.stages] == [("cicc", True, 1.5)]
    assert 3 <= event.seconds < 30 and abs(event.ended - time.time()) < 30
    assert f" direct hit {work}/a.o\n" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("is_query", [True, False])
def test_a_query_that_cannot_be_printed_is_left_to_nvcc_and_a_hit_is_not(
    settings, cache_dir, monkeypatch, capfd, is_query
):
    answer = Answer(Result((), b"answer", b"err")) if is_query else compiled()
    write = call_end.write
    monkeypatch.setattr(
        call_end, "write", lambda stream, text: write(stream, text[: 3 * stream]) and stream == 2
    )
    if is_query:
        call_end.exit_with_hit(answer, settings, 0.0)
    else:
        with pytest.raises(SystemExit):
            call_end.exit_with_hit(answer, settings, 0.0)
    event = event_in(cache_dir)
    expected = ("bypass", "query_streams") if is_query else ("direct_hit", "")
    assert (event.outcome, event.reason) == expected
    assert capfd.readouterr() == (("", "") if is_query else ("out", "err"))


def test_an_answer_to_a_query_is_printed_and_saves_no_compiler_time(settings, cache_dir, capfd):
    with pytest.raises(SystemExit, match=r"^0$"):
        call_end.exit_with_hit(Answer(Result((), b"answer", b"err")), settings, 0.0)
    assert capfd.readouterr() == ("answer", "err")
    event = event_in(cache_dir)
    assert (event.outcome, event.product, event.remote, event.stages) == ("query_hit", "", None, [])


def test_everything_is_written_to_a_slow_pipe_and_a_closed_one_is_reported():
    text, parts = os.urandom(300_000), []
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    reader = threading.Thread(target=lambda: parts.extend(iter(lambda: os.read(ours, 10_000), b"")))
    threading.Timer(0.05, reader.start).start()
    assert call_end.write(theirs, text)
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert b"".join(parts) == text
    ours, theirs = os.pipe()
    os.close(ours)
    assert call_end.write(theirs, b"x") is False
    assert call_end.write(theirs, b"")
    os.close(theirs)


def report_of(*stages: StageEvent, product: str = "out/a.o") -> Report:
    report = Report()
    report.stages, report.product = list(stages), product
    report.causes, report.store_fault, report.remote = ["one", "two", "three"], "disk_full", RemoteUse(1)
    return report


def test_the_event_of_a_miss_has_its_stages_and_causes_and_our_own_cpu_time(monkeypatch, work):
    elsewhere, hit = StageEvent("ptxas", "ran", 9.0, cpu=9.0), StageEvent("cudafe", "hit", 0.5)
    here = StageEvent("cicc", "ran", 2.0, cpu=1.5)
    elsewhere.where, here.start, elsewhere.start = "grpc://x", 107.0, 99.0
    usages = {resource.RUSAGE_SELF: (1.0, 2.0), resource.RUSAGE_CHILDREN: (4.0, 8.0)}
    monkeypatch.setattr("resource.getrusage", lambda who: resource.struct_rusage([*usages[who], *[0] * 14]))
    event = call_end.event_of(report_of(here, elsewhere, hit), ["a.cu"], ["-o", "b.o"], 100.0)
    assert (event.outcome, event.reason, event.sources) == ("partial_hit", "", ["a.cu"])
    assert (event.product, event.store_fault, event.remote.asked) == (f"{work}/out/a.o", "disk_full", 1)
    assert (event.cause, event.details) == ("one", ["two", "three"])
    assert [stage.start for stage in event.stages] == [7.0, 0.0, 0.0]
    assert (event.tool_saved, event.overhead) == (0.5, 13.5)
    here.cpu = 16.0
    assert call_end.event_of(report_of(here), [], [], 0.0).overhead == 0.0
    assert call_end.event_of(report_of(), [], [], 0.0).overhead == 0.0


def test_the_event_of_a_call_left_to_nvcc_has_its_reason_and_no_stages(work):
    report = report_of(CICC, product="")
    report.leave_to_nvcc = "link"
    event = call_end.event_of(report, ["a.cu"], ["-o", "b.o"], 0.0)
    assert (event.outcome, event.reason, event.product) == ("bypass", "link", f"{work}/b.o")
    assert (event.store_fault, event.stages, event.cause) == ("disk_full", [], "")
    assert call_end.event_of(report, [], [], 0.0).product == ""
    assert call_end.event_of(Report(), [], [], 0.0).cause == ""


@pytest.mark.parametrize(
    ("arguments", "product", "sources"),
    [
        ("-c a.cu -o x.o", "work/x.o", "a.cu"), ("--output-file ../b.o b.cpp -DX.cu", "b.o", "b.cpp"),
        ("-D secret.cu a.ptx -o", "", "a.ptx"), ("--define-macro x.o lib.a a.txt", "", "lib.a"),
        ("a.o -o one.o -o two.o", "work/one.o", "a.o"), ("", "", ""),
    ],
)  # fmt: skip
def test_product_and_sources_of_a_bypassed_call_are_guessed(
    settings, cache_dir, tmp_path, arguments, product, sources
):
    call_end.record_bypass(settings, "link", "", arguments.split(), time.monotonic())
    event = event_in(cache_dir)
    assert (event.outcome, event.reason, event.sources) == ("bypass", "link", sources.split())
    assert event.product == (str(tmp_path / product) if product else "")
    assert (tmp_path / "log").read_text().endswith(" bypass link\n")


def test_the_detail_of_a_bypass_and_wrong_settings_are_in_the_log_alone(cache_dir, tmp_path):
    environ = {"NVCCACHE_DIR": cache_dir, "NVCCACHE_LOG": str(tmp_path / "log"), "NVCCACHE_JOBS": "many"}
    call_end.record_bypass(config.load(environ), "unknown_option", "--token=secret", [], 0.0)
    text = (tmp_path / "log").read_text()
    assert " bypass unknown_option --token=" in text and "secret" not in text
    assert "wrong setting: " in text and "`many`" in text
    del environ["NVCCACHE_LOG"]
    call_end.record_bypass(config.load(environ), "unknown_option", "--token=secret", [], 0.0)
    assert (tmp_path / "log").read_text() == text
    assert len(list(events.read(cache_dir))) == 2


def test_a_readonly_call_and_one_without_a_cache_are_not_counted(cache_dir):
    call_end.record(config.load({"NVCCACHE_DIR": cache_dir, "NVCCACHE_READONLY": "1"}), event_line.Event(), 0)
    assert not os.path.exists(cache_dir)


def test_a_call_in_a_removed_directory_is_counted_and_a_large_log_is_merged(
    settings, cache_dir, tmp_path, monkeypatch
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for large in (event_line.LARGE, 1):
        monkeypatch.setattr(event_line, "LARGE", large)
        call_end.record(settings, event_line.Event(outcomes.FAULT), 0.0)
        assert os.path.exists(f"{cache_dir}/journal/{event_line.OLD_LOG}") == (large == 1)
    assert [event.directory for event in events.read(cache_dir)] == ["", ""]

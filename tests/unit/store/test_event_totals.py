"""The event log and its totals: no line lost, none counted twice, and no call disturbed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest

from made_events import event, stages_of
from nvccache import outcomes
from nvccache.store import event_line, event_totals, events
from unprivileged import read_only, unreadable

KINDS = ("ptxas", "cicc", "nvlink")  # requested by a caller, in its own order
STAGES = [("cicc", False, 2.0), ("ptxas", True, 0.5)]
MISS = event(outcomes.MISS, stages=STAGES, tool_saved=0.5, wall_saved=0.25, seconds=2.5, started=1000.0)
# A valid line, and for each field a value that makes it invalid.
LINE = (
    "1000.0\t1.0\tmiss\t\t/cwd\t/a.o\ta.cu\t\t7\t\t\t0.0\t0.0\t\t\t1\t"
    "cicc\x1f\x1fran\x1f\x1f0\x1f1\x1f1\x1f-1\x1flocal\x1f\x1f0\x1f0\t."
)


def made(product, outcome=outcomes.DIRECT_HIT):
    return event(outcome, stages=STAGES, product=product)


def files_of(cache_dir):
    """The files in the log's folder, with one name for all old logs."""
    names = os.listdir(os.path.join(cache_dir, "journal"))
    return sorted({re.sub("events-.*", "events", name) for name in names})


FOLDED = ["events", "totals-v1.json"]  # what a fold leaves


def log_of(cache_dir):
    return os.path.join(cache_dir, "journal", "calls-v6.log")


def totals_file_of(cache_dir):
    return os.path.join(cache_dir, "journal", "totals-v1.json")


@pytest.fixture
def cache_dir(tmp_path):
    return str(tmp_path / "cache")


@pytest.mark.parametrize("product", ["/a/b.o", "/tab\tbed/a\nb%09.o", "/\xfc\udcff.o"])
@pytest.mark.parametrize("is_folded", [False, True])
def test_the_last_call_that_made_a_product_is_found(cache_dir, product, is_folded):
    for call in (
        made(product, outcomes.MISS),
        made(product),
        made("/other.o", outcomes.FAILED),
        event("bypass"),
    ):
        event_line.append(cache_dir, call)
    if is_folded:
        event_totals.fold(cache_dir)
        assert not os.path.exists(log_of(cache_dir))
    found = events.last_call(cache_dir, product)
    assert (found.outcome, found.product, stages_of(found)) == (outcomes.DIRECT_HIT, product, STAGES)
    assert events.last_call(cache_dir).product == "/other.o"
    assert events.last_call(cache_dir, "/unknown.o") is None


def test_a_line_that_was_torn_is_not_the_last_call(cache_dir):
    event_line.append(cache_dir, made("/a.o"))
    with open(log_of(cache_dir), "ab") as log:
        log.write(LINE.encode()[:-5] + b"\n" + LINE.replace("1000.0", "x").encode() + b"\n")
    assert events.last_call(cache_dir, "/a.o").outcome == outcomes.DIRECT_HIT


def test_only_the_newest_logs_are_kept_for_who_asks(cache_dir, monkeypatch):
    monkeypatch.setattr(event_line, "LARGE", 300)
    monkeypatch.setattr(event_totals, "_MOST_KEPT", 3000)
    for number in range(50):
        event_line.append(cache_dir, made(f"/{number}.o"))
        if event_line.is_large(cache_dir):
            event_totals.fold(cache_dir)
    kept = [entry.stat().st_size for entry in os.scandir(os.path.join(cache_dir, "journal"))]
    assert sum(kept) <= 3000 + 300 + os.path.getsize(totals_file_of(cache_dir))
    assert events.last_call(cache_dir, "/49.o")
    assert events.last_call(cache_dir, "/0.o") is None
    assert event_totals.read(cache_dir)["calls"]["direct_hit"] == 50


def test_events_come_back_as_they_were_in_the_order_in_which_calls_ended(cache_dir):
    first = made("/tab\tbed\nand%1F\x1f.o", outcomes.PARTIAL_HIT)
    first.started, first.seconds, first.directory, first.pid = 1000.25, 2.5, "/cwd\udcff", 4711
    first.sources, first.cause, first.reason = ["a.cu", "b\x1f.cu"], "`x.h` changed", "linked"
    first.wall_saved, first.tool_saved = -0.5, 3.0
    first.stages[0].why, first.stages[0].architecture = "its input\tchanged", "compute_80"
    first.stages[0].start, first.stages[0].slot, first.stages[0].wall = 0.125, 3, 1.5
    event_line.append(cache_dir, first)
    event_totals.fold(cache_dir)
    event_line.append(cache_dir, made("/later.o"))
    found = list(events.read(cache_dir))
    assert [event.product for event in found] == [first.product, "/later.o"]
    for read, written in zip([found[0], *found[0].stages], [first, *first.stages], strict=True):
        for field in written.FIELDS:
            assert getattr(read, field.name) == getattr(written, field.name), field.name
    assert [event.product for event in events.read(cache_dir, since=1001.0)] == []


def test_a_call_with_very_much_to_tell_is_one_line_of_bounded_length(cache_dir):
    call = made("/a.o")
    call.sources, call.cause = ["x" * 100] * 1000, "y" * 10_000
    event_line.append(cache_dir, call)
    assert os.path.getsize(log_of(cache_dir)) < 6000
    (found,) = events.read(cache_dir)
    assert found.product == "/a.o"


@pytest.mark.parametrize(
    ("gaps", "count"),
    [([], 0), ([0], 1), ([0, 30, 30], 3), ([0, 500, 30], 2), ([0, 30, 500], 1), ([0, 500, 500], 1)],
)
def test_a_pause_without_calls_ends_a_build(gaps, count):
    now, calls = 1000.0, []
    for gap in gaps:
        now += gap
        calls.append(event("miss", started=now, seconds=1.0))
    assert len(events.last_build(calls)) == count


def test_each_run_of_a_build_tool_is_a_build_however_long_it_pauses():
    """Even if they overlap, with calls of no build tool in between."""

    def call(at, build, product):
        return event("miss", started=at, seconds=1.0, build=build, product=product)

    calls = [call(0.0, "7-1", "/a.o"), call(1.0, "", "/x.o"), call(2.0, "8-9", "/a.o"), call(3.0, "", "/y.o")]
    calls += [call(500.0, "7-1", "/b.o"), call(500.0, "", "/z.o")]
    found = [[call.product for call in build] for build in events.builds(calls)]
    assert found == [["/a.o", "/b.o"], ["/x.o", "/y.o"], ["/a.o"], ["/z.o"]]


def test_where_no_build_tool_is_known_a_product_that_is_made_again_begins_a_build():
    calls = [event("miss", started=at, seconds=1.0, product=f"/{at % 2}.o") for at in range(4)]
    assert [len(build) for build in events.builds(calls)] == [2, 2]


def test_a_long_compile_is_no_pause():
    long = event("miss", started=1000.0, seconds=700.0)
    short = [event("miss", started=at, seconds=1.0) for at in (1001.0, 1650.0)]
    assert len(events.last_build([*short, long])) == 3


def test_a_call_under_a_wrong_clock_does_not_stay_in_the_last_build():
    calls = [event("miss", started=time.time() - 60.0), event("miss", started=4e9)]
    assert events.last_build(calls) == calls[:1]


def test_calls_fall_into_builds_at_the_pauses():
    """Whatever order they are in; a long call holds a build together."""
    at = [1000.0, 1030.0, 1500.0, 1501.0, 1700.0, 2300.0]
    calls = [event("miss", started=begun, seconds=1.0) for begun in at]
    calls[3].seconds = 150.0
    found = events.builds([*calls[3:], *calls[:3]])
    assert [[call.started for call in build] for build in found] == [at[:2], at[2:5], at[5:]]
    assert events.last_build(calls) == found[-1]
    assert [len(build) for build in events.builds(calls, pause=0.0)] == [1, 1, 2, 1, 1]
    assert events.builds([]) == []


@pytest.mark.parametrize("is_folded", [False, True])
def test_the_newest_calls_come_first_as_far_as_they_hold_a_text(cache_dir, is_folded):
    for product in ("/a.o", "/tab\tbed.o", "/b.o"):
        event_line.append(cache_dir, made(product))
    if is_folded:
        event_totals.fold(cache_dir)
    event_line.append(cache_dir, made("/a.o", outcomes.MISS))
    assert [call.product for call in events.newest(cache_dir)] == ["/a.o", "/b.o", "/tab\tbed.o", "/a.o"]
    assert [call.outcome for call in events.newest(cache_dir, "/a.o")] == ["miss", "direct_hit"]
    assert [call.product for call in events.newest(cache_dir, "\tbed")] == ["/tab\tbed.o"]


def test_missing_journal_is_all_zeros_and_is_not_made(cache_dir):
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["calls"] == dict.fromkeys(outcomes.OUTCOMES, 0)
    assert tuple(totals["stages"]) == KINDS
    assert totals["stages"]["cicc"] == {
        "hit": 0, "miss": 0, "replayed": 0, "seconds": 0, "seconds_saved": 0,
    }  # fmt: skip
    assert totals["bypass_reasons"] == {}
    assert totals["seconds_saved"] == 0
    assert not os.path.exists(cache_dir)


def test_calls_add_up(cache_dir):
    event_line.append(cache_dir, MISS)
    event_line.append(cache_dir, MISS)
    event_line.append(cache_dir, event(outcomes.BYPASS, "link", seconds=0.1, started=999.0))
    event_line.append(cache_dir, made("/a.o"))
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["calls"]["miss"] == 2
    assert totals["calls"]["bypass"] == 1
    assert totals["bypass_reasons"] == {"link": 1}
    assert totals["stages"]["ptxas"] == {
        "hit": 2, "miss": 0, "replayed": 1, "seconds": 0, "seconds_saved": 1.5,
    }  # fmt: skip
    assert (totals["seconds_saved"], totals["wall_seconds_saved"]) == (1.0, 0.5)
    assert (totals["seconds"], totals["since"]) == (5.1, 999.0)
    assert event_totals.of_events(events.read(cache_dir), KINDS) == totals


def test_folding_keeps_the_sum_and_removes_the_lines(cache_dir):
    event_line.append(cache_dir, MISS)
    first = event_totals.read(cache_dir)
    assert os.listdir(os.path.join(cache_dir, "journal")) == [event_line.LOG]  # to read is not to fold
    event_totals.fold(cache_dir)
    assert files_of(cache_dir) == FOLDED
    assert event_totals.read(cache_dir) == first
    event_line.append(cache_dir, MISS)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 2


def test_malformed_lines_are_ignored(cache_dir):
    assert list(events.parse(LINE.encode()))
    event_line.append(cache_dir, MISS)
    with open(log_of(cache_dir), "ab") as log:
        log.write(b"\x00\xff\xfe\n\t\t\nmiss\nmiss\t\t1\t0\t.\n")
        for whole, damaged in (
            ("1000.0", "nan"), ("\t1.0", "\t1e300"), ("\t7\t", "\tpid\t"), ("ran", "maybe"), ("-1", "x"),
            ("local", "local\x1f"), ("\x1flocal\x1f", ""), ("\t0.0\t0.0", "\t0.0\tinf"), ("\t.", ""),
            ("\t.", "\t2."),
        ):  # fmt: skip
            log.write(LINE.replace(whole, damaged, 1).encode() + b"\n")
    event_line.append(cache_dir, MISS)
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["calls"] == {**dict.fromkeys(outcomes.OUTCOMES, 0), "miss": 2}
    assert totals["stages"]["cicc"]["miss"] == 2


def test_words_of_a_newer_version_are_kept_for_it_and_calls_are_counted(cache_dir):
    event_line.append(cache_dir, event("remote_hit", stages=[("tileiras", False, 1.0), ("cicc", False, 1.0)]))
    event_line.append(cache_dir, event(outcomes.BYPASS, "new_reason"))
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["calls"] == {**dict.fromkeys(outcomes.OUTCOMES, 0), "bypass": 1, "remote_hit": 1}
    assert set(totals["stages"]) == set(KINDS)
    assert totals["stages"]["cicc"]["miss"] == 1
    assert totals["bypass_reasons"] == {"new_reason": 1}
    event_totals.fold(cache_dir)
    with open(totals_file_of(cache_dir)) as stream:
        text = stream.read()
    assert "calls.remote_hit" in text
    assert "stages.tileiras.miss" in text


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"counters": 3, "folded": ""}', '{"counters": {"calls.miss": "x"}, "folded": ""}',
     '{"counters": {"calls.miss": Infinity}, "folded": ""}',
     '{"counters": {"calls.miss": NaN}, "folded": ""}'],
)  # fmt: skip
def test_damaged_totals_count_from_zero(cache_dir, damage):
    event_line.append(cache_dir, MISS)
    with open(totals_file_of(cache_dir), "w") as stream:
        stream.write(damage)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 1


def test_reset_returns_what_it_sets_to_zero(cache_dir):
    event_line.append(cache_dir, MISS)
    assert event_totals.reset(cache_dir)["calls"]["miss"] == 1
    assert event_totals.read(cache_dir)["calls"]["miss"] == 0
    event_line.append(cache_dir, MISS)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 1


def test_reset_of_a_missing_journal_makes_nothing(cache_dir):
    event_totals.reset(cache_dir)
    assert not os.path.exists(cache_dir)


def test_fold_that_was_killed_before_the_totals_were_written_is_made_up_for(cache_dir, monkeypatch):
    event_line.append(cache_dir, MISS)
    with monkeypatch.context() as killed:
        killed.setattr(event_totals, "_write_totals", stop)
        with pytest.raises(KeyboardInterrupt):
            event_totals.fold(cache_dir)
    event_line.append(cache_dir, MISS)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 2


def test_fold_that_was_killed_after_the_totals_were_written_counts_once(cache_dir, monkeypatch):
    event_line.append(cache_dir, MISS)
    with monkeypatch.context() as killed:
        killed.setattr(event_totals, "_drop_oldest", stop)
        with pytest.raises(KeyboardInterrupt):
            event_totals.fold(cache_dir)
    assert len(os.listdir(os.path.join(cache_dir, "journal"))) == 2
    event_line.append(cache_dir, MISS)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 2
    event_totals.fold(cache_dir)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 2
    assert files_of(cache_dir) == FOLDED


def test_line_written_after_its_log_was_closed_is_written_again(cache_dir, monkeypatch):
    """A writer that opens the log before a fold and writes after it neither loses nor duplicates its line."""
    event_line.append(cache_dir, MISS)
    real_write = os.write

    def fold_first(descriptor, line):
        monkeypatch.setattr(os, "write", real_write)
        event_totals.fold(cache_dir)
        assert event_totals.read(cache_dir)["calls"]["miss"] == 1
        return real_write(descriptor, line)

    monkeypatch.setattr(os, "write", fold_first)
    event_line.append(cache_dir, MISS)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 2


def test_line_written_between_renaming_and_closing_is_counted_once(cache_dir, monkeypatch):
    event_line.append(cache_dir, MISS)
    real_write, real_rename = os.write, os.rename

    def rename_first(descriptor, line):
        monkeypatch.setattr(os, "write", real_write)
        real_rename(log_of(cache_dir), os.path.join(cache_dir, "journal", "events-v6.1-1.log"))
        return real_write(descriptor, line)

    monkeypatch.setattr(os, "write", rename_first)
    event_line.append(cache_dir, MISS)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 2


# A later version, whose calls and stages have one more fact.
LATER = """
import nvccache.store, os
folder = nvccache.store.__path__[0]
with open(f"{folder}/event_line.py") as stream:
    text = stream.read()
for row in (
    '    jobs: int = row(AT_LEAST_ONE, 1, gap=True)',
    '    in_vain: float = row(SECONDS, 0.0, "in_vain.seconds")',
):
    assert row in text
    text = text.replace(row, f'{row}\\n    weight: int = row(COUNT, 1, "weights.sum")')
from types import ModuleType
import sys
module = sys.modules["nvccache.store.event_line"] = nvccache.store.event_line = ModuleType("event_line")
exec(compile(text, "event_line.py", "exec"), module.__dict__)
"""
WRITE_LATER = """
call = module.Event("miss", started=2000.0)
call.weight, call.stages = 7, [module.StageEvent("cicc", module.RAN, 1.0)]
call.stages[0].weight = 5
module.append(sys.argv[1], call)
"""
READ_LATER = """
import json
from nvccache.store import event_totals, events
found = [json.loads(json.dumps(events.to_json(call))) for call in events.read(sys.argv[1])]
weights = [[call["weight"], *(stage["weight"] for stage in call["stages"])] for call in found]
print(json.dumps([weights, event_totals.read(sys.argv[1])["weights"]]))
"""


def test_a_new_fact_is_one_row_and_lines_with_and_without_it_are_read_by_all_versions(cache_dir):
    """Older lines have its default, and older versions count the call."""

    def later(program):
        argv = [sys.executable, "-c", LATER + program, cache_dir]
        return subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout

    event_line.append(cache_dir, event("miss", stages=[("cicc", False, 2.0)]))
    later(WRITE_LATER)
    assert json.loads(later(READ_LATER)) == [[[1, 1], [7, 5]], {"sum": 14}]
    assert [stages_of(call) for call in events.read(cache_dir)] == [
        [("cicc", False, 2.0)],
        [("cicc", False, 1.0)],
    ]
    counted = event_totals.read(cache_dir, ["cicc"])
    assert (counted["calls"]["miss"], counted["stages"]["cicc"]["seconds"]) == (2, 3.0)


def test_a_log_is_counted_after_the_last_one_under_a_clock_that_was_put_back(cache_dir, monkeypatch):
    for clock in (2_000_000_000, 1_000_000_000, 1_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda clock=clock: clock)
        event_line.append(cache_dir, MISS)
        event_totals.fold(cache_dir)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 3
    assert len(list(events.read(cache_dir))) == 3


def test_what_is_folded_while_it_is_read_is_counted_once(cache_dir, monkeypatch):
    """The log is retired and a new one begun between the listing of the logs and the reading."""
    event_line.append(cache_dir, MISS)
    names = event_totals.names

    def renamed_after(root):
        found = names(root)
        monkeypatch.setattr(event_totals, "names", names)
        os.rename(log_of(cache_dir), os.path.join(cache_dir, "journal", "events-v6.1-1.log"))
        event_line.append(cache_dir, MISS)
        return found

    monkeypatch.setattr(event_totals, "names", renamed_after)
    assert event_totals.read(cache_dir)["calls"]["miss"] == 2


def test_file_in_place_of_the_directory_is_one_sentence(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    for read in (event_totals.read, event_totals.reset):
        with pytest.raises(events.JournalError, match=r"cannot read the counts in `.*`: Not a directory"):
            read(str(in_the_way))


def test_read_only_journal_can_be_read_and_not_reset(cache_dir):
    event_line.append(cache_dir, MISS)
    event_totals.fold(cache_dir)
    event_line.append(cache_dir, MISS)
    with read_only(cache_dir) as copy:
        assert event_totals.read(copy)["calls"]["miss"] == 2
        event_line.append(copy, MISS)
        assert event_totals.read(copy)["calls"]["miss"] == 2
        with pytest.raises(events.JournalError, match=r"cannot reset the counts in `.*`: Permission denied"):
            event_totals.reset(copy)


def test_unreadable_journal_is_one_sentence(cache_dir):
    event_line.append(cache_dir, MISS)
    with (
        unreadable(cache_dir) as copy,
        pytest.raises(events.JournalError, match=r"cannot read the counts in `.*`: Permission denied"),
    ):
        event_totals.read(copy)


def stop(*_, **__):
    raise KeyboardInterrupt


def test_faults_besides_the_compile_are_counted_and_reported(cache_dir):
    call = made("/a.o")
    call.store_fault, call.wrong_settings = "disk_full", "jobs,max_size"
    event_line.append(cache_dir, call)
    event_line.append(cache_dir, made("/b.o"))
    totals = event_totals.read(cache_dir, KINDS)
    assert totals["store_faults"] == {"disk_full": 1}
    assert totals["wrong_settings"] == {"jobs": 1, "max_size": 1}
    found = events.last_call(cache_dir, "/a.o")
    assert (found.store_fault, found.wrong_settings) == ("disk_full", "jobs,max_size")
    assert stages_of(found) == STAGES
    assert event_totals.zeros()["store_faults"] == {}

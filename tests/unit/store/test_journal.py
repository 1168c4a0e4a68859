"""The journal: no line lost, none counted twice, and nothing of it ever in the way of a call."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nvccache import outcomes
from nvccache.store import journal, journal_line
from nvccache.store.journal_line import Call
from unprivileged import read_only, unreadable

STAGES = ("ptxas", "cicc", "nvlink")  # those that somebody asks for, in an order of theirs

MISS = Call(
    outcomes.MISS, stages=[("cicc", False, 2.0), ("ptxas", True, 0.5)], seconds_saved=0.5, seconds=2.5
)

FOLDED = ["recent-v3.log", "totals-v1.json"]  # what a fold leaves


def made(product, outcome=outcomes.DIRECT_HIT):
    call = Call(outcome, stages=MISS.stages)
    call.product = product
    return call


def log_of(cache_dir):
    return os.path.join(cache_dir, "journal", "calls-v3.log")


def totals_file_of(cache_dir):
    return os.path.join(cache_dir, "journal", "totals-v1.json")


@pytest.mark.parametrize("product", ["/a/b.o", "/tab\tbed/a\nb%09.o", "/\xfc\udcff.o"])
@pytest.mark.parametrize("is_folded", [False, True])
def test_the_last_call_that_made_a_product_is_told(cache_dir, product, is_folded):
    for call in (
        made(product, outcomes.MISS),
        made(product),
        made("/other.o", outcomes.FAILED),
        Call("bypass"),
    ):
        journal_line.append(cache_dir, call)
    if is_folded:
        journal.totals(cache_dir)
        assert not os.path.exists(log_of(cache_dir))
    found = journal.last_call(cache_dir, product)
    assert (found.outcome, found.product, found.stages) == (outcomes.DIRECT_HIT, product, MISS.stages)
    assert journal.last_call(cache_dir).product == "/other.o"
    assert journal.last_call(cache_dir, "/unknown.o") is None


def test_a_line_that_was_torn_is_not_the_last_call(cache_dir):
    journal_line.append(cache_dir, made("/a.o"))
    with open(log_of(cache_dir), "ab") as log:
        log.write(b"miss\t\t1.0\t0.0\t/a.o\t\t\tcicc\tmiss\t2.\nmiss\t\tx\t0.0\t/a.o\t\t\t.\n")
    assert journal.last_call(cache_dir, "/a.o").outcome == outcomes.DIRECT_HIT


def test_only_the_last_lines_are_kept_for_who_asks(cache_dir, monkeypatch):
    monkeypatch.setattr(journal_line, "LARGE", 300)
    monkeypatch.setattr(journal, "LARGE", 300)
    for number in range(50):
        journal_line.append(cache_dir, made(f"/{number}.o"))
        if journal_line.is_large(cache_dir):
            journal.fold(cache_dir)
    assert os.path.getsize(os.path.join(cache_dir, "journal", "recent-v3.log")) <= 300
    assert journal.last_call(cache_dir, "/49.o")
    assert journal.last_call(cache_dir, "/0.o") is None


def test_missing_journal_is_all_zeros_and_is_not_made(cache_dir):
    totals = journal.totals(cache_dir, STAGES)
    assert totals["calls"] == dict.fromkeys(outcomes.OUTCOMES, 0)
    assert tuple(totals["stages"]) == STAGES
    assert totals["stages"]["cicc"] == {"hit": 0, "miss": 0, "seconds": 0, "seconds_saved": 0}
    assert totals["bypass_reasons"] == {}
    assert totals["seconds_saved"] == 0
    assert not os.path.exists(cache_dir)


def test_calls_add_up(cache_dir):
    journal_line.append(cache_dir, MISS)
    journal_line.append(cache_dir, MISS)
    journal_line.append(cache_dir, Call(outcomes.BYPASS, "link", seconds=0.1))
    totals = journal.totals(cache_dir, STAGES)
    assert totals["calls"]["miss"] == 2
    assert totals["calls"]["bypass"] == 1
    assert totals["bypass_reasons"] == {"link": 1}
    assert totals["stages"]["cicc"] == {"hit": 0, "miss": 2, "seconds": 4.0, "seconds_saved": 0}
    assert totals["stages"]["ptxas"] == {"hit": 2, "miss": 0, "seconds": 0, "seconds_saved": 1.0}
    assert totals["seconds_saved"] == 1.0


def test_folding_keeps_the_sum_and_removes_the_lines(cache_dir):
    journal_line.append(cache_dir, MISS)
    first = journal.totals(cache_dir)
    assert not os.path.exists(log_of(cache_dir))
    assert sorted(os.listdir(os.path.join(cache_dir, "journal"))) == FOLDED
    assert journal.totals(cache_dir) == first
    journal_line.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


def test_malformed_lines_are_ignored(cache_dir):
    journal_line.append(cache_dir, MISS)
    with open(log_of(cache_dir), "ab") as log:
        log.write(b"\x00\xff\xfe\n\t\t\nmiss\nmiss\t\t1\t0\t.\nmiss\t\tnan\t0\t/a\t\t\t.\n")
        log.write(b"miss\t\t1\t1e300\t/a\t\t\t.\nmiss\t\tx\t0\t/a\t\t\t.\n")
        log.write(b"miss\t\t1\t0\t/a\t\t\tcicc\tmaybe\t1\t.\nmiss\t\t1\t0\t/a\t\t\tcicc\thit\t.\n")
        log.write(b"miss\t\t1.0\t0.0\t/a\t\t\tcicc\tmiss\t2.")  # torn by a full disk
    journal_line.append(cache_dir, MISS)
    totals = journal.totals(cache_dir, STAGES)
    assert totals["calls"] == {**dict.fromkeys(outcomes.OUTCOMES, 0), "miss": 2}
    assert totals["stages"]["cicc"]["miss"] == 2


def test_words_of_a_newer_version_are_kept_for_it_and_not_shown(cache_dir):
    journal_line.append(
        cache_dir, Call("remote_hit", stages=[("tileiras", False, 1.0), ("cicc", False, 1.0)])
    )
    journal_line.append(cache_dir, Call(outcomes.BYPASS, "new_reason"))
    totals = journal.totals(cache_dir, STAGES)
    assert set(totals["calls"]) == set(outcomes.OUTCOMES)
    assert set(totals["stages"]) == set(STAGES)
    assert totals["stages"]["cicc"]["miss"] == 1
    assert totals["bypass_reasons"] == {"new_reason": 1}
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
    journal_line.append(cache_dir, MISS)
    with open(totals_file_of(cache_dir), "w") as stream:
        stream.write(damage)
    assert journal.totals(cache_dir)["calls"]["miss"] == 1


def test_reset_returns_what_it_sets_to_zero(cache_dir):
    journal_line.append(cache_dir, MISS)
    assert journal.reset(cache_dir)["calls"]["miss"] == 1
    assert journal.totals(cache_dir)["calls"]["miss"] == 0
    journal_line.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 1


def test_reset_of_a_missing_journal_makes_nothing(cache_dir):
    journal.reset(cache_dir)
    assert not os.path.exists(cache_dir)


def test_fold_that_was_killed_before_the_totals_were_written_is_made_up_for(cache_dir, monkeypatch):
    journal_line.append(cache_dir, MISS)
    with monkeypatch.context() as killed:
        killed.setattr(journal, "_write_totals", stop)
        with pytest.raises(KeyboardInterrupt):
            journal.totals(cache_dir)
    journal_line.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


def test_fold_that_was_killed_after_the_totals_were_written_counts_once(cache_dir, monkeypatch):
    journal_line.append(cache_dir, MISS)
    with monkeypatch.context() as killed:
        killed.setattr(os, "unlink", stop)
        with pytest.raises(KeyboardInterrupt):
            journal.totals(cache_dir)
    assert len(os.listdir(os.path.join(cache_dir, "journal"))) == len(FOLDED) + 1
    journal_line.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2
    assert sorted(os.listdir(os.path.join(cache_dir, "journal"))) == FOLDED


def test_line_written_after_its_log_was_closed_is_written_again(cache_dir, monkeypatch):
    """A writer that opened the log before a fold and writes after it neither loses nor doubles its line."""
    journal_line.append(cache_dir, MISS)
    real_write = os.write

    def fold_first(descriptor, line):
        monkeypatch.setattr(os, "write", real_write)
        assert journal.totals(cache_dir)["calls"]["miss"] == 1
        return real_write(descriptor, line)

    monkeypatch.setattr(os, "write", fold_first)
    journal_line.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


def test_line_written_between_renaming_and_closing_is_counted_once(cache_dir, monkeypatch):
    journal_line.append(cache_dir, MISS)
    real_write, real_rename = os.write, os.rename

    def rename_first(descriptor, line):
        monkeypatch.setattr(os, "write", real_write)
        real_rename(log_of(cache_dir), os.path.join(cache_dir, "journal", "folding-v3.1-1.log"))
        return real_write(descriptor, line)

    monkeypatch.setattr(os, "write", rename_first)
    journal_line.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


APPENDER = """
import sys
from nvccache.store import journal_line as calls, journal
for _ in range(int(sys.argv[2])):
    calls.append(sys.argv[1], calls.Call("miss", stages=[("cicc", False, 1.0)]))
"""


def test_no_line_is_lost_or_doubled_while_processes_append_and_fold(cache_dir):
    """A few processes append while two of them and this one fold as fast as they can."""
    calls = 400
    folder = APPENDER + "    journal.totals(sys.argv[1])\n"
    programs = [APPENDER, APPENDER, folder, folder]
    children = [
        subprocess.Popen([sys.executable, "-c", program, cache_dir, str(calls)]) for program in programs
    ]
    while any(child.poll() is None for child in children):
        journal.totals(cache_dir)
    assert [child.returncode for child in children] == [0] * len(children)
    totals = journal.totals(cache_dir, STAGES)
    assert totals["calls"]["miss"] == calls * len(children)
    assert totals["stages"]["cicc"] == {
        "hit": 0, "miss": calls * len(children), "seconds": float(calls * len(children)), "seconds_saved": 0,
    }  # fmt: skip


def test_file_in_place_of_the_directory_is_one_sentence(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    for read in (journal.totals, journal.reset):
        with pytest.raises(journal.JournalError, match=r"cannot read the counts in `.*`: Not a directory"):
            read(str(in_the_way))


def test_read_only_journal_can_be_read_and_not_reset(cache_dir):
    journal_line.append(cache_dir, MISS)
    journal.totals(cache_dir)
    journal_line.append(cache_dir, MISS)
    with read_only(cache_dir) as copy:
        assert journal.totals(copy)["calls"]["miss"] == 2
        journal_line.append(copy, MISS)
        assert journal.totals(copy)["calls"]["miss"] == 2
        with pytest.raises(journal.JournalError, match=r"cannot reset the counts in `.*`: Permission denied"):
            journal.reset(copy)


def test_unreadable_journal_is_one_sentence(cache_dir):
    journal_line.append(cache_dir, MISS)
    with (
        unreadable(cache_dir) as copy,
        pytest.raises(journal.JournalError, match=r"cannot read the counts in `.*`: Permission denied"),
    ):
        journal.totals(copy)


def stop(*_, **__):
    raise KeyboardInterrupt


def test_what_went_wrong_beside_the_compile_is_counted_and_told(cache_dir):
    call = made("/a.o")
    call.store_fault, call.wrong_settings = "disk_full", "jobs,max_size"
    journal_line.append(cache_dir, call)
    journal_line.append(cache_dir, made("/b.o"))
    totals = journal.totals(cache_dir, STAGES)
    assert totals["store_faults"] == {"disk_full": 1}
    assert totals["wrong_settings"] == {"jobs": 1, "max_size": 1}
    found = journal.last_call(cache_dir, "/a.o")
    assert (found.store_fault, found.wrong_settings) == ("disk_full", "jobs,max_size")
    assert found.stages == MISS.stages
    assert journal.nothing()["store_faults"] == {}

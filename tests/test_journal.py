"""The journal: no line lost, none counted twice, and nothing of it ever in the way of a call."""

from __future__ import annotations

import os
import subprocess
import sys

import filelock
import pytest

from nvccache import journal, outcomes
from nvccache.journal import Call
from unprivileged import read_only, unreadable

assert filelock.FileLock  # loaded before a test gives up the right to read the interpreter

MISS = Call(
    outcomes.MISS, stages=[("cicc", False, 2.0), ("ptxas", True, 0.5)], seconds_saved=0.5, seconds=2.5
)


def log_of(cache_dir):
    return os.path.join(cache_dir, "journal", "calls-v1.log")


def totals_file_of(cache_dir):
    return os.path.join(cache_dir, "journal", "totals-v1.json")


@pytest.fixture
def cache_dir(tmp_path):
    return str(tmp_path / "cache")


def test_missing_journal_is_all_zeros_and_is_not_made(cache_dir):
    totals = journal.totals(cache_dir)
    assert totals["calls"] == dict.fromkeys(outcomes.OUTCOMES, 0)
    assert list(totals["stages"]) == list(outcomes.STAGES)
    assert totals["stages"]["cicc"] == {"hit": 0, "miss": 0, "seconds": 0, "seconds_saved": 0}
    assert totals["bypass_reasons"] == {}
    assert totals["seconds_saved"] == 0
    assert not os.path.exists(cache_dir)


def test_calls_add_up(cache_dir):
    journal.append(cache_dir, MISS)
    journal.append(cache_dir, MISS)
    journal.append(cache_dir, Call(outcomes.BYPASS, "link", seconds=0.1))
    totals = journal.totals(cache_dir)
    assert totals["calls"]["miss"] == 2
    assert totals["calls"]["bypass"] == 1
    assert totals["bypass_reasons"] == {"link": 1}
    assert totals["stages"]["cicc"] == {"hit": 0, "miss": 2, "seconds": 4.0, "seconds_saved": 0}
    assert totals["stages"]["ptxas"] == {"hit": 2, "miss": 0, "seconds": 0, "seconds_saved": 1.0}
    assert totals["seconds_saved"] == 1.0


def test_folding_keeps_the_sum_and_removes_the_lines(cache_dir):
    journal.append(cache_dir, MISS)
    first = journal.totals(cache_dir)
    assert not os.path.exists(log_of(cache_dir))
    assert os.listdir(os.path.join(cache_dir, "journal")) == ["totals-v1.json"]
    assert journal.totals(cache_dir) == first
    journal.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


def test_malformed_lines_are_ignored(cache_dir):
    journal.append(cache_dir, MISS)
    with open(log_of(cache_dir), "ab") as log:
        log.write(b"\x00\xff\xfe\n\t\t\nmiss\nmiss\t\tnan\t0\t.\nmiss\t\t1\t1e300\t.\n")
        log.write(b"miss\t\t1\t0\tcicc\tmaybe\t1\t.\nmiss\t\t1\t0\tcicc\thit\t.\nmiss\t\tx\t0\t.\n")
        log.write(b"miss\t\t1.0\t0.0\tcicc\tmiss\t2.")  # torn by a full disk
    journal.append(cache_dir, MISS)
    totals = journal.totals(cache_dir)
    assert totals["calls"] == {**dict.fromkeys(outcomes.OUTCOMES, 0), "miss": 2}
    assert totals["stages"]["cicc"]["miss"] == 2


def test_words_of_a_newer_version_are_kept_for_it_and_not_shown(cache_dir):
    journal.append(cache_dir, Call("remote_hit", stages=[("tileiras", False, 1.0), ("cicc", False, 1.0)]))
    journal.append(cache_dir, Call(outcomes.BYPASS, "new_reason"))
    totals = journal.totals(cache_dir)
    assert set(totals["calls"]) == set(outcomes.OUTCOMES)
    assert set(totals["stages"]) == set(outcomes.STAGES)
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
    journal.append(cache_dir, MISS)
    with open(totals_file_of(cache_dir), "w") as stream:
        stream.write(damage)
    assert journal.totals(cache_dir)["calls"]["miss"] == 1


def test_reset_returns_what_it_sets_to_zero(cache_dir):
    journal.append(cache_dir, MISS)
    assert journal.reset(cache_dir)["calls"]["miss"] == 1
    assert journal.totals(cache_dir)["calls"]["miss"] == 0
    journal.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 1


def test_reset_of_a_missing_journal_makes_nothing(cache_dir):
    journal.reset(cache_dir)
    assert not os.path.exists(cache_dir)


def test_only_a_large_log_is_folded_on_a_miss(cache_dir, monkeypatch):
    journal.append(cache_dir, MISS)
    journal.fold_if_large(cache_dir)
    assert os.path.exists(log_of(cache_dir))
    monkeypatch.setattr(journal, "_LARGE", 10)
    journal.fold_if_large(cache_dir)
    assert not os.path.exists(log_of(cache_dir))
    assert journal.totals(cache_dir)["calls"]["miss"] == 1


def test_fold_that_was_killed_before_the_totals_were_written_is_made_up_for(cache_dir, monkeypatch):
    journal.append(cache_dir, MISS)
    with monkeypatch.context() as killed:
        killed.setattr(journal, "_write_totals", stop)
        with pytest.raises(KeyboardInterrupt):
            journal.totals(cache_dir)
    journal.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


def test_fold_that_was_killed_after_the_totals_were_written_counts_once(cache_dir, monkeypatch):
    journal.append(cache_dir, MISS)
    with monkeypatch.context() as killed:
        killed.setattr(os, "unlink", stop)
        with pytest.raises(KeyboardInterrupt):
            journal.totals(cache_dir)
    assert len(os.listdir(os.path.join(cache_dir, "journal"))) == 2
    journal.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2
    assert os.listdir(os.path.join(cache_dir, "journal")) == ["totals-v1.json"]


def test_line_written_after_its_log_was_closed_is_written_again(cache_dir, monkeypatch):
    """A writer that opened the log before a fold and writes after it neither loses nor doubles its line."""
    journal.append(cache_dir, MISS)
    real_write = os.write

    def fold_first(descriptor, line):
        monkeypatch.setattr(os, "write", real_write)
        assert journal.totals(cache_dir)["calls"]["miss"] == 1
        return real_write(descriptor, line)

    monkeypatch.setattr(os, "write", fold_first)
    journal.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


def test_line_written_between_renaming_and_closing_is_counted_once(cache_dir, monkeypatch):
    journal.append(cache_dir, MISS)
    real_write, real_rename = os.write, os.rename

    def rename_first(descriptor, line):
        monkeypatch.setattr(os, "write", real_write)
        real_rename(log_of(cache_dir), os.path.join(cache_dir, "journal", "folding-v1.1-1.log"))
        return real_write(descriptor, line)

    monkeypatch.setattr(os, "write", rename_first)
    journal.append(cache_dir, MISS)
    assert journal.totals(cache_dir)["calls"]["miss"] == 2


APPENDER = """
import sys
from nvccache import journal
for _ in range(int(sys.argv[2])):
    journal.append(sys.argv[1], journal.Call("miss", stages=[("cicc", False, 1.0)]))
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
    totals = journal.totals(cache_dir)
    assert totals["calls"]["miss"] == calls * len(children)
    assert totals["stages"]["cicc"] == {
        "hit": 0, "miss": calls * len(children), "seconds": float(calls * len(children)), "seconds_saved": 0,
    }  # fmt: skip


def test_unusable_directory_is_silent_for_a_call(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    journal.append(str(in_the_way), MISS)
    journal.fold_if_large(str(in_the_way))
    assert in_the_way.read_text() == ""


def test_file_in_place_of_the_directory_is_one_sentence(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    for read in (journal.totals, journal.reset):
        with pytest.raises(journal.JournalError, match=r"cannot read the counts in `.*`: Not a directory"):
            read(str(in_the_way))


def test_read_only_journal_can_be_read_and_not_reset(cache_dir):
    journal.append(cache_dir, MISS)
    journal.totals(cache_dir)
    journal.append(cache_dir, MISS)
    with read_only(cache_dir) as copy:
        assert journal.totals(copy)["calls"]["miss"] == 2
        journal.append(copy, MISS)
        assert journal.totals(copy)["calls"]["miss"] == 2
        with pytest.raises(journal.JournalError, match=r"cannot reset the counts in `.*`: Permission denied"):
            journal.reset(copy)


def test_unreadable_journal_is_one_sentence(cache_dir):
    journal.append(cache_dir, MISS)
    with (
        unreadable(cache_dir) as copy,
        pytest.raises(journal.JournalError, match=r"cannot read the counts in `.*`: Permission denied"),
    ):
        journal.totals(copy)


def test_appending_imports_nothing_heavy(cache_dir):
    program = (
        "import os, sys, __future__; before = set(sys.modules); sys.path[:0] = sys.argv[2:]\n"
        "from nvccache import journal\n"
        "journal.append(sys.argv[1], journal.Call('miss'))\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    source = os.path.dirname(os.path.dirname(journal.__file__))
    command = [sys.executable, "-I", "-S", "-c", program, cache_dir, source]
    loaded = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()
    assert loaded == [b"nvccache", b"nvccache.journal", b"nvccache.outcomes"]


def stop(*_):
    raise KeyboardInterrupt

"""Digests of files that have not changed since the call began."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nvccache.files import keys, signatures, untrusted
from nvccache.observation.looked_up import UnchangedFiles
from nvccache.records import input_records
from nvccache.records.facts import CurrentState
from nvccache.records.input_records import CODE, SOURCE, InputRecord, UnreadableError

LATER = 60 * 10**9  # nanoseconds


@pytest.fixture
def header(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("a.h").write_text("a.h")
    return "a.h"


def test_a_file_that_several_stages_read_is_digested_once(cache, header, monkeypatch):
    files, record = UnchangedFiles(cache, time.time_ns() + LATER, {}), InputRecord()
    for _ in range(2):
        files.put_into(record, {header: SOURCE})
        assert record.digests == [keys.digest_file(header)]
        monkeypatch.setattr(untrusted, "read_whole", None)


def test_a_file_that_changes_while_it_is_read_has_no_digest(cache, header, monkeypatch):
    def read_whole(descriptor: int) -> bytes:
        os.utime(header, (1, 1))
        return b""

    monkeypatch.setattr(untrusted, "read_whole", read_whole)
    with pytest.raises(UnreadableError, match="changed during"):
        UnchangedFiles(cache, time.time_ns() + LATER, {}).put_into(InputRecord(), {header: SOURCE})


def test_a_known_digest_is_taken_only_of_an_unchanged_file(cache, header):
    UnchangedFiles(cache, time.time_ns() + LATER, {}).learn(header, "0" * 64)
    with pytest.raises(UnreadableError, match="changed during"):
        UnchangedFiles(cache, signatures.signature_of(header)[4], {}).learn(header, "0" * 64)


@pytest.mark.parametrize("changes", [False, True])
def test_a_file_that_is_as_in_a_record_is_not_read(cache, header, monkeypatch, changes):
    record, read, whole = InputRecord(), [], untrusted.read_whole
    UnchangedFiles(cache, time.time_ns() + LATER, {}).put_into(record, {header: SOURCE})
    if changes:
        Path(header).write_text("b.h")
    now = CurrentState({})
    input_records.is_unchanged(record, now)
    monkeypatch.setattr(untrusted, "read_whole", lambda descriptor: read.append("a.h") or whole(descriptor))
    again = InputRecord()
    UnchangedFiles(cache, time.time_ns() + LATER, now.recorded).put_into(again, {header: SOURCE})
    assert (again.digests, read) == ([keys.digest_file(header)], ["a.h"] * changes)


def test_a_digest_without_comments_says_nothing_of_the_whole_file(header):
    record, now = InputRecord(), CurrentState({})
    record.files, record.kinds, record.digests = [header], CODE, ["7" * 64]
    record.signatures = [signatures.signature_of(header)]
    assert input_records.is_unchanged(record, now)
    assert now.recorded == {}

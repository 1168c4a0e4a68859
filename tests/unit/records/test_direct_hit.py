"""Levels without a process: which one answers, and what the next call finds."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest

from answering import Answering
from nvccache import config
from nvccache.commandline.invocation import Bypass, Invocation, parse
from nvccache.files import keys, signatures
from nvccache.records import call_key, direct_hit, record, replay
from nvccache.records.direct_hit import Request
from nvccache.records.input_records import SOURCE, InputRecord
from nvccache.records.products import Answer
from nvccache.records.record import Entry, Result
from nvccache.store import eviction, store
from nvccache.store.store import Store

LINE = ["-c", "a.cu", "-o", "a.o"]
OBJECT = b"\x7fELF object"
SECOND = 10**9


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory, with a call recorded as one that read `a.cu`, and its product stored."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(direct_hit, "_SAMPLE", 1 << 8)  # the size of the cache is hardly ever counted
    (tmp_path / "work" / "a.cu").write_text("int a;\n")
    cache = Store(str(tmp_path / "cache"))
    cache.add_blob(keys.digest_bytes(OBJECT), OBJECT, compress=False)
    keep(cache, LINE)
    return tmp_path / "work"


def keep(cache: Store, argv: Sequence[str], basis: Sequence[str] = ()) -> Entry:
    """Record a call that made an object, by its normalized text in this directory."""
    call = parse(argv, {})
    assert isinstance(call, Invocation)
    request = Request("nvcc", list(argv), {}, config.load({}))
    request.invocation = call
    given = Answer(Result())
    given.products = [(argv[-1], keys.digest_bytes(OBJECT), not call.is_query)]
    result = call_key.result_of(given, [], call)
    assert result
    result.basis = list(basis)
    key = call_key.make_lookup_key(request, call_key.SAME_DIRECTORY)
    entry = Entry(key, input_record_of_source(), result)
    record.add([entry], cache, time.time_ns())
    return entry


def input_record_of_source() -> InputRecord:
    made = InputRecord()
    made.files, made.kinds, made.digests = ["a.cu"], SOURCE, [keys.digest_file("a.cu")]
    made.signatures = [signatures.UNKNOWN]
    return made


def request(place, argv=LINE, environ: dict[str, str] | None = None, **settings: str) -> Request:
    settings = {"NVCCACHE_DIR": str(place.parent / "cache"), **settings}
    return Request("nvcc", list(argv), environ or {}, config.load(settings))


def answer(place, argv=LINE, **settings: str) -> Answer | Bypass | None:
    return direct_hit.answer(request(place, argv, **settings))


@pytest.fixture
def recorded(monkeypatch) -> list[tuple[InputRecord, Answer]]:
    """What is to be recorded for the launcher."""
    found: list[tuple[InputRecord, Answer]] = []
    monkeypatch.setattr(replay, "add_of_process", lambda _, made, given, *others: found.append((made, given)))
    return found


def settle() -> None:
    """Wait until what was written is old enough for its signature to be trusted."""
    time.sleep(0.15)


@pytest.mark.parametrize(("number", "counted"), [(0, 16), (16, 16), (1, 0)])
def test_about_one_hit_in_sixteen_updates_the_cache_size(place, monkeypatch, number, counted):
    """Also in a container for one compile, where each call has the same process id."""
    counts = []
    monkeypatch.setattr(direct_hit, "_SAMPLE", 16)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(
        eviction, "count_and_limit", lambda _, added, *others: counts.append(sum(added.values()))
    )
    monkeypatch.setattr(
        replay, "add_of_process", lambda *call: call[3].add_record(store.REPLAY, "ab" * 16, bytes(100))
    )
    settle()
    monkeypatch.setattr(os, "urandom", lambda length: bytes([number]) * length)
    assert answer(place)
    assert sum(counts) == counted * 100


@pytest.mark.parametrize("name", ["a.o", "b.o"])
def test_a_direct_hit_writes_the_output_and_makes_a_replay_record(place, recorded, name):
    settle()
    given = [(name, keys.digest_bytes(OBJECT), True)]
    assert answer(place, ["-c", "a.cu", "-o", name]).products == given
    assert [(path.name, path.read_bytes()) for path in place.glob("*.o")] == [(name, OBJECT)]
    ((made, answered),) = recorded
    assert (made.files, made.signatures, answered.products) == (
        ["a.cu"],
        [signatures.signature_of("a.cu")],
        given,
    )


def test_a_touched_source_is_a_direct_hit_and_a_changed_one_is_none(place):
    os.utime("a.cu")
    assert isinstance(answer(place), Answer)
    (place / "a.cu").write_text("int b;\n")
    call = request(place)
    assert direct_hit.answer(call) is None
    assert call.invocation.inputs == ("a.cu",)


def test_a_signature_taken_just_after_a_change_is_unknown_however_long_hashing_took(place, monkeypatch):
    """However long hashing took: a change within the same clock tick would not be noticed."""
    held = input_record_of_source()
    os.utime("a.cu")
    now = Answering()
    assert now.signatures(held.files) != [None]
    monkeypatch.setattr(time, "time_ns", lambda: now.since_ns + 5 * SECOND)
    record.take_signatures(held, now)
    assert held.signatures == [signatures.UNKNOWN]


def test_a_result_whose_object_was_evicted_is_a_miss_and_leaves_the_old_output(place):
    settle()
    answer(place)
    (place / "a.o").write_text("old")
    cache = Store(str(place.parent / "cache"))
    cache.remove_damaged(store.BLOB, keys.digest_bytes(OBJECT))
    assert answer(place) is None
    assert (place / "a.o").read_text() == "old"


def test_a_product_that_cannot_be_written_is_left_to_nvcc(place):
    settle()
    (place / "a.o").mkdir()
    assert answer(place).reason == "unwritable_output"


def test_recaching_uses_no_record(place):
    assert answer(place, NVCCACHE_RECACHE="1") is None


def test_a_readonly_cache_gives_hits_and_writes_nothing(place):
    settle()
    before = sorted((place.parent / "cache").rglob("*"))
    assert isinstance(answer(place, NVCCACHE_READONLY="1"), Answer)
    assert sorted((place.parent / "cache").rglob("*")) == before


@pytest.mark.parametrize(
    ("argv", "reason"),
    [(["-lib", "a.o"], "library"), (["--version", "-dryrun"], "information"), (["-c"], "information")],
)
def test_library_and_version_calls_are_bypassed(place, argv, reason):
    assert answer(place, argv).reason == reason


@pytest.mark.parametrize(("age", "is_marked"), [(0, False), (24 * 3600, True)])
def test_records_and_blobs_behind_a_hit_are_marked_used_a_few_times_a_day(place, age, is_marked):
    """It is needed again when a file has changed, and the launcher does not mark it."""
    cache = Store(str(place.parent / "cache"))
    digest = keys.digest_bytes(b"intermediate")
    cache.add_blob(digest, b"intermediate", compress=False)
    entry = keep(cache, LINE, basis=[cache.name(store.BLOB, digest)])
    used = time.time() - age
    os.utime(cache.path(store.RECORD, entry.lookup_key.key), (used, used))
    os.utime(cache.path(store.BLOB, digest), (1, 1))
    assert isinstance(answer(place), Answer)
    assert (os.stat(cache.path(store.BLOB, digest)).st_mtime > 1) == is_marked


def test_in_readonly_mode_a_query_without_a_stored_answer_is_bypassed(place):
    argv = ["-M", "a.cu", "-o", "a.d"]
    assert answer(place, argv, NVCCACHE_READONLY="1").reason == "preprocess_only"
    assert answer(place, argv) is None
    keep(Store(str(place.parent / "cache")), argv)
    assert isinstance(answer(place, argv, NVCCACHE_READONLY="1"), Answer)
    assert (place / "a.d").read_bytes() == OBJECT

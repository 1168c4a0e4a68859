"""Records: a result holds while an action's inputs are the same; export and import of records."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from answering import Answering
from nvccache.files import keys, signatures
from nvccache.records import input_records, record
from nvccache.records.facts import CurrentState
from nvccache.records.record import LookupKey, Result
from nvccache.store import sections, store
from nvccache.store.store import Store
from sample_entries import (
    FRONT,
    OTHER_FRONT,
    add,
    add_state,
    encoded,
    found_key,
    inputs_in,
    is_there,
    keys_in,
    read,
    stored_keys,
    valid_entries,
)

DIGEST = keys.digest_bytes(b"an object")
KIND = "record-1"


@pytest.fixture
def header(tmp_path) -> Path:
    path = tmp_path / "x.h"
    path.write_text("int x;\n")
    return path


def result_of_everything() -> Result:
    made = Result([("0", DIGEST), ("link/a.o", DIGEST)], b"out\xff\0", b"warning: \xe2\x82\xac\n")
    made.seconds, made.cpu = 1.25, 0.5
    made.facts, made.text = b"\0\xff", [DIGEST, keys.digest_bytes(b"text")]
    made.listed = [("a\udcff.cu", ""), ("/usr/b.h", "1")]
    made.stages, made.basis = ["cicc 1.5"], [f"blob-v3/{DIGEST[:2]}/{DIGEST}"]
    return made


def values_of(result: Result) -> dict[str, object]:
    return {name: getattr(result, name) for name in Result.__slots__}


def parts_of(body: bytes) -> list[bytes]:
    return sections.unpack(KIND, body)


def body_of(*parts: bytes) -> bytes:
    return sections.pack(KIND, list(parts))


def put(cache: Store, body: bytes, lookup_key: LookupKey = FRONT) -> None:
    """Write a record as an attacker, or another version, might."""
    cache.add_record(store.RECORD, lookup_key.key, body)


# What is found.


def test_a_stored_result_is_found_while_its_inputs_are_unchanged(header, cache):
    inputs = read(header)
    inputs.kinds = input_records.PROGRAM
    header.chmod(0o755)
    key = add(cache, inputs, result_of_everything())
    ((_, _, programs),) = record.results_in(encoded(cache))
    assert programs == [(str(header), keys.digest_file(str(header)))]
    entry = record.find(FRONT, Store(cache.root), Answering())
    assert entry and (entry.key, entry.input_record.files) == (key, [str(header)])
    assert values_of(entry.result) == values_of(result_of_everything())
    assert not entry.is_received


def test_results_of_another_call_are_not_found(header, cache):
    assert (found_key(cache), stored_keys(cache)) == ("", [])
    key = add(cache, read(header))
    assert found_key(cache, OTHER_FRONT) == ""
    assert add(cache, read(header), lookup_key=OTHER_FRONT) != key


def test_a_record_keeps_a_result_for_each_content_of_a_header(header, cache):
    first = add(cache, read(header), Result(stdout=b"x"))
    header.write_text("int z;\n")
    second = add(cache, read(header), Result(stdout=b"z"))
    assert first != second
    assert [entry.result.stdout for entry in valid_entries(cache)] == [b"z"]
    header.write_text("int x;\n")
    assert [entry.result.stdout for entry in valid_entries(cache)] == [b"x"]
    header.write_text("int y;\n")
    assert valid_entries(cache) == []


def test_results_that_share_a_changed_file_are_ruled_out_together(header, cache, monkeypatch):
    for text in ("int z;\n", "int y;\n", "int w;\n"):
        header.write_text(text)
        add(cache, read(header))
    header.write_text("int v;\n")
    decoded = []
    decode = input_records.decode
    monkeypatch.setattr(input_records, "decode", lambda *given: decoded.append(1) or decode(*given))
    assert found_key(cache) == "" and len(decoded) == 1


def test_of_several_valid_results_the_newest_is_used(header, cache, tmp_path):
    """An older one that looked up less also holds."""
    first = add(cache, read(header))
    second = add(cache, read(header, absent=tmp_path / "early.h"))
    assert [entry.key for entry in valid_entries(cache)] == [second, first]
    (tmp_path / "early.h").write_text("")
    assert [entry.key for entry in valid_entries(cache)] == [first]


def test_a_record_keeps_its_eight_newest_results(header, cache):
    added = []
    for number in range(12):
        header.write_text(f"int x{number};\n")
        added.append(add(cache, read(header)))
    assert stored_keys(cache) == added[:3:-1]
    header.write_text("int x5;\n")
    again = add(cache, read(header), Result(stdout=b"its last result"))
    assert stored_keys(cache)[0] == again == added[5]
    assert len(stored_keys(cache)) == 8
    assert [entry.result.stdout for entry in valid_entries(cache)] == [b"its last result"]


def test_a_record_that_grows_too_large_keeps_its_newest_result(header, cache, monkeypatch):
    """The newest entry is kept whatever its size."""
    add(cache, read(header), Result(stdout=bytes(300)))
    monkeypatch.setattr(record, "_MOST_BYTES", 1)
    header.write_text("int y;\n")
    newest = add(cache, read(header), Result(stdout=bytes(300)))
    assert stored_keys(cache) == [newest]


def test_a_signature_of_a_file_that_just_changed_is_not_stored(header, cache, tmp_path):
    """The file could be changed again within the tick of the clock that stamped it."""
    settled = tmp_path / "settled.h"
    settled.write_text("")
    made = read(header, settled)
    made.signatures[1] = (1, 2, 3, 4, 5)
    add(cache, made)
    (entry,) = valid_entries(cache)
    assert entry.input_record.signatures == [signatures.UNKNOWN, (1, 2, 3, 4, 5)]


def test_the_loaders_caches_get_signatures_on_this_machine(tmp_path):
    (tmp_path / "ld.so.cache").touch()
    made, now = input_records.InputRecord(), CurrentState({})
    made.machine = [(input_records.LIBRARIES, f"{tmp_path}/ld.so.cache:libx.so", "0" * 64)]
    for settled in (False, True):
        now.since_ns += settled * 60 * 10**9
        record.take_signatures(made, now)
        expected = signatures.signature_of(f"{tmp_path}/ld.so.cache") if settled else signatures.UNKNOWN
        assert made.cache_signatures == [expected]


def test_a_result_is_found_by_its_name_even_if_its_inputs_changed(header, cache):
    add(cache, read(header), Result(stdout=b"x"))
    (entry,) = valid_entries(cache)
    header.write_text("int z;\n")
    add(cache, read(header))
    named = record.find_by_name(entry.name, Store(cache.root))
    assert named and (named.key, named.result.stdout) == (entry.key, b"x")
    for name in ("", entry.key, f"{OTHER_FRONT.key}/{entry.key}", f"{FRONT.key}/{DIGEST}"):
        assert record.find_by_name(name, cache) is None


# What may repeat secrets of a command line.


def test_private_records_are_readable_only_by_their_user_and_not_sent(header, cache):
    inputs, key = read(header), "1" * 64
    Path(cache.root).mkdir(exist_ok=True)
    Path(cache.root).chmod(0o2775)  # a shared cache
    record.add_private(key, inputs, b"-DTOKEN=secret", cache, time.time_ns() + 60 * 10**9)
    (path,) = Path(cache.root, store.PRIVATE).rglob(key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cache.published == {}
    found = record.find_private(key, cache, Answering(answer="an answer"))
    assert found and (found[0].files, found[1]) == (inputs.files, b"-DTOKEN=secret")
    header.write_text("changed")
    assert record.find_private(key, cache, Answering(answer="an answer")) is None
    cache.add_record(store.PRIVATE, key, b"no record")
    assert record.find_private(key, cache, Answering(answer="an answer")) is None
    assert not path.exists()


# Damage.


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no record",
        sections.pack("record-2", [b"a", b"b", b"c"]),
        body_of(b"a", b"b"),
        body_of(b"\xff", b"", b""),
        body_of(*[keys.digest_bytes(b"a").encode(), b"b", b"c"] * 17),
    ],
)
def test_a_malformed_record_is_absent_and_removed(header, cache, body):
    key = add(cache, read(header))
    put(cache, body)
    assert (stored_keys(cache), found_key(cache)) == ([], "")
    assert not is_there(cache)
    assert "damaged" in cache.fault_message
    put(cache, body)
    assert add(cache, read(header)) == key
    assert found_key(cache) == key
    for check in (record.without_hints, record.results_in, lambda theirs: record.merged(body, theirs)):
        with pytest.raises(ValueError):
            check(body)


def test_a_damaged_result_in_a_record_leaves_the_others_usable(header, cache):
    first = add(cache, read(header))
    header.write_text("int z;\n")
    second = add(cache, read(header), result_of_everything())
    header.write_text("int x;\n")
    key, inputs, result, *others = parts_of(encoded(cache))
    for foreign in (b"", b"no inputs", inputs[:-1]):
        put(cache, body_of(key, foreign, result, *others))
        assert (stored_keys(cache), found_key(cache)) == ([first], first)
    for foreign in (b"", b"no result", result[:-1], result.replace(b"result-2", b"result-9", 1)):
        put(cache, body_of(key, inputs, foreign, *others))
        assert (stored_keys(cache), found_key(cache)) == ([first], first)
    assert keys_in(body_of(*others)) == [first] and key.decode() == second


# Export and import of records.


def test_signatures_and_user_are_removed_from_a_record_before_sending(cache, tmp_path):
    result = result_of_everything()
    key = add_state(cache, tmp_path / "x.h", "int x;\n", result)
    here = encoded(cache)
    assert inputs_in(here)[0].signatures != [signatures.UNKNOWN]
    sent = record.without_hints(here)
    (made,) = inputs_in(sent)
    assert (made.signatures, made.directory_signatures) == ([signatures.UNKNOWN], [signatures.UNKNOWN])
    assert made.reader == ""
    assert str(os.stat(tmp_path / "x.h").st_ino).encode() not in sent
    ((its_key, its_result, _),) = record.results_in(sent)
    result.basis = []
    assert (its_key, values_of(its_result)) == (key, values_of(result))
    assert (made.files, made.digests) == ([str(tmp_path / "x.h")], [keys.digest_bytes(b"int x;\n")])
    assert made.names == [[input_records.ABSENT + "none.h"]]
    assert record.without_hints(sent) == sent


def test_merged_records_of_two_caches_have_local_results_first_and_a_limit(cache, tmp_path):
    path, other = tmp_path / "x.h", Store(str(tmp_path / "other"))
    first, second = (
        add_state(cache, path, text, Result(stdout=b"ours")) for text in ("int x;\n", "int y;\n")
    )
    third = add_state(other, path, "int z;\n")
    assert add_state(other, path, "int x;\n", Result(stdout=b"theirs")) == first
    ours, theirs = encoded(cache), encoded(other)
    together = record.merged(ours, theirs)
    assert keys_in(together) == [second, first, third]
    assert [result.stdout for _, result, _ in record.results_in(together)] == [b"ours", b"ours", b""]
    key, *rest = parts_of(theirs)[:3]
    many = body_of(*[part for number in range(16) for part in (b"%064x" % number, *rest)])
    assert len(keys_in(record.merged(many, many))) == 16
    assert keys_in(record.merged(ours, many)) == [second, first, *(f"{number:064x}" for number in range(14))]
    assert keys_in(record.merged(many, body_of(key, *rest))) == [f"{number:064x}" for number in range(16)]

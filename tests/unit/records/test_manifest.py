"""Manifests: a command may be answered without running it while it would read the same."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from nvccache.records.manifest import Found

from nvccache.files import keys, signatures
from nvccache.records import differences, input_records, manifest
from nvccache.records.base_dir import Relocation
from nvccache.records.differences import Present
from nvccache.records.input_records import ABSENT, SOURCE, InputRecord
from nvccache.store import sections, store
from nvccache.store.store import Store

FRONT = keys.digest_bytes(b"front")
OTHER_FRONT = keys.digest_bytes(b"other")
NOWHERE = Relocation("", "/")


@pytest.fixture
def header(tmp_path) -> Path:
    path = tmp_path / "x.h"
    path.write_text("int x;\n")
    return path


def _read(*paths: Path, absent: Path | None = None) -> InputRecord:
    """The input record of a command that has just read these files."""
    made = InputRecord()
    made.files = [str(path) for path in paths]
    made.kinds = SOURCE * len(paths)
    made.digests = [keys.digest_file(str(path)) for path in paths]
    made.signatures = [signatures.of(str(path)) for path in paths]
    if absent:
        made.directories, made.names = [str(absent.parent)], [[ABSENT + absent.name]]
        made.directory_signatures = [signatures.UNKNOWN]
    return made


def _add(cache: Store, made: InputRecord, front: str = FRONT, attached: bytes = b"") -> str:
    key = input_records.key_of(front, made)
    manifest.add(front, Found(key, made, attached), cache, NOWHERE, time.time_ns())
    return key


def _find(cache: Store, front: str = FRONT) -> str:
    """The key under which the result of a command is found, or empty."""
    found = manifest.find(front, cache, NOWHERE, Present({}), lambda topic, subject: "an answer")
    return found.key if found else ""


def _keys(cache: Store) -> list[str]:
    return [found.key for found in manifest.kept_input_records(FRONT, cache, NOWHERE)]


def test_a_input_record_is_found_while_everything_is_as_it_was(header, cache):
    key = _add(cache, _read(header), attached=b"beside\0it")
    found = manifest.find(FRONT, cache, NOWHERE, Present({}), lambda: "")
    assert (found.key, found.attached, found.input_record.files) == (key, b"beside\0it", [str(header)])


def test_an_unknown_command_has_no_input_record(cache):
    assert _find(cache) == ""
    assert _keys(cache) == []


def test_a_changed_header_is_noticed_and_one_changed_back_is_as_it_was(header, cache):
    key = _add(cache, _read(header))
    header.write_text("int z;\n")
    assert _find(cache) == ""
    header.write_text("int x;\n")
    assert _find(cache) == key


def test_each_state_of_the_headers_has_its_own_input_record(header, cache):
    first = _add(cache, _read(header))
    header.write_text("int z;\n")
    second = _add(cache, _read(header))
    assert first != second
    assert _find(cache) == second
    header.write_text("int x;\n")
    assert _find(cache) == first
    header.write_text("int y;\n")
    assert _find(cache) == ""


def test_what_was_looked_for_is_part_of_the_state(header, cache, tmp_path):
    key = _add(cache, _read(header, absent=tmp_path / "early.h"))
    assert key != _add(cache, _read(header))
    assert key != input_records.key_of(FRONT, _read(header, absent=tmp_path / "other.h"))


def test_the_same_state_is_recorded_once(header, cache):
    assert _add(cache, _read(header)) == _add(cache, _read(header))
    assert len(_keys(cache)) == 1


def test_the_newest_input_record_is_tried_first_and_the_oldest_are_dropped(header, cache):
    added = []
    for number in range(12):
        header.write_text(f"int x{number};\n")
        added.append(_add(cache, _read(header)))
    assert _keys(cache) == added[:3:-1]
    header.write_text("int x5;\n")
    again = _add(cache, _read(header))
    assert _keys(cache)[0] == again == added[5]
    assert len(_keys(cache)) == 8


def test_another_command_has_its_own_input_records(header, cache):
    key = _add(cache, _read(header))
    assert _find(cache, OTHER_FRONT) == ""
    assert _add(cache, _read(header), OTHER_FRONT) != key


def test_a_signature_that_could_outlive_a_change_is_not_kept(header, cache, tmp_path):
    """The file could be changed again within the tick of the clock that stamped it."""
    settled = tmp_path / "settled.h"
    settled.write_text("")
    made = _read(header, settled)
    made.signatures[1] = (1, 2, 3, 4, 5)
    _add(cache, made)
    (found,) = manifest.kept_input_records(FRONT, cache, NOWHERE)
    assert found.input_record.signatures == [signatures.UNKNOWN, (1, 2, 3, 4, 5)]


def test_a_input_record_that_is_lost_is_passed_over(header, cache):
    first = _add(cache, _read(header))
    header.write_text("int z;\n")
    second = _add(cache, _read(header))
    os.unlink(cache.path(store.INPUT_RECORD, second))
    assert _keys(cache) == [first]


@pytest.mark.parametrize("body", [b"", b"x" * 63, b"x" * 65, b"/" * 64, bytes(64), "é".encode() * 32])
def test_a_manifest_that_cannot_be_understood_is_absent(header, cache, body):
    key = _add(cache, _read(header))
    cache.add_record(store.MANIFEST, FRONT, body)
    assert _keys(cache) == []
    assert _add(cache, _read(header)) == key
    assert _find(cache) == key


def test_a_input_record_that_cannot_be_understood_is_removed(header, cache):
    key = _add(cache, _read(header))
    whole = cache.find_record(store.INPUT_RECORD, key)
    parts = sections.unpack("input-record-8", whole, 17)
    foreign_parts = ((1, b"ss"), (2, b"\xff"), (3, b"1 2 3\n"), (4, b"no end"), (6, b"one\0"), (7, b"one\0"))
    for at, foreign in foreign_parts:
        cache.add_record(
            store.INPUT_RECORD, key, sections.pack("input-record-8", [*parts[:at], foreign, *parts[at + 1 :]])
        )
        assert _find(cache) == ""
        assert not os.path.exists(cache.path(store.INPUT_RECORD, key))
    cache.add_record(store.INPUT_RECORD, key, whole.replace(b"input-record-8", b"input-record-9", 1))
    assert _find(cache) == ""
    cache.add_record(store.INPUT_RECORD, key, whole)
    assert _find(cache) == key


def test_one_input_record_is_had_by_its_key(header, cache):
    key = _add(cache, _read(header))
    relocation = Relocation("", os.getcwd())
    found = manifest.kept(key, cache, relocation)
    assert (found.key, found.input_record.files) == (key, _read(header).files)
    assert manifest.kept(OTHER_FRONT, cache, relocation) is None
    cache.add_record(store.INPUT_RECORD, key, b"damaged")
    assert manifest.kept(key, cache, relocation) is None
    assert not os.path.exists(cache.path(store.INPUT_RECORD, key))


def test_below_the_base_directory_a_input_record_holds_in_another_checkout(cache, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.h").write_text("int x;\n")
    relocation = [Relocation(str(tmp_path), str(tmp_path / name)) for name in ("one", "two")]
    made = _read(tmp_path / "one" / "x.h")
    manifest.add(
        FRONT, Found(input_records.key_of(FRONT, made), made, b""), cache, relocation[0], time.time_ns()
    )
    found = manifest.find(FRONT, cache, relocation[1], Present({}), lambda: "")
    assert found.input_record.files == [str(tmp_path / "two" / "x.h")]
    (tmp_path / "two" / "x.h").write_text("int y;\n")
    assert manifest.find(FRONT, cache, relocation[1], Present({}), lambda: "") is None
    assert manifest.find(FRONT, cache, relocation[0], Present({}), lambda: "")


@pytest.mark.parametrize("named", ["/proc/self/pagemap", "huge"])
def test_a_record_that_has_something_endless_read_is_asked_once(tmp_path, header, named):
    """With the right checksums, by somebody who may write into the cache."""
    cache = Store(str(tmp_path / "cache"))
    with open(tmp_path / "huge", "wb") as stream:
        stream.truncate(1 << 42)
    made = _read(header)
    made.files[0] = os.path.join(tmp_path, named)
    _add(cache, made)
    assert _find(cache) == "" and _keys(cache) == []


def test_a_record_that_has_much_read_in_vain_is_asked_once(tmp_path, header, monkeypatch):
    monkeypatch.setattr(differences, "_LARGE", 100)
    cache = Store(str(tmp_path / "cache"))
    key = _add(cache, _read(header))
    header.write_text("int y;\n")
    assert _find(cache) == "" and _keys(cache) == [key], "it may come back"
    header.write_text("int y;\n" * 100)
    assert _find(cache) == "" and _keys(cache) == []

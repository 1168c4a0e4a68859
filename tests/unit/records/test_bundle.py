"""Bundles: what other caches keep of a manifest goes there and back, without what tells of one machine."""

from __future__ import annotations

import os
import time

import pytest

from nvccache.files import keys, signatures
from nvccache.records import bundle, input_records, manifest
from nvccache.records.base_dir import Relocation
from nvccache.records.bundle import Bundle
from nvccache.records.input_records import SOURCE, InputRecord
from nvccache.records.manifest import Found
from nvccache.store import sections, store
from nvccache.store.store import Store

FRONT = keys.digest_bytes(b"front")
NOWHERE = Relocation("", "/")


def read(*paths: str) -> InputRecord:
    """The input record of a command that has read these files, and a name that was not there."""
    made = InputRecord()
    made.files = list(paths)
    made.kinds = SOURCE * len(paths)
    made.digests = [keys.digest_file(path) for path in paths]
    made.signatures = [signatures.of(path) for path in paths]
    made.directories, made.names = [os.path.dirname(paths[0])], [["0none.h"]]
    made.directory_signatures = [signatures.of(os.path.dirname(paths[0]))]
    made.names = [[input_records.ABSENT + "none.h"]]
    return made


def add(cache: Store, path, text: str, entry: bytes = b"") -> str:
    path.write_text(text)
    made = read(str(path))
    key = input_records.key_of(FRONT, made)
    manifest.add(FRONT, Found(key, made, b"attached"), cache, NOWHERE, time.time_ns() + 10**12)
    if entry:
        cache.add_record(store.STAGE, key, entry)
    return key


@pytest.fixture
def cache(tmp_path) -> Store:
    return Store(str(tmp_path / "cache"))


def test_what_a_cache_has_under_a_front_key_goes_there_and_back(cache, tmp_path):
    older = add(cache, tmp_path / "x.h", "int x;\n", b"older entry")
    newer = add(cache, tmp_path / "x.h", "int y;\n")
    found = bundle.decode(bundle.of_manifest(FRONT, cache).encode())
    assert list(found.records) == [newer, older]
    assert [entry for _, entry in found.records.values()] == [b"", b"older entry"]
    made, attached = input_records.decode(found.records[older][0], NOWHERE)
    assert made.files == [str(tmp_path / "x.h")]
    assert made.digests == [keys.digest_bytes(b"int x;\n")]
    assert made.names == [[input_records.ABSENT + "none.h"]]
    assert attached == b"attached"


def test_an_unknown_front_key_has_an_empty_bundle(cache):
    assert bundle.of_manifest(FRONT, cache).records == {}


def test_signatures_and_readers_are_neither_sent_nor_believed(cache, tmp_path):
    key = add(cache, tmp_path / "x.h", "int x;\n")
    kept = cache.find_record(store.INPUT_RECORD, key)
    assert input_records.decode(kept, NOWHERE)[0].signatures != [signatures.UNKNOWN]
    sent = bundle.of_manifest(FRONT, cache).encode()
    boastful = sections.pack("bundle-1", [key.encode(), kept, b""])
    for encoded in (sent, boastful):
        record, _ = bundle.decode(encoded).records[key]
        made, _ = input_records.decode(record, NOWHERE)
        assert made.signatures == [signatures.UNKNOWN]
        assert made.directory_signatures == [signatures.UNKNOWN]
        assert made.reader == ""
    parts = sections.unpack_all("bundle-1", sent)
    assert str(os.stat(tmp_path / "x.h").st_ino).encode() not in parts[1]


def test_two_bundles_together_have_the_newer_ones_first_and_no_end_of_them(cache, tmp_path):
    record = cache.find_record(store.INPUT_RECORD, add(cache, tmp_path / "x.h", "int x;\n"))
    ours = Bundle({"a": (record, b"ours"), "b": (record, b"")})
    theirs = Bundle({"c": (record, b""), "a": (record, b"theirs")})
    both = theirs.behind(ours)
    assert list(both.records) == ["a", "b", "c"]
    assert both.records["a"][1] == b"ours"
    many = Bundle({f"{number:064x}": (record, b"") for number in range(40)})
    assert list(bundle.decode(many.encode()).records) == [f"{number:064x}" for number in range(16)]


def test_a_bundle_of_more_records_than_anybody_sends_is_refused(cache, tmp_path):
    record = cache.find_record(store.INPUT_RECORD, add(cache, tmp_path / "x.h", "int x;\n"))
    parts = [part for number in range(17) for part in (f"{number:064x}".encode(), record, b"")]
    assert len(bundle.decode(sections.pack("bundle-1", parts[3:])).records) == 16
    with pytest.raises(ValueError):
        bundle.decode(sections.pack("bundle-1", parts))


def test_a_bundle_is_kept_small(cache, tmp_path):
    record = cache.find_record(store.INPUT_RECORD, add(cache, tmp_path / "x.h", "int x;\n"))
    large = Bundle({name: (record, bytes(20 << 20)) for name in "abc"})
    assert list(bundle.decode(large.encode()).records) == ["a"]


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"no record",
        sections.pack("bundle-2", [b"a", b"b", b"c"]),
        sections.pack("bundle-1", [b"a", b"b"]),
        sections.pack("bundle-1", [b"a", b"no input record", b""]),
        sections.pack("bundle-1", [b"\xff", b"", b""]),
        sections.pack("bundle-1", [b"a", b"b", b"c"] * 100),
    ],
)
def test_what_is_no_bundle_is_refused(foreign):
    with pytest.raises(ValueError):
        bundle.decode(foreign)

"""`nvccache pack` and `nvccache unpack`: a cache in one file, and what is accepted from one."""

from __future__ import annotations

import json
import os

import pytest

from nvccache.cli import pack
from nvccache.files import keys
from nvccache.records.transfer import Transfer
from nvccache.store import store
from nvccache.store.store import Store

CONTENTS = [b"an object", b"another one", os.urandom(5000)]


@pytest.fixture
def other(tmp_path):
    return Store(str(tmp_path / "other"))


@pytest.fixture
def fill(cache_dir):
    def fill(*contents):
        for content in contents:
            Store(cache_dir).add_blob(keys.digest_bytes(content), content, compress=len(content) > 100)

    return fill


def read(cache, contents):
    return [cache.read_blob(keys.digest_bytes(content)) for content in contents]


def test_a_pack_brings_a_cache_to_another_place(nvccache, fill, other, tmp_path):
    fill(*CONTENTS)
    path = str(tmp_path / "a.pack")
    result = nvccache("pack", path, "--json")
    printed = json.loads(result.stdout)
    assert (printed["objects"], printed["bytes"], printed["left_out"]) == (3, os.path.getsize(path), 0)
    result = nvccache("unpack", path, "--json", NVCCACHE_DIR=other.root)
    assert json.loads(result.stdout)["packs"][0]["objects"] == 3
    assert read(other, CONTENTS) == CONTENTS
    assert "3 already present" in nvccache("unpack", path, NVCCACHE_DIR=other.root).stdout


def test_a_compile_is_answered_from_a_pack(nvccache, toolkit, other, tmp_path):
    toolkit.compile()
    path = str(tmp_path / "a.pack")
    assert nvccache("pack", path, NVCCACHE_DIR=toolkit.store().root).exit_code == 0
    assert nvccache("unpack", path, NVCCACHE_DIR=other.root).exit_code == 0
    assert toolkit.answer(NVCCACHE_DIR=other.root)


def test_a_later_pack_has_only_what_is_new(nvccache, fill, other, tmp_path):
    base, more = str(tmp_path / "base"), str(tmp_path / "more")
    fill(*CONTENTS[:2])
    nvccache("pack", base)
    fill(CONTENTS[2])
    printed = nvccache.json("pack", more, "--base", base)
    assert (printed["objects"], printed["left_out"]) == (1, 2)
    assert nvccache("unpack", base, more, NVCCACHE_DIR=other.root).exit_code == 0
    assert read(other, CONTENTS) == CONTENTS


def test_only_what_was_used_lately_is_packed(nvccache, fill, cache_dir, tmp_path):
    fill(*CONTENTS[:2])
    os.utime(Store(cache_dir).path(store.BLOB, keys.digest_bytes(CONTENTS[0])), (1e9, 1e9))
    printed = json.loads(nvccache("pack", str(tmp_path / "a"), "--since", "1h", "--json").stdout)
    assert printed["objects"] == 1


def test_packing_does_not_count_as_use(nvccache, fill, cache_dir, tmp_path):
    fill(CONTENTS[0])
    path = Store(cache_dir).path(store.BLOB, keys.digest_bytes(CONTENTS[0]))
    os.utime(path, (1e9, 1e9))
    nvccache("pack", str(tmp_path / "a"))
    assert os.stat(path).st_mtime == 1e9


def test_a_file_of_others_is_no_pack(nvccache, tmp_path, other):
    path = tmp_path / "a.tar"
    for content in (b"", b"nvccache pack-v1 ", b"x" * 5000, b"nvccache pack-v1 5 " + b"0" * 32 + b"\nxxxxx"):
        path.write_bytes(content)
        for line in (("unpack", str(path)), ("pack", str(tmp_path / "b"), "--base", str(path))):
            result = nvccache(*line, NVCCACHE_DIR=other.root)
            assert result.exit_code == 1
            assert str(path) in result.stderr or "no cache" in result.stderr
    assert not os.path.exists(other.root)


def test_a_fifo_is_not_waited_for(nvccache, fill, tmp_path):
    fill(*CONTENTS)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    for line in (
        ("unpack", str(path)),
        ("pack", str(path)),
        ("pack", str(tmp_path / "b"), "--base", str(path)),
    ):
        result = nvccache(*line)
        assert (result.exit_code, "it is not a regular file" in result.stderr) == (1, True)
    assert path.is_fifo()


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b"x", lambda c: c[:200]])
def test_a_pack_that_is_cut_short_is_not_read(nvccache, fill, other, tmp_path, change):
    fill(*CONTENTS)
    path = tmp_path / "a.pack"
    nvccache("pack", str(path))
    path.write_bytes(change(path.read_bytes()))
    result = nvccache("unpack", str(path), NVCCACHE_DIR=other.root)
    assert (result.exit_code, "is cut short" in result.stderr) == (1, True)
    assert not os.path.exists(other.root)


def test_what_is_damaged_in_a_pack_is_refused_and_the_rest_taken(nvccache, fill, other, tmp_path):
    fill(*CONTENTS)
    path = tmp_path / "a.pack"
    nvccache("pack", str(path))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    result = nvccache("unpack", str(path), NVCCACHE_DIR=other.root)
    assert (result.exit_code, "; 1 refused as damaged or forged" in result.stdout) == (1, True)
    assert sum(found is not None for found in read(other, CONTENTS)) == 2


class Hostile:
    """Seals any content under any name."""

    def __init__(self, objects):
        self.objects = objects

    def sealed(self, item):
        return self.objects[item]


def hostile():
    from nvccache.remote import envelope

    digest = keys.digest_bytes(b"good")
    yield (store.BLOB, digest), envelope.seal(store.BLOB, digest, b"revil")
    yield (store.BLOB, "ab" * 16), envelope.seal(store.BLOB, digest, b"rgood")
    yield (store.OBJECT, digest), envelope.seal(store.OBJECT, digest, b"x")
    yield (store.REPLAY, digest), envelope.seal(store.REPLAY, digest, b"x")
    yield (store.RECORD, "ab" * 8), envelope.seal(store.RECORD, "../../../../../../tmp/x", b"x")
    bomb = envelope.zstandard.ZstdCompressor(19).compress(b"\0" * (1 << 24))
    values = {"bucket": store.BLOB, "key": digest, "digest": digest, "size": "100", "body": bomb}
    yield (store.BLOB, digest), envelope._SEALED.encode(values)
    yield (store.BLOB, digest), envelope._SEALED.encode({**values, "size": str(1 << 40)})


@pytest.mark.parametrize("crafted", list(hostile()), ids=range(7))
def test_nothing_that_is_crafted_is_unpacked(nvccache, other, tmp_path, crafted):
    item, content = crafted
    path = str(tmp_path / "a.pack")
    pack.write(path, Hostile({item: content}), [item], set(), lambda *_: None)
    result = nvccache("unpack", path, NVCCACHE_DIR=other.root)
    assert (result.exit_code, "; 1 refused as damaged or forged" in result.stdout) == (1, True)
    assert not os.path.exists(other.root)


@pytest.mark.parametrize(
    "line", ["blob-v1 ../../x 1 " + "0" * 32, "../x-v1 " + "0" * 32 + " 1 " + "0" * 32, "x"]
)
def test_an_index_that_leads_elsewhere_is_refused(nvccache, other, tmp_path, line):
    index = pack.zstandard.ZstdCompressor().compress(f"{line}\n".encode())
    path = tmp_path / "a.pack"
    path.write_bytes(b"nvccache pack-v1 %d %s\n%sx" % (len(index), keys.digest_bytes(index).encode(), index))
    result = nvccache("unpack", str(path), NVCCACHE_DIR=other.root)
    assert (result.exit_code, "invalid index" in result.stderr) == (1, True)


def test_an_index_that_is_a_bomb_is_refused(nvccache, other, tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "_LARGEST_INDEX", 1 << 16)
    index = pack.zstandard.ZstdCompressor().compress(b"\n" * (1 << 20))
    path = tmp_path / "a.pack"
    path.write_bytes(b"nvccache pack-v1 %d %s\n%s" % (len(index), keys.digest_bytes(index).encode(), index))
    assert "too large" in nvccache("unpack", str(path), NVCCACHE_DIR=other.root).stderr


def test_an_index_names_no_more_than_the_file_can_hold(nvccache, other, tmp_path):
    line = b"blob-v2 " + b"a" * 64 + b" 0 " + b"b" * 64 + b"\n"
    index = pack.zstandard.ZstdCompressor().compress(line * 10_000)
    path = tmp_path / "a.pack"
    path.write_bytes(b"nvccache pack-v1 %d %s\n%s" % (len(index), keys.digest_bytes(index).encode(), index))
    result = nvccache("unpack", str(path), NVCCACHE_DIR=other.root)
    assert (result.exit_code, "too large" in result.stderr) == (1, True)


def test_nothing_is_unpacked_into_a_cache_that_is_only_read(nvccache, fill, other, tmp_path):
    fill(*CONTENTS)
    nvccache("pack", str(tmp_path / "a"))
    result = nvccache("unpack", str(tmp_path / "a"), NVCCACHE_DIR=other.root, NVCCACHE_READONLY="1")
    assert (result.exit_code, "`readonly` is on" in result.stderr) == (1, True)


def test_the_items_of_a_pack_are_those_that_may_be_shared(nvccache, toolkit, tmp_path):
    toolkit.compile()
    path = tmp_path / "a.pack"
    nvccache("pack", str(path), NVCCACHE_DIR=toolkit.store().root)
    with path.open("rb") as stream:
        found = [packed.item for packed in pack.index_of(stream)]
    assert found == [item for item, _ in Transfer(toolkit.store()).items()]


def test_each_object_is_what_the_index_says(nvccache, fill, tmp_path):
    fill(*CONTENTS)
    path = tmp_path / "a.pack"
    nvccache("pack", str(path))
    with path.open("rb") as stream:
        first = pack.index_of(stream)[0]
        content = pack.read(stream, first, 1 << 20)
        assert keys.digest_bytes(content) == first.digest
        with pytest.raises(ValueError, match="too large"):
            pack.read(stream, first, first.size - 1)
        first.offset -= 1
        with pytest.raises(ValueError, match="digest"):
            pack.read(stream, first, 1 << 20)

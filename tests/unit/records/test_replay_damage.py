"""Replay records that are damaged, of another version, or written by somebody hostile: always a miss."""

from __future__ import annotations

import os

import pytest

from damage import changed, shuffled, torn
from nvccache import environment
from nvccache.files import keys, presence, signatures
from nvccache.records import call_result, replay
from nvccache.records.call_result import CallResult
from nvccache.records.input_records import InputRecord
from nvccache.store import sections, store
from nvccache.store.store import Store

ARGUMENTS = ["-c", "a.cu", "-o", "a.o"]
KEY = replay.key_of("nvcc", ARGUMENTS, "/work", {})
OTHER = replay.key_of("nvcc", ["-c"], "/work", {})
DIGEST = keys.digest_bytes(b"object")
SECTIONS = 20
PRODUCTS = 10
RULE_FILE = 11
SECONDS = 15
INTERMEDIATES = 16


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Store:
    """A store with a record that holds, beside a file that must survive all of this."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "work" / "a.cu").write_text("")
    (tmp_path / "work" / "absent").mkdir()
    (tmp_path / "work" / "absent" / "tool").write_text("")
    (tmp_path / "work" / "absent" / "tool").chmod(0o755)
    cache = Store(str(tmp_path / "cache"))
    made = InputRecord()
    made.files, made.kinds, made.digests = ["a.cu"], "s", [keys.digest_bytes(b"")]
    made.signatures = [signatures.of("a.cu")]
    made.directories, made.names = ["absent"], [["-x.h", "-y.h", "xtool"]]
    made.directory_signatures = [signatures.UNKNOWN]
    made.links, made.plain = [("a.cu", os.path.realpath("a.cu"))], ["absent"]
    made.listings = [("absent", presence.digest_of_listing("absent"))]
    made.variables = [(name, environment.digest_of(name, {})) for name in ("HOME", "BASH_FUNC_*")]
    given = CallResult()
    given.products = [("a.o", DIGEST, True)]
    given.seconds_saved = 1.0
    assert replay.add(KEY, made, given, ARGUMENTS, {}, cache)
    return cache


def find(cache: Store, key: str = KEY) -> CallResult | None:
    return replay.find(key, ARGUMENTS, {}, cache, lambda topic, subject: "")


def body(cache: Store) -> bytes:
    found = cache.find_record(store.REPLAY, KEY)
    assert found
    return found


def put(cache: Store, record: bytes, key: str = KEY) -> None:
    """With the right checksum, as somebody hostile would."""
    cache.add_record(store.REPLAY, key, record, lock=False)


def put_part(cache: Store, index: int, part: bytes) -> None:
    parts = sections.unpack("replay-8", body(cache), SECTIONS)
    parts[index] = part
    put(cache, sections.pack("replay-8", parts))


def test_every_damage_to_the_file_is_a_miss_and_removes_it(cache):
    path = cache.path(store.REPLAY, KEY)
    with open(path, "rb") as stream:
        whole = stream.read()
    assert find(cache)
    for content in (*torn(whole), *changed(whole), *shuffled(whole, 300)):
        if content == whole:
            continue
        with open(path, "wb") as stream:
            stream.write(content)
        assert find(cache) is None
        assert not os.path.exists(path)


def test_every_mangled_record_is_a_miss_or_names_files_of_the_call(cache):
    whole = body(cache)
    for record in (*torn(whole), *changed(whole), *changed(whole, seed=2), *shuffled(whole, 1000)):
        put(cache, record)
        found = find(cache)
        if found:
            written = [destination for destination, _, _ in found.products]
            written += [name for name, _ in found.intermediates]
            assert all("/" not in path and path not in ("", ".", "..") for path in written)


@pytest.mark.parametrize(
    "header",
    [
        b"nvccache replay-3",
        b"nvccache replay-",
        b"nvccache reading-2",
        b"ccache replay-8",
        b"nvccache  replay-8",
    ],
)
def test_a_record_of_another_version_is_a_miss(cache, header):
    put(cache, body(cache).replace(b"nvccache replay-8", header, 1))
    assert find(cache) is None


def test_a_record_with_a_section_more_or_less_is_a_miss(cache):
    parts = sections.unpack("replay-8", body(cache), SECTIONS)
    for others in (parts[:-1], [*parts, b""]):
        put(cache, sections.pack("replay-8", others))
        assert find(cache) is None


def test_a_record_under_another_key_is_a_miss(cache):
    with open(cache.path(store.REPLAY, KEY), "rb") as stream:
        content = stream.read()
    path = cache.path(store.REPLAY, OTHER)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(content)
    assert find(cache, OTHER) is None
    assert find(cache)


@pytest.mark.parametrize("content", ["directory", "link to itself", "empty", "unreadable link"])
def test_what_is_no_file_is_a_miss(cache, content):
    path = cache.path(store.REPLAY, KEY)
    os.unlink(path)
    if content == "directory":
        os.mkdir(path)
    elif content == "empty":
        open(path, "wb").close()
    else:
        os.symlink(os.path.basename(path) if "itself" in content else "/nowhere", path)
    assert find(cache) is None


@pytest.mark.parametrize(
    "destination",
    [
        "/etc/passwd",
        "/x",
        "../x",
        "../../x",
        "../.x",
        "/home/other/.bashrc",
        "sub/x",
        ".",
        "..",
        "",
        "/",
        "//x",
        "/.x.y",
        "../outside",
        "/tmp/a.o/../../etc/passwd",
    ],
)
@pytest.mark.parametrize("index", [PRODUCTS, RULE_FILE])
def test_a_record_that_names_a_file_which_the_call_does_not_is_a_miss(cache, destination, index):
    assert find(cache)
    if index == PRODUCTS:
        put_part(cache, index, sections.join([destination, DIGEST, "0"]))
    elif destination:  # an empty name says that there is no dependency file
        put_part(cache, index, destination.encode())
    else:
        return
    assert find(cache) is None


@pytest.mark.parametrize(
    "destination",
    [
        pytest.param("a.cu", id="the source"),
        pytest.param("Makefile", id="a file of the directory"),
        pytest.param(".envrc", id="a file of the directory"),
        pytest.param("a.d", id="a dependency file, which is not asked for"),
        pytest.param("a.ptx", id="what another mode would make"),
        pytest.param("./a.o", id="another spelling"),
        pytest.param("a.o.o", id="a name that begins alike"),
        pytest.param("", id="no name"),
        pytest.param("a.o\0", id="a name with an end in it"),
    ],
)
@pytest.mark.parametrize("is_beside", [False, True])
def test_a_record_that_names_what_the_call_does_not_make_is_a_miss(cache, destination, is_beside):
    right = ["a.o", DIGEST, "1"] * is_beside
    put_part(cache, PRODUCTS, os.fsencode("\0".join([*right, destination, DIGEST, "1", ""])))
    assert find(cache) is None


def test_a_record_without_the_product_or_with_it_twice_is_a_miss(cache):
    for count in (0, 2):
        put_part(cache, PRODUCTS, sections.join(["a.o", DIGEST, "1"] * count))
        assert find(cache) is None
    # A program's, beside the product of a compile.
    put_part(cache, INTERMEDIATES, sections.join(["a.o", DIGEST]))
    assert find(cache) is None


def test_what_was_read_is_not_written(cache):
    """Whatever the command line says."""
    parts = sections.unpack("replay-8", body(cache), SECTIONS)
    assert parts[0] == b"a.cu\0"
    line = ["-c", "b.cu", "-o", "a.cu"]
    parts[PRODUCTS] = sections.join(["a.cu", DIGEST, "1"])
    put(cache, sections.pack("replay-8", parts))
    assert replay.find(KEY, line, {}, cache, lambda *_: "") is None


@pytest.mark.parametrize(
    "digest",
    [
        "../../outside",
        "../" * 10 + "xx",
        "/" * 64,
        "." * 64,
        "0" * 63,
        "0" * 65,
        "",
        "0" * 63 + "/",
        "é" * 64,
    ],
)
def test_a_digest_never_leads_out_of_the_cache(cache, tmp_path, digest):
    put_part(cache, PRODUCTS, sections.join(["a.o", digest, "1"]))
    found = find(cache)
    assert found is None or call_result.give(found, cache) == call_result.LOST
    assert not os.path.exists("a.o")
    assert os.path.realpath(cache.path(store.BLOB, digest)).startswith(
        os.path.realpath(cache.root) + f"/{store.BLOB}/"
    )
    assert (tmp_path / "outside").read_text() == "precious"


@pytest.mark.parametrize(
    ("index", "part"),
    [
        (0, b"a.cu"),
        (1, b""),
        (1, b"1 2 3"),
        (1, b"\xff"),
        (1, b"9" * 5000),
        (2, b"x.h"),
        (3, b"absent/tool\0"),
        (3, b"\0"),
        (4, b"a.cu\0"),
        (5, b"absent"),
        (6, b"absent\0"),
        (7, b"absent\0"),
        (8, b""),
        (8, b"\0"),
        (8, b"HOME\0"),
        (9, b"\xff\xfe"),
        (PRODUCTS, b"a.o\0"),
        (PRODUCTS, b"a.o"),
        (RULE_FILE, b"a.d\0x"),
        (SECONDS, b""),
        (SECONDS, b"many"),
        (SECONDS, b"\xff"),
        (INTERMEDIATES, b"a.o"),
        (INTERMEDIATES, b"a.o\0"),
        (INTERMEDIATES, b"../a.o\0" + DIGEST.encode() + b"\0"),
        (INTERMEDIATES, b"..\0" + DIGEST.encode() + b"\0"),
        (INTERMEDIATES, b"\0" + DIGEST.encode() + b"\0"),
    ],
)
def test_a_section_that_makes_no_sense_is_a_miss(cache, index, part):
    put_part(cache, index, part)
    assert find(cache) is None

"""What is remembered of headers: never other than what a fresh look would find."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from pathlib import Path

import pytest

import damage
from nvccache import keys, sources, surveys
from nvccache.headers import Headers, UnreadableError
from nvccache.markers import Entered
from nvccache.reading import Reading
from nvccache.store import SURVEY, Store

LATER = 60 * 10**9  # nanoseconds
WRAPPER = b"#define HAS(x) __has_include(x)\n"
TEXTS = {
    "inc/plain.h": b'#pragma once\n#include "other.h"\n#include <vector>\n',
    "inc/asking.h": b"#if __has_include(<x.h>) || __has_include_next(<y.h>)\n#endif\n",
    "inc/unclear.h": b"#if __has_include(NAME)\n#endif\n",
    "inc/time.h": b"const char *built = __DATE__ __TIME__;\n",
    "inc/embed.h": b"#embed <x.bin>\n",
    "inc/ünï.h": b'#include "\xff.h"\n',
}


@pytest.fixture
def cache(tmp_path_factory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store")))


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        write(name, text)
    write("a.cu", b"")
    return tmp_path


def write(name: str, text: bytes) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(text)


class Call:
    """A call that read some headers; `read` are those whose content it looked at."""

    def __init__(self, cache: Store, *names: str, since: int = 0) -> None:
        self.headers = Headers(dict(os.environ), cache, since or time.time_ns() + LATER)
        self.read: list[str] = []
        self._names = names

    def reading(self, monkeypatch) -> Reading:
        def read_file(path: str) -> bytes:
            if path.endswith(".h"):
                self.read.append(path)
            return Path(path).read_bytes()

        entered = [Entered(b"a.cu", False, ())]
        entered += [Entered(os.fsencode(name), False, (b"a.cu",)) for name in self._names]
        with monkeypatch.context() as patch:
            patch.setattr("nvccache.headers.read_file", read_file)
            return self.headers.of_pass(["g++", "-Iinc"], entered, b"")

    def findings(self) -> dict[str, sources.Findings]:
        return {path: found for path, found in self.headers._survey.files.items() if path != "a.cu"}


def compile_with(monkeypatch, cache: Store, *names: str, since: int = 0) -> Call:
    """A call that ends well, whether or not there can be a reading of it."""
    call = Call(cache, *names, since=since)
    with contextlib.suppress(UnreadableError):
        call.reading(monkeypatch)
    call.headers.remember()
    return call


def told(call: Call) -> dict[str, tuple[object, ...]]:
    """Everything that a call knows of its headers."""
    return {
        path: (
            call.headers._digests[path],
            sorted(found.asked),
            found.included,
            found.is_once,
            found.time_words,
            found.objections,
        )
        for path, found in call.findings().items()
    }


def records(cache: Store) -> list[Path]:
    return sorted(path for path in Path(cache.root, SURVEY).rglob("*") if path.is_file())


def body_of(cache: Store) -> dict[str, list[object]]:
    (path,) = records(cache)
    body = cache.find_record(SURVEY, path.name)
    assert body is not None
    return dict(json.loads(body))


def put(cache: Store, body: bytes) -> None:
    (path,) = records(cache)
    cache.add_record(SURVEY, path.name, body)


def test_the_second_call_reads_no_header_and_knows_the_same(place, cache, monkeypatch):
    first = compile_with(monkeypatch, cache, *TEXTS)
    assert sorted(first.read) == sorted(TEXTS)
    second = compile_with(monkeypatch, cache, *TEXTS)
    assert second.read == []
    assert told(second) == told(first)
    assert told(first)["inc/plain.h"][0] == keys.digest_bytes(TEXTS["inc/plain.h"])


def test_what_could_be_a_reading_is_the_same_one(place, cache, monkeypatch):
    names = ("inc/plain.h", "inc/asking.h")
    readings = []
    for _ in range(2):
        call = Call(cache, *names)
        readings.append(call.reading(monkeypatch))
        call.headers.remember()
    for slot in Reading.__slots__:
        assert getattr(readings[0], slot) == getattr(readings[1], slot), slot


def test_one_record_serves_all_headers_of_a_directory(place, cache, monkeypatch):
    compile_with(monkeypatch, cache, "inc/plain.h")
    compile_with(monkeypatch, cache, "inc/asking.h")
    assert set(body_of(cache)) == {"plain.h", "asking.h"}
    assert compile_with(monkeypatch, cache, "inc/plain.h", "inc/asking.h").read == []


def test_a_call_that_finds_nothing_new_writes_nothing(place, cache, monkeypatch):
    compile_with(monkeypatch, cache, *TEXTS)
    (path,) = records(cache)
    before = path.stat().st_ino
    compile_with(monkeypatch, cache, *TEXTS)
    assert path.stat().st_ino == before


def test_the_source_is_not_remembered(place, cache, monkeypatch):
    compile_with(monkeypatch, cache, "inc/plain.h")
    assert set(body_of(cache)) == {"plain.h"}


def test_a_directory_without_end_keeps_its_record_small(place, cache, monkeypatch):
    monkeypatch.setattr(surveys, "_MOST_FILES", 2)
    for name in ("inc/plain.h", "inc/asking.h", "inc/time.h"):
        compile_with(monkeypatch, cache, name)
    assert set(body_of(cache)) == {"time.h", "asking.h"}


def _edit(path: Path) -> None:
    """Other content of the same size under the old date."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"x.h", b"z.h"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    other = path.with_name("new")
    other.write_bytes(path.read_bytes().replace(b"x.h", b"z.h"))
    os.replace(other, path)


@pytest.mark.parametrize("change", [_edit, _replace])
def test_a_header_that_was_touched_is_looked_at_again(place, cache, monkeypatch, change):
    compile_with(monkeypatch, cache, "inc/asking.h")
    time.sleep(0.02)
    change(place / "inc" / "asking.h")
    call = compile_with(monkeypatch, cache, "inc/asking.h")
    assert call.read == ["inc/asking.h"]
    assert told(call)["inc/asking.h"][1] == ["y.h", "z.h"]
    assert compile_with(monkeypatch, cache, "inc/asking.h").read == []


@pytest.mark.parametrize("part", range(5))
def test_every_part_of_a_signature_counts(place, cache, monkeypatch, part):
    compile_with(monkeypatch, cache, "inc/asking.h")
    body = body_of(cache)
    body["asking.h"][part] += 1  # type: ignore[operator]
    put(cache, json.dumps(body).encode())
    assert compile_with(monkeypatch, cache, "inc/asking.h").read == ["inc/asking.h"]


def test_a_header_that_could_change_again_without_a_trace_is_not_remembered(place, cache, monkeypatch):
    now = os.stat("inc/plain.h").st_ctime_ns
    compile_with(monkeypatch, cache, "inc/plain.h", since=now + 50_000_000)
    assert records(cache) == []
    compile_with(monkeypatch, cache, "inc/plain.h", since=now + 10**10)
    assert set(body_of(cache)) == {"plain.h"}


def test_a_header_that_changes_while_it_is_looked_at_is_no_part_of_a_reading(place, cache, monkeypatch):
    def read_file(path: str) -> bytes:
        content = Path(path).read_bytes()
        if path == "inc/plain.h":
            os.utime(path, (1, 1))
        return content

    call = Call(cache, "inc/plain.h")
    monkeypatch.setattr("nvccache.headers.read_file", read_file)
    with pytest.raises(UnreadableError, match="changed while"):
        call.headers.of_pass(["g++", "-Iinc"], [Entered(b"inc/plain.h", False, ())], b"")
    call.headers.remember()
    assert records(cache) == []


def test_a_header_that_changes_between_two_passes_is_no_part_of_a_reading(place, cache, monkeypatch):
    call = Call(cache, "inc/plain.h")
    call.reading(monkeypatch)
    os.utime("inc/plain.h", (1, 1))
    with pytest.raises(UnreadableError, match="changed while"):
        call.reading(monkeypatch)


# Files of one project, and which of them a call reads: the ways to ask differ between calls.
ASKING = {
    "inc/has.h": WRAPPER,
    "inc/too.h": b"#define TOO(y) HAS(y)\n",
    "inc/user.h": b"#if HAS(<x.h>) || TOO(<y.h>)\n#endif\n",
    "inc/both.h": b"#if __has_include(<a.h>) || HAS(<b.h>)\n#endif\n" + WRAPPER.replace(b"HAS(", b"ALSO("),
    "inc/also.h": b"#if ALSO(<c.h>) || HAS(NAME)\n#endif\n",
}
SETS = [names for count in (1, 2, 3) for names in itertools.combinations(ASKING, count)]


@pytest.mark.parametrize("first", [*SETS, tuple(ASKING)])
def test_macros_that_ask_are_heeded_wherever_they_come_from(place, cache, monkeypatch, first):
    """Whatever an earlier call knew of macros, from its own headers or the memo, is not taken for granted."""
    for name, text in ASKING.items():
        write(name, text)
    compile_with(monkeypatch, cache, *first)
    for second in (tuple(ASKING), ("inc/has.h", "inc/user.h"), ("inc/user.h",), ("inc/both.h", "inc/also.h")):
        expected = told(compile_with(monkeypatch, Store(str(place / "none")), *second))
        assert told(compile_with(monkeypatch, cache, *second)) == expected
        again = compile_with(monkeypatch, cache, *second)
        assert told(again) == expected
        assert again.read == []
        for path in (place / "none").rglob("*"):
            if path.is_file():
                path.unlink()


def test_a_macro_of_a_new_header_is_looked_for_in_a_remembered_one(place, cache, monkeypatch):
    write("inc/user.h", ASKING["inc/user.h"])
    assert told(compile_with(monkeypatch, cache, "inc/user.h"))["inc/user.h"][1] == []
    write("inc/has.h", WRAPPER)
    call = compile_with(monkeypatch, cache, "inc/has.h", "inc/user.h")
    assert told(call)["inc/user.h"][1] == ["x.h"]
    assert sorted(call.read) == ["inc/has.h", "inc/user.h"]


def test_a_remembered_macro_is_looked_for_in_a_new_header(place, cache, monkeypatch):
    write("inc/has.h", WRAPPER)
    compile_with(monkeypatch, cache, "inc/has.h")
    write("inc/user.h", ASKING["inc/user.h"])
    call = compile_with(monkeypatch, cache, "inc/has.h", "inc/user.h")
    assert told(call)["inc/user.h"][1] == ["x.h"]
    assert call.read == ["inc/user.h"]


def test_other_rules_find_no_old_record(place, cache, monkeypatch):
    compile_with(monkeypatch, cache, "inc/plain.h")
    monkeypatch.setattr(sources, "RULES", "other")
    assert compile_with(monkeypatch, cache, "inc/plain.h").read == ["inc/plain.h"]


def test_a_damaged_record_counts_as_absent(place, cache, monkeypatch):
    expected = told(compile_with(monkeypatch, cache, *TEXTS))
    (path,) = records(cache)
    whole = path.read_bytes()
    for content in (b"", whole[:-1], whole + b"x", b"hello\nworld\n"):
        path.write_bytes(content)
        call = compile_with(monkeypatch, cache, *TEXTS)
        assert told(call) == expected
        assert sorted(call.read) == sorted(TEXTS)
        assert path.read_bytes() == whole


BODIES = [b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff", b"[" * 100_000, b'{"plain.h": ' + b"[" * 100_000]
BODIES += [b'{"plain.h": null}', b'{"plain.h": []}', b'{"plain.h": {}}', b'{"plain.h": "12345"}']


@pytest.mark.parametrize("body", BODIES)
def test_a_record_that_is_none_counts_as_absent(place, cache, monkeypatch, body):
    expected = told(compile_with(monkeypatch, cache, "inc/plain.h"))
    put(cache, body)
    call = compile_with(monkeypatch, cache, "inc/plain.h")
    assert told(call) == expected
    assert call.read == ["inc/plain.h"]


HOSTILE = [
    None,
    1,
    1.5,
    True,
    [],
    {},
    ["x"],
    "\0",
    "a\0b",
    "\ud800",
    "\ud83d",
    "é" * 16,
    "../" * 10,
    "a b",
    "\n",
    "x" * 33,
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("part", range(5, 13))
def test_whatever_stands_in_a_row_ends_in_a_reading_or_an_objection(place, cache, monkeypatch, part, value):
    """Nothing but UnreadableError may come of it, and nothing that a record cannot hold."""
    compile_with(monkeypatch, cache, "inc/asking.h")
    body = body_of(cache)
    body["asking.h"][part] = value
    put(cache, json.dumps(body).encode())
    call = Call(cache, "inc/asking.h")
    try:
        made = call.reading(monkeypatch)
    except UnreadableError:
        return
    call.headers.remember()
    assert all(len(digest) == 32 and digest.isascii() for digest in made.digests)
    assert not any("\0" in name for names in made.names for name in names)
    os.fsencode("".join(itertools.chain(made.files, *made.names)))


ANSWERS = [[1], ["abcd"], [["__has_include"]], [[1, 2, 3, 4]], [["", "\0", "", ""]], [[None] * 4], [[[]] * 4]]
ANSWERS += [[["__has_include", "x", "not a word", ""]]]


@pytest.mark.parametrize("answers", ANSWERS)
def test_answers_that_are_none_are_refused(place, cache, monkeypatch, answers):
    expected = told(compile_with(monkeypatch, cache, "inc/asking.h"))
    body = body_of(cache)
    body["asking.h"][12] = answers
    put(cache, json.dumps(body).encode())
    call = compile_with(monkeypatch, cache, "inc/asking.h")
    assert call.read == ["inc/asking.h"]
    assert told(call) == expected


def test_mangled_records_never_end_in_a_fault(place, cache, monkeypatch):
    compile_with(monkeypatch, cache, *TEXTS)
    (path,) = records(cache)
    whole = cache.find_record(SURVEY, path.name)
    assert whole
    for body in itertools.islice(itertools.chain(damage.shuffled(whole, 60), damage.changed(whole)), 160):
        put(cache, body)
        compile_with(monkeypatch, cache, *TEXTS)


def test_a_name_with_nul_is_not_remembered(place, cache, monkeypatch):
    write("inc/nul.h", b'#if 0\n#include "a\0b.h"\n#endif\n')
    compile_with(monkeypatch, cache, "inc/nul.h", "inc/plain.h")
    assert set(body_of(cache)) == {"plain.h"}


def test_a_read_only_cache_is_made_use_of(place, cache, monkeypatch):
    compile_with(monkeypatch, cache, "inc/plain.h")
    reader = Store(cache.root, is_readonly=True)
    assert compile_with(monkeypatch, reader, "inc/plain.h").read == []
    compile_with(monkeypatch, reader, "inc/asking.h")
    assert set(body_of(cache)) == {"plain.h"}


def test_the_same_path_from_another_directory_is_another_file(place, cache, monkeypatch):
    compile_with(monkeypatch, cache, "inc/plain.h")
    (place / "sub" / "inc").mkdir(parents=True)
    (place / "sub" / "inc" / "plain.h").write_bytes(b'#include "mine.h"\n')
    (place / "sub" / "a.cu").write_bytes(b"")
    monkeypatch.chdir(place / "sub")
    call = compile_with(monkeypatch, cache, "inc/plain.h")
    assert told(call)["inc/plain.h"][2] == ["mine.h"]
    assert len(records(cache)) == 2

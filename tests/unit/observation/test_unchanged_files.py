"""Remembered digests of files: always those that hashing again would give."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from nvccache.files import keys, signatures
from nvccache.observation import unchanged_files
from nvccache.observation.unchanged_files import UnchangedFiles
from nvccache.store.store import MEMO, Store

LATER = 60 * 10**9  # nanoseconds


@pytest.fixture
def cache(tmp_path_factory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store")))


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inc").mkdir()
    for name in ("a.h", "b.h"):
        (tmp_path / "inc" / name).write_text(name)
    return tmp_path


class Call(UnchangedFiles):
    """A call late enough that files written before have trusted signatures; `taken` are those it has read."""

    def __init__(self, cache: Store, since_ns: int = 0) -> None:
        super().__init__(cache, os.getcwd(), since_ns or time.time_ns() + LATER)
        self.taken: list[str] = []

    def _read(self, path, *others):
        self.taken.append(path)
        return super()._read(path, *others)


def digests_of(call: Call, *paths: str) -> list[str]:
    """The digests that the call finds and stores."""
    found = [call.digest(path, signatures.signature_of(path)) for path in paths]
    call.remember()
    return found


def fresh(*paths: str) -> list[str]:
    return [keys.digest_file(path) for path in paths]


def records(cache: Store) -> list[Path]:
    return sorted(path for path in Path(cache.root, MEMO).rglob("*") if path.is_file())


def rows(cache: Store) -> dict[str, list[object]]:
    (path,) = records(cache)
    body = cache.find_record(MEMO, path.name)
    assert body is not None
    return dict(json.loads(body))


BOTH = ("inc/a.h", "inc/b.h")


def test_digests_of_unchanged_files_are_remembered_for_the_next_call(place, cache):
    first, second = Call(cache), Call(cache)
    assert digests_of(first, *BOTH) == fresh(*BOTH)
    assert digests_of(second, *BOTH) == fresh(*BOTH)
    assert (first.taken, second.taken) == ([*BOTH], [])


def test_remembered_digests_are_of_paths_not_of_names_relative_to_another_directory(
    place, cache, monkeypatch
):
    digests_of(Call(cache), *BOTH)
    assert len(records(cache)) == 1
    assert set(rows(cache)) == {"a.h", "b.h"}
    second = Call(cache)
    digests_of(second, str(place / "inc" / "a.h"))
    assert second.taken == []
    (place / "sub" / "inc").mkdir(parents=True)
    (place / "sub" / "inc" / "a.h").write_text("another")
    monkeypatch.chdir(place / "sub")
    assert digests_of(Call(cache), BOTH[0]) == [keys.digest_bytes(b"another")]


@pytest.mark.parametrize(
    "change", ["touched", "rewritten", "rewritten under the old date", "replaced", "link"]
)
def test_remembered_digests_are_not_used_for_touched_or_rewritten_files(place, cache, change):
    digests_of(Call(cache), *BOTH)
    path = place / BOTH[0]
    status = path.stat()
    time.sleep(0.02)  # the clock that stamps files ticks every few milliseconds
    if change == "touched":
        os.utime(path)
    elif change.startswith("rewritten"):
        path.write_text("A.H")
        if change.endswith("date"):
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "replaced":
        (place / "other").write_text("A.H")
        (place / "other").rename(path)
    else:
        path.unlink()
        path.symlink_to("b.h")
    call = Call(cache)
    assert digests_of(call, *BOTH) == fresh(*BOTH)
    assert call.taken == [BOTH[0]]


def test_a_file_that_changes_while_it_is_read_has_no_digest(place, cache, monkeypatch):
    def digest(content: bytes) -> str:
        time.sleep(0.02)
        (place / BOTH[0]).write_text("A.H")
        return "0" * 64

    monkeypatch.setattr(keys, "digest_bytes", digest)
    call = Call(cache)
    assert call.digest(BOTH[0], signatures.signature_of(BOTH[0])) == ""


def test_the_digest_of_a_just_changed_file_is_not_remembered(place, cache):
    """It could change again under the same signature."""
    assert digests_of(Call(cache, time.time_ns()), *BOTH) == fresh(*BOTH)
    assert records(cache) == []


def test_digesting_a_missing_file_raises_oserror(place, cache):
    with pytest.raises(OSError):
        Call(cache).digest("inc/never.h", (1, 2, 3, 4, 5))


def test_digests_of_files_with_odd_names_are_remembered(place, cache):
    names = [
        f"inc/{name}" for name in ("ü.h", "a b.h", "new\nline.h", '"quoted".h', "back\\slash.h", "\udcff.h")
    ]
    for name in names:
        Path(name).write_bytes(os.fsencode(name))
    digests_of(Call(cache), *names)
    call = Call(cache)
    assert (digests_of(call, *names), call.taken) == (fresh(*names), [])


def test_the_number_of_remembered_digests_per_directory_is_limited_to_the_newest(place, cache, monkeypatch):
    monkeypatch.setattr(unchanged_files, "_MOST_FILES", 3)
    for number in range(5):
        (place / "inc" / f"{number}.h").write_text(str(number))
        digests_of(Call(cache), f"inc/{number}.h")
    assert len(rows(cache)) == 3
    assert {"4.h", "3.h", "2.h"} == set(rows(cache))

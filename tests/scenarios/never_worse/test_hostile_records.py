"""Records with the right checksums, as from a remote: they name no file but the call's own products."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvccache import config
from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.files import keys, signatures
from nvccache.records import direct, levels, record
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.products import Answer
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.records.request import Request
from nvccache.store import store
from nvccache.store.store import Store

HOSTILE = b"hostile"
DIGEST = keys.digest_bytes(HOSTILE)
LINES = {
    "-c a.cu -o a.o -MD -MF a.d": {"a.o", "a.d"},
    "-MD -c a.cu -o out/b.o": {"out/b.o", "out/b.d"},
    "-optf flags -c a.cu": {"a.o"},
    "-c a.cu b.cu": {"a.o", "b.o"},
    "-c a.cu -o link": {"link"},
}
VICTIMS = ("a.cu", "b.cu", "x.h", "Makefile", ".envrc", "flags", "out/old.o", "../outside", "../nvcc")
# What an attacker might put in place of the number of a product.
NAMES = [*VICTIMS, "link", "new", "a.d", "a.o", ".", "", "out", "../new", "out/../a.cu", "a.cu/", "//a.cu"]
NAMES += ["=a.cu", "-1", "1", "2", "3", "/etc/passwd", "link/../a.cu", "0/../a.cu", "out//old.o"]


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The working directory, full of files that an attacker might want to overwrite."""
    (tmp_path / "work" / "out").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    for name in VICTIMS:
        Path(name).write_text(f"precious {name}")
    Path("flags").write_text("-DX")
    Path("link").symlink_to("../outside")
    time.sleep(0.15)
    return tmp_path


def seen(place: Path) -> dict[str, bytes]:
    files = (
        path for part in ("work", "outside", "nvcc") for path in [place / part, *place.glob(f"{part}/**/*")]
    )
    return {os.path.relpath(path, place / "work"): path.read_bytes() for path in files if path.is_file()}


def forged_results(right: set[str]) -> Iterator[Result]:
    """One as it should be, and others with hostile names or numbers in the places of products and headers."""
    count = sum(not path.endswith(".d") for path in right)
    roles = [str(number) for number in range(count)]
    yield result_of(roles, [("a.cu", "0")] if len(right) > count else [])
    for name in NAMES:
        yield result_of([*roles, name], [])
        yield result_of([name, *roles[1:]], [("a.cu", "0")])
        yield result_of([], [(name, "")])


def result_of(roles: list[str], listed: list[tuple[str, str]]) -> Result:
    result = Result((role, DIGEST) for role in roles)
    result.listed, result.seconds = listed, 1.0
    return result


@pytest.mark.parametrize("line", LINES)
def test_a_forged_record_writes_what_the_call_makes_and_nothing_else(place, line):
    right, arguments = LINES[line], line.split()
    environ = {"NVCCACHE_DIR": str(place / "cache")}
    settings = config.load(environ)
    cache = Store(settings.dir)
    cache.add_blob(DIGEST, HOSTILE, compress=False)
    before = seen(place)
    given = []
    for result in forged_results(right):
        forge(cache, arguments, environ, result)
        answer = levels.answer(Request("nvcc", arguments, environ, settings))
        after = seen(place)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        given.append(isinstance(answer, Answer))
        assert changed == (right if given[-1] else set()), [role for role, _ in result.outputs]
        for path in changed:
            os.unlink(path)
        if "link" in changed:
            os.symlink("../outside", "link")
    assert given[0] and not all(given)


def forge(cache: Store, arguments: list[str], environ: dict[str, str], result: Result) -> None:
    """Put a record into the cache."""
    read = InputRecord()
    read.files, read.kinds, read.digests = ["a.cu"], "s", [keys.digest_file("a.cu")]
    read.signatures = [signatures.of("a.cu")]
    call = invocation.parse(arguments, environ)
    assert isinstance(call, Invocation)
    nowhere = Relocation("", os.getcwd())
    lookup_key = direct.key_of(direct.SAME_DIRECTORY, "nvcc", call, nowhere, environ)
    cache.remove_damaged(store.RECORD, lookup_key)
    key = keys.digest_bytes(repr(result.outputs).encode())
    record.add(Entry(LookupKey(lookup_key, nowhere), read, result, key), cache, time.time_ns())

"""Records with the right checksums, as from a remote: they name no file but the call's own products."""

from __future__ import annotations

import os
import random
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
    "-c a.cu -o a.o -MD -MF a.d": ({"a.o", "a.d"}, {}),
    "-MD -c a.cu -o out/b.o": ({"out/b.o", "out/b.d"}, {}),
    "-optf flags -c a.cu": ({"a.o"}, {}),
    "-c a.cu b.cu": ({"a.o", "b.o"}, {}),
    "-c a.cu -o link": ({"link"}, {}),
}
VICTIMS = (
    "a.cu",
    "b.cu",
    "x.h",
    "Makefile",
    ".envrc",
    "flags",
    "out/old.o",
    "a.ptx",
    "../outside",
    "../nvcc",
)


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


def names(choose: random.Random, right: set[str]) -> Iterator[str]:
    """Destinations that an attacker might try, the right ones among them."""
    while True:
        name = choose.choice(
            [*VICTIMS, "link", "new", "a.d", "a.o", "../new", ".", "", "out", *sorted(right)]
        )
        yield choose.choice(
            [
                *[name] * 6,
                os.path.abspath(name),
                f"./{name}",
                f"out/../{name}",
                f"{name}/",
                f"//{name}",
                f"={name}",
                f"d{name}",
                f"{name}.o",
                name.replace("/", "//"),
            ]
        )


def forged_result(choose: random.Random, right: set[str]) -> Result:
    name = names(choose, right)
    numbers = [choose.choice([str(choose.randint(-1, 3)), next(name)]) for _ in range(choose.randint(0, 3))]
    listed = choose.choice([[], [("a.cu", "0")], [(next(name), "")]])
    if choose.random() < 0.4:
        numbers = [str(number) for number in range(sum(not path.endswith(".d") for path in right))]
        listed = [("a.cu", "0")] if any(path.endswith(".d") for path in right) else []
    result = Result((role, DIGEST) for role in numbers)
    result.listed, result.seconds = listed, 1.0
    return result


@pytest.mark.parametrize("line", LINES)
def test_a_forged_record_writes_what_the_call_makes_and_nothing_else(place, line):
    right, environ = LINES[line]
    arguments = line.split()
    environ = {"NVCCACHE_DIR": str(place / "cache"), **environ}
    settings = config.load(environ)
    cache = Store(settings.dir)
    cache.add_blob(DIGEST, HOSTILE, compress=False)
    choose = random.Random(line)
    before = seen(place)
    given = 0
    for _ in range(60):
        forge(cache, arguments, environ, choose, right)
        answer = levels.answer(Request("nvcc", arguments, environ, settings))
        is_given = isinstance(answer, Answer)
        after = seen(place)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        assert changed - {"out/a.ltoir"} == (right if is_given else set())  # -ptx with LTO makes it, too
        given += is_given
        for path in changed:
            os.unlink(path)
        if "link" in changed:
            os.symlink("../outside", "link")
    assert given or not right
    assert given < 60


def forge(
    cache: Store, arguments: list[str], environ: dict[str, str], choose: random.Random, right: set[str]
) -> None:
    """Put a record into the cache."""
    read = InputRecord()
    read.files, read.kinds, read.digests = ["a.cu"], "s", [keys.digest_file("a.cu")]
    read.signatures = [signatures.of("a.cu")]
    call = invocation.parse(arguments, environ)
    assert isinstance(call, Invocation)
    nowhere = Relocation("", os.getcwd())
    front_key = direct.key_of(direct.SAME_DIRECTORY, "nvcc", call, nowhere, environ)
    cache.remove_damaged(store.RECORD, front_key)
    key = keys.digest_bytes(choose.randbytes(8))
    record.add(
        Entry(LookupKey(front_key, nowhere), read, forged_result(choose, right), key), cache, time.time_ns()
    )

"""Random records, call lines and environments for the launcher, made from a seed.

Records have the right checksum, as an attacker would write them. Whatever the launcher is given, it
answers the call that was recorded or leaves it to Python, it writes no file but those that the call names as
outputs, and no sanitizer finds anything. `--every-case` makes many more; NVCCACHE_TEST_SEED makes others.
"""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from generator.lines import seeds
from nvccache import environment
from nvccache.records import output_names, replay_layout
from nvccache.records.output_names import Outputs
from recorded_call import (
    ARGUMENTS,
    OBJECT,
    nvcc,
    place,
    places,
    stored,
)
from replays import Launcher, edited, put
from unit.records.test_replay_damage import launcher, patched

__all__ = ["launcher", "nvcc", "place", "places", "stored"]  # fixtures
ROUNDS = 60  # of each test and seed
_EVERY = 40  # seeds
_WORDS = (
    *(
        "-c",
        "-o",
        "-MD",
        "-MMD",
        "-MF",
        "-MT",
        "-ptx",
        "-cubin",
        "-dc",
        "-odir",
        "-optf",
        "-E",
        "-dlink",
        "-I",
    ),
    *("a.cu", "out/a.o", "out/a.d", "out/b.o", "./out/a.o", "out/../a.cu", "out", "late/a.h", "out/keep"),
    *(
        "-oout/a.o",
        "-o=out/a.o",
        "-MF=out/a.d",
        "--output-file=out/b.o",
        "-DX",
        "-DX=out/a.o",
        "-Iearly",
        "--",
    ),
    *("", "-", "=", "-=", "-o=", "\n", "a\nb", "\udcff.o", "out/\udcff", "/dev/null", "x" * 5000, "..", "/"),
    *("@out/a.o", "-Xcompiler", "-Wall", "-include", "out/a.d:x", "-MP", "-x", "cu", "nvcc", "nvccache"),
)
_NAMES = ("ASKED", "UNSET", "GROUP_A", "GROUP_", "GROUP_IGNORED", "OTHER", "PATH", "HOME", "XDG_CACHE_HOME")
_OWN = (
    "NVCCACHE_JOBS",
    "NVCCACHE_",
    "_NVCCACHE_X",
    "NVCC_PREPEND_FLAGS",
    "PWD",
    "TMPDIR",
    "NEW",
    "\udcff",
    "X" * 999,
)
_VALUES = ("", "1", "2", "=", "\n", "\udcff\udc80", "/tmp", "/usr/bin:/bin", "/dev/null", "y" * 70000)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        made = seeds(_EVERY)
        marks = [() if number == 0 else pytest.mark.full for number in range(len(made))]
        cases = zip(made, marks, strict=True)
        metafunc.parametrize("seed", [pytest.param(seed, marks=mark) for seed, mark in cases])


def files_of(place: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in place.rglob("*") if path.is_file() and not path.is_symlink()
    }


def written(launcher: Launcher, place: Path, arguments: list[str]) -> tuple[bool, set[str]]:
    """Whether the call was answered, and which files changed; all are restored."""
    before = files_of(place)
    is_answer = launcher.ask(arguments).is_answer
    after = files_of(place)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    for name in changed:
        if name in before:
            Path(name).write_bytes(before[name])
        else:
            os.unlink(name)
    assert is_answer or not changed
    return is_answer, changed


def mutated(record: bytes, choose: random.Random) -> bytes:
    """A well-formed record with changed numbers, elements, sections or strings."""

    def change(head: dict[str, Any], sections: dict[str, bytearray]) -> None:
        for _ in range(choose.choice((1, 1, 2, 5))):
            choose.choice((_change_head, _change_number, _change_elements, _change_text))(
                head, sections, choose
            )

    return edited(record, change)


def _change_head(head: dict[str, Any], sections: dict[str, bytearray], choose: random.Random) -> None:
    codes = dict(replay_layout.HEAD)
    name = choose.choice([name for name, code in codes.items() if code in "IQq" and name != "size"])
    bits = 32 if codes[name] == "I" else 63
    at = len(sections["strings"])
    head[name] = choose.choice(
        (0, 1, 2, at - 1, at, at + 1, 1 << bits - 1, (1 << bits) - 1, choose.randrange(at))
    )


def _change_number(head: dict[str, Any], sections: dict[str, bytearray], choose: random.Random) -> None:
    content = sections[
        choose.choice([name for name, part in sections.items() if len(part) >= 4 and name != "strings"])
    ]
    at = choose.randrange(len(content) // 4) * 4
    old = struct.unpack_from("=I", content, at)[0]
    size = len(sections["strings"])
    value = choose.choice(
        (0, 1, old + 1, old - 1, size - 1, size, 1 << 31, (1 << 32) - 1, choose.randrange(size))
    )
    struct.pack_into("=I", content, at, value % (1 << 32))


def _change_elements(head: dict[str, Any], sections: dict[str, bytearray], choose: random.Random) -> None:
    name = choose.choice([name for name in sections if name != "strings"])
    size = replay_layout.size_of(replay_layout.SECTIONS[name])
    content = sections[name]
    at = choose.randrange(len(content) // size + 1) * size
    element = content[at : at + size]
    kind = choose.choice(("drop", "repeat", "swap", "make up", "many"))
    if kind == "drop":
        del content[at : at + size]
    elif kind == "swap":
        content[:] = content[at:] + content[:at]
    else:
        content[at:at] = {
            "repeat": element,
            "make up": choose.randbytes(size),
            "many": bytes(element) * 5000,
        }[kind]


def _change_text(head: dict[str, Any], sections: dict[str, bytearray], choose: random.Random) -> None:
    strings = sections["strings"]
    at = choose.randrange(len(strings))
    if choose.random() < 0.5:
        strings[at] = choose.choice((0, 10, 47, 46, 255, choose.randrange(256)))
    else:
        strings[at:at] = choose.choice((b"\0", b"/", b"../", b"x" * 5000, choose.randbytes(3)))


def test_no_record_has_another_file_written(launcher: Launcher, place: Path, seed: str) -> None:
    choose = random.Random(f"{seed} records")
    (path,) = launcher.records()
    record = path.read_bytes()
    outputs = {str(place / "out/a.o"), str(place / "out/a.d")}
    for _ in range(ROUNDS):
        put(path, mutated(record, choose))
        _, changed = written(launcher, place, ARGUMENTS)
        assert changed <= outputs


def _line(choose: random.Random) -> list[str]:
    """Arguments close to those of a recorded call, or random ones."""
    words = list(ARGUMENTS)
    for _ in range(choose.choice((0, 1, 1, 2, 3, 8))):
        at = choose.randrange(len(words) + 1)
        dropped, added = choose.choice(((0, 1), (1, 1), (1, 0), (0, 0)))
        words[at : at + dropped] = choose.choices(_WORDS, k=added)
        if not dropped and not added:
            choose.shuffle(words)
    return words


def _forged(record: bytes, name: str, outputs: Outputs, choose: random.Random) -> bytes:
    """The record as one of another call, with that call's outputs, or others."""
    product = choose.choice((*outputs.products, *outputs.products, "out/a.o", choose.choice(_WORDS)))
    depfile = choose.choice(
        (outputs.dependency_file, outputs.dependency_file, "out/a.d", choose.choice(_WORDS))
    )

    def change(head: dict[str, Any], sections: dict[str, bytearray]) -> None:
        head["call"] = bytes.fromhex(name)
        patched(1, "path", os.fsencode(product))(head, sections)
        patched(0, "path", os.fsencode(depfile))(head, sections)
        if not outputs.dependency_file or choose.random() < 0.1:
            head["rule"] = 0
            del sections["products"][: replay_layout.size_of("product")]

    return edited(record, change)


def test_no_line_has_a_file_written_that_it_does_not_name(launcher: Launcher, place: Path, seed: str) -> None:
    choose = random.Random(f"{seed} lines")
    (path,) = launcher.records()
    record = path.read_bytes()
    answers = 0
    for _ in range(ROUNDS):
        arguments = _line(choose)
        launcher.forget()
        name = launcher.ask(arguments).name
        if not name:
            continue
        outputs = output_names.of_argv(arguments)
        put(path.parents[1] / name[:2] / name, _forged(record, name, outputs, choose))
        named = {*outputs.products, outputs.dependency_file} if outputs.is_known else set()
        target = {os.path.realpath(output) for output in named if output}  # as nvcc follows a link there
        is_answer, changed = written(launcher, place, arguments)
        answers += is_answer
        assert changed <= target, arguments
    assert answers


def _decides(environ: dict[str, str]) -> dict[str, str]:
    """The variables that affect the recorded call."""
    names = {
        "ASKED",
        "UNSET",
        "PATH",
        "HOME",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        *environment.OF_ARGUMENTS,
        "PWD",
    }
    return {
        name: value
        for name, value in environ.items()
        if name in names or name.startswith((*environment.OWN, "GROUP_"))
    }


def test_what_environment_has_an_answer(launcher: Launcher, place: Path, seed: str) -> None:
    choose = random.Random(f"{seed} environments")
    before = dict(launcher.environ)
    answers = 0
    for _ in range(ROUNDS):
        environ = dict(before)
        for _ in range(choose.choice((0, 1, 1, 2, 5))):
            name = choose.choice((*_NAMES, *_OWN))
            if choose.random() < 0.25:
                environ.pop(name, None)
            else:
                environ[name] = choose.choice((*_VALUES, before.get(name, "")))
        launcher.environ = environ
        is_answer, changed = written(launcher, place, ARGUMENTS)
        has_room = environ.get("TMPDIR", "/tmp") == "/tmp"
        assert is_answer == (_decides(environ) == _decides(before) and has_room), environ
        assert not changed or (place / "out").exists()
        answers += is_answer
    assert answers


def test_the_object_is_the_recorded_one(launcher: Launcher, place: Path) -> None:
    """The tests above rely on this."""
    assert launcher.ask(ARGUMENTS).is_answer
    assert (place / "out/a.o").read_bytes() == OBJECT

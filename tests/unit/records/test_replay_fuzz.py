"""Random environments for the launcher, made from a seed.

It answers the call that was recorded or leaves it to Python, and no sanitizer finds anything. `--every-case`
makes many more; NVCCACHE_TEST_SEED makes others.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from generator.lines import seeds
from nvccache import environment
from recorded_call import (
    ARGUMENTS,
    OBJECT,
    nvcc,
    place,
    places,
    stored,
)
from replays import Launcher
from unit.records.test_replay_damage import launcher

__all__ = ["launcher", "nvcc", "place", "places", "stored"]  # fixtures
ROUNDS = 60  # of each test and seed
_EVERY = 40  # seeds
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
    """The test above relies on this."""
    assert launcher.ask(ARGUMENTS).is_answer
    assert (place / "out/a.o").read_bytes() == OBJECT

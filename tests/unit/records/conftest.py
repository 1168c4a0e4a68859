"""A recorded call in its own directory (world.py), and the launcher that answers it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvccache.store.store import Store
from replays import Launcher, prepare_journal, stand_alone
from world import ARGUMENTS, DIGEST, ENVIRON, OBJECT, answer_of_call, make, replayed


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Working directories, created many at a time, with files old enough to be trusted."""

    def many() -> Iterator[Path]:
        while True:
            made = [make(tmp_path_factory.mktemp("call") / "work") for _ in range(20)]
            time.sleep(0.15)
            yield from made

    return many()


@pytest.fixture
def place(places: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the call."""
    place = next(places)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def compiler(place: Path) -> str:
    return str(place / "compiler/nvcc")


@pytest.fixture
def stored(cache: Store) -> Store:
    """A cache that has the product, and in which calls are counted."""
    cache.add_blob(DIGEST, OBJECT, compress=False)
    prepare_journal(cache.root)
    return cache


@pytest.fixture
def launcher(place: Path, compiler: str, workers_base: Path, stored: Store) -> Launcher:
    program = stand_alone(workers_base)
    environ = {**ENVIRON, "XDG_CONFIG_HOME": str(place / "home")}
    return Launcher(program, stored.root, environ, [str(program), compiler])


@pytest.fixture
def recorded(launcher: Launcher, compiler: str) -> Launcher:
    assert launcher.record(compiler, ARGUMENTS, replayed(), answer_of_call())
    return launcher

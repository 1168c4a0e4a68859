"""A test's cache directory, the store in it, and a toolkit of scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvccache.machine import slots
from nvccache.run import find_stage, publish_stage, run_stage
from nvccache.store.store import Store
from scripted_toolkit import Toolkit


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The cache directory, which does not exist."""
    return tmp_path / "cache"


@pytest.fixture
def cache_dir(root: Path) -> str:
    return str(root)


@pytest.fixture
def cache(root: Path) -> Store:
    return Store(str(root))


@pytest.fixture
def own_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for slots and outages of this test's calls alone."""
    folder = tmp_path / "pool"
    folder.mkdir()
    monkeypatch.setattr(slots, "pool_directory", lambda: str(folder))
    return folder


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolkit:
    """Called in its working directory, where `a.cu` is."""
    made = Toolkit(tmp_path)
    monkeypatch.chdir(made.work)
    made.write("a.cu", "int a;\n")
    return made


@pytest.fixture
def steps_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a stage are methods of the call, a fake (stages_of_nothing.py) with much memory."""
    monkeypatch.setattr(slots, "free_memory", lambda: 1 << 50)
    names = ("make_keys", "find", "find_remote", "accept", "run", "has_inputs", "publish")
    for module in (find_stage, run_stage, publish_stage):
        for name in filter(lambda name: hasattr(module, name), names):
            monkeypatch.setattr(module, name, lambda call, *given, name=name: getattr(call, name)(*given))

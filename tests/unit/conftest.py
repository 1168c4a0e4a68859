"""Where a test's cache is, and the store in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvccache.store.store import Store


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

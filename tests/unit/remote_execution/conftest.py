"""An engine in this process, and what is remembered of engines by calls of this test alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def alone(own_pool: Path) -> None: ...


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., object]]:
    """Starts a FakeEngine with a trouble; they end with the test."""
    from fake_engine import FakeEngine  # needs grpcio

    started: list[FakeEngine] = []

    def start(trouble: str = "", compresses: bool = False) -> FakeEngine:
        started.append(FakeEngine(tmp_path, trouble, compresses))
        return started[-1]

    yield start
    for engine in started:
        engine.stop()

"""An engine in this process, and outages seen by this test's calls alone."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def alone(own_pool): ...


@pytest.fixture
def serve(tmp_path):
    """Starts a FakeEngine with a trouble; they end with the test."""
    from fake_engine import FakeEngine  # needs grpcio

    started = []

    def start(trouble=""):
        started.append(FakeEngine(tmp_path, trouble))
        return started[-1]

    yield start
    for engine in started:
        engine.stop()

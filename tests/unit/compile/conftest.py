"""Stages that do nothing, for what only decides when each of them runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvccache.execution import find_stage, publish_stage, run_stage


@pytest.fixture
def steps_of_nothing(monkeypatch):
    """The steps of a stage are methods of the call, which is a fake (test_schedule.py)."""
    for module in (find_stage, run_stage, publish_stage):
        for name in ("find", "find_remote", "accept", "run", "run_again", "lost_producers", "publish"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, _step(name))


def _step(name: str) -> Callable[..., object]:
    return lambda call, *given: getattr(call, name)(*given)

"""Outages of remotes are those of this test's calls alone."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def alone(own_pool): ...

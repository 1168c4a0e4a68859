"""What is remembered of remotes is by calls of this test alone."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def alone(own_pool): ...

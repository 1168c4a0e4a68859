"""Remotes opened for tests."""

from __future__ import annotations

import re

import pytest

from nvccache import remote_url
from nvccache.remote.backend import BackendError, connect

NAME = "1/ab/" + "ab" * 32
NO_CREDENTIALS = {"HOME": "/nonexistent"}
MOST = 1 << 20


def opened(text, environ=NO_CREDENTIALS, timeout=0.5):
    return connect(remote_url.parse(text)[0], environ, timeout)


def fault_of(work, *values):
    """The fault of the remote that this queries; checks that no secret is shown."""
    with pytest.raises(BackendError) as raised:
        work(*values)
    assert not re.search("s.cret", raised.value.text, re.IGNORECASE)
    return raised.value.word

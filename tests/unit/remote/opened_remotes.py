"""Remotes as tests ask them."""

from __future__ import annotations

import re

import pytest

from nvccache import remote_url
from nvccache.remote.kinds import connect
from nvccache.remote.service import ServiceError

NAME = "1/ab/" + "ab" * 32
NO_CREDENTIALS = {"HOME": "/nonexistent"}
MOST = 1 << 20


def opened(text, environ=NO_CREDENTIALS, timeout=0.5):
    return connect(remote_url.parse(text)[0], environ, timeout)


def fault_of(work, *values):
    """What is wrong with the remote that is asked by this; no secret is told."""
    with pytest.raises(ServiceError) as raised:
        work(*values)
    assert not re.search("s.cret", raised.value.text, re.IGNORECASE)
    return raised.value.word

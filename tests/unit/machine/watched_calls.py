"""Calls with a watchdog, and the tokens of a jobserver: for tests of watchdogs."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from callers import Caller, is_alive

TOKENS = b"abcd"


@pytest.fixture
def pipe():
    """The ends of a jobserver's pipe with four tokens, no two the same."""
    ends = os.pipe()
    os.write(ends[1], TOKENS)
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def start(tmp_path, pipe):
    """Starts callers; a process of theirs that a failed test leaves behind ends with it."""
    callers = []

    def start_caller(*, with_jobserver=True):
        callers.append(Caller(tmp_path / f"scratch-{len(callers)}", pipe if with_jobserver else ()))
        return callers[-1]

    yield start_caller
    for caller in callers:
        caller.kill()
        for stream in (caller.process.stdin, caller.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        if is_alive(caller.watchdog):
            os.kill(caller.watchdog, signal.SIGCONT)

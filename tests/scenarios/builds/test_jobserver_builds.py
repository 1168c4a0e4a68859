"""Calls under make's jobserver, a fifo: they run as many tools as they have tokens, and give all back."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.support.at_once import Watch, check_nothing_is_left, end, ending, start, tools_of, wait_until
from scenarios.support.toolkits import SOURCE, architectures, precede
from workspaces import Result, Workspace

JOBS = 8
TOKENS = b"abcdefg"  # no two the same; the eighth job is the one that make may always run
THREE = architectures(80, 86, 90)


class Fifo:
    """A jobserver of our own, whose tokens differ."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "jobserver"
        os.mkfifo(self._path)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)

    @property
    def makeflags(self) -> str:
        return f" -j{JOBS} --jobserver-auth=fifo:{self._path}"

    def put(self, tokens: bytes) -> None:
        os.write(self._descriptor, tokens)

    def tokens(self) -> bytes:
        """The tokens in it, which stay there."""
        try:
            found = os.read(self._descriptor, 100)
        except BlockingIOError:
            return b""
        self.put(found)
        return bytes(sorted(found))

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    found = Fifo(tmp_path)
    yield found
    found.close()


def hang(toolkit: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Make cicc wait; the directory in which each run makes a file, and the file that they wait for."""
    started, release = tmp_path / "started", tmp_path / "release"
    started.mkdir()
    precede(toolkit, "cicc", f': > "{started}/$$"\nuntil [ -e "{release}" ]; do sleep 0.05; done')
    return started, release


@pytest.mark.parametrize("tokens", [b"x", TOKENS])
def test_a_call_runs_no_more_tools_at_once_than_make_gave_it_tokens(
    workspace: Workspace, toolkit: Path, tmp_path: Path, fifo: Fifo, tokens: bytes
) -> None:
    """With `-t`, too, make alone decides. The three runs of cicc continue when no further one can start."""
    workspace.write("a.cu", SOURCE)
    started, release = hang(toolkit, tmp_path)
    fifo.put(tokens)
    at_once = min(3, len(tokens) + 1)
    with ending(workspace), Watch(workspace) as watch:
        call = start(workspace, "-c", "a.cu", "-o", "a.o", *THREE, "-t", "4", MAKEFLAGS=fifo.makeflags)
        wait_until(lambda: len(os.listdir(started)) >= at_once, [call])
        select.select([], [], [], 0.5)
        assert len(os.listdir(started)) == at_once
        release.touch()
        assert end(call) == Result(0, b"", b"")
        assert fifo.tokens() == bytes(sorted(tokens))
    assert watch.most <= len(tokens) + 1


def test_jobserver_tokens_come_back_from_a_terminated_call(
    workspace: Workspace, toolkit: Path, tmp_path: Path, fifo: Fifo
) -> None:
    """When its tools are gone, not before."""
    workspace.write("a.cu", SOURCE)
    started, _ = hang(toolkit, tmp_path)
    fifo.put(TOKENS)
    with ending(workspace):
        call = start(workspace, "-c", "a.cu", "-o", "a.o", *THREE, MAKEFLAGS=fifo.makeflags)
        wait_until(lambda: len(os.listdir(started)) == 3, [call])
        left = fifo.tokens()
        assert len(left) <= len(TOKENS) - 2
        call.terminate()
        wait_until(lambda: fifo.tokens() != left)
        assert not tools_of(workspace)
        assert end(call) == Result(-signal.SIGTERM, b"", b"")
        check_nothing_is_left(workspace, [call])
        assert fifo.tokens() == TOKENS

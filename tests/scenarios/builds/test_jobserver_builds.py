"""Builds under make's jobserver, by pipe and fifo, with ended calls: no token is lost, none invented."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from installations import launcher_of_tree
from scenarios.support.at_once import (
    PATIENCE,
    Call,
    Watch,
    all_processes,
    check_nothing_is_left,
    end,
    ending,
    is_below,
    parent_of,
    scratch_of,
    start,
    tools_of,
    wait_until,
)
from scenarios.support.both_ways import object_by_plain
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, architectures, precede
from workspaces import Result, Workspace

pytestmark = pytest.mark.light
JOBS = 8
AT_ONCE = 3  # calls, so that there are tokens left for what each runs
TOKENS = b"abcdefg"  # no two the same; the eighth job is the one that make may always run
TWO, THREE = architectures(80, 90), architectures(80, 86, 90)


def write_project(workspace: Workspace, count: int) -> dict[str, tuple[str, ...]]:
    """A makefile that compiles some units several times, also at once; object -> the words that compile it.

    Its lines hold nothing that make would need a shell for, so that its children are the calls.
    """
    for number in range(2):
        workspace.write(f"{number}.cu", SOURCE.replace("kernel", f"kernel{number}"))
    units = {f"{number}.o": (f"{number % 2}.cu", f"-DSTEP={number // 8}", *TWO) for number in range(count)}
    lines = [f"all: {' '.join(map(str, range(AT_ONCE)))}\n"]
    for target in range(AT_ONCE):
        lines.append(f"{target}:\n")
        for product in list(units)[target::AT_ONCE]:
            argv = [str(launcher_of_tree()), workspace.nvcc, "-c", *units[product], "-o", product]
            lines.append(f"\t-+@{' '.join([*argv, *HOST_OPTIONS])}\n")
    workspace.write("Makefile", "".join(lines))
    return units


def kill_from(make: Call, moments: dict[str, float]) -> None:
    """Terminate the calls that make these products, so many seconds after their start."""
    seen: dict[int, float] = {}
    while make.poll() is None:
        for pid in [pid for pid in all_processes() if parent_of(pid) == make.pid]:
            product = product_of(pid)
            moment = seen.setdefault(pid, time.monotonic()) + moments.get(product, PATIENCE)
            if time.monotonic() >= moment and parent_of(pid) == make.pid:
                os.kill(pid, signal.SIGTERM)
                moments.pop(product, None)
        time.sleep(0.1)


def product_of(pid: int) -> str:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return argv[argv.index(b"-o") + 1].decode() if b"-o" in argv else ""


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_gets_all_jobserver_tokens_back_even_from_killed_calls(
    workspace: Workspace, request: pytest.FixtureRequest
) -> None:
    """make complains when it ends with a token missing, or one too many.

    One call in ten is terminated, at a random moment of the second that most take.
    """
    count = 200 if request.config.getoption("--every-case") else 6
    chance = random.Random(count)
    units = write_project(workspace, count)
    moments = {name: chance.uniform(0.1, 1.5) for name in chance.sample(list(units), -(-count // 10))}
    workspace.begin_with_digests({})
    variables = {name: word for name, word in workspace.environ.items() if not name.startswith("MAKE")}
    with ending(workspace):
        make = subprocess.Popen(
            ["make", f"-j{JOBS}"],
            cwd=workspace.directory,
            env={**variables, "TMPDIR": str(scratch_of(workspace))},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        killing = threading.Thread(target=kill_from, args=(make, dict(moments)))
        killing.start()
        with Watch(workspace, lambda tools: sum(is_below(pid, make.pid) for pid, _ in tools), 0.1) as watch:
            result = end(make)
        killing.join()
        check_nothing_is_left(workspace, [])
    assert (result.status, result.stdout) == (0, b"")
    assert all(line.endswith(b"(ignored)") for line in result.stderr.splitlines()), result.stderr
    assert 1 < watch.most <= JOBS
    expected = {argv: object_by_plain(workspace, *argv) for argv in {*units.values()}}
    for product, argv in units.items():  # a killed call has made no object, or a complete one
        path = workspace.directory / product
        assert path.exists() or product in moments
        assert not path.exists() or path.read_bytes() == expected[argv]


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


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_jobserver_tokens_come_back_from_a_terminated_call_but_not_from_a_killed_one(
    workspace: Workspace, toolkit: Path, tmp_path: Path, fifo: Fifo, signum: signal.Signals
) -> None:
    """They come back when its tools are gone, not before; those of a killed call are lost."""
    workspace.write("a.cu", SOURCE)
    started, _ = hang(toolkit, tmp_path)
    fifo.put(TOKENS)
    with ending(workspace):
        call = start(workspace, "-c", "a.cu", "-o", "a.o", *THREE, MAKEFLAGS=fifo.makeflags)
        wait_until(lambda: len(os.listdir(started)) == 3, [call])
        left = fifo.tokens()
        assert len(left) <= len(TOKENS) - 2
        call.send_signal(signum)
        assert end(call) == Result(-signum, b"", b"")
        if signum == signal.SIGKILL:
            check_nothing_is_left(workspace, [call])
            assert fifo.tokens() == left
        else:
            wait_until(lambda: fifo.tokens() != left)
            assert not tools_of(workspace)
            check_nothing_is_left(workspace, [call])
            assert fifo.tokens() == TOKENS

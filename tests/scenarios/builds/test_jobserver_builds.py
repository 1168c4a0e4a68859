"""Builds under make's jobserver, pipe and fifo, in which calls are killed: no token is lost, none invented.

Some units are compiled more often than once, so that calls share stages under the jobserver, too.
"""

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
from scenarios.builds.fifo_builds import AT_ONCE, JOBS, TOKENS, Build, Fifo, Unit
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
    watchdog_of,
)
from scenarios.support.both_ways import object_by_plain
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, architectures, precede
from workspaces import OLD_ENOUGH, Result, Workspace

SIGNALS = [signal.SIGKILL, signal.SIGTERM]
THREE = architectures(80, 86, 90)


@pytest.fixture
def toolkit(workspace: Workspace, toolkit: Path) -> Path:
    for number in range(4):
        workspace.write(f"{number}.cu", SOURCE.replace("kernel", f"kernel{number}"))
    return toolkit


def plan(count: int, killed: signal.Signals) -> list[Unit]:
    """One in ten is killed, at a random moment of the second that most take."""
    chance = random.Random(count + killed)
    victims = set(chance.sample(range(count), -(-count // 10)))
    units = []
    for number in range(count):
        argv = [f"{number % 4}.cu", *(THREE if number % 3 else THREE[:2])]
        if number % 2:
            argv.append(f"-DSTEP={number}")
        moment = chance.uniform(0.1, 1.5) if number in victims else 0.0
        units.append(Unit(f"{number}.o", tuple(argv), moment))
    return units


def check_objects(workspace: Workspace, units: list[Unit]) -> None:
    """The objects of calls that survived; killed ones have no object, or a complete one."""
    expected = {argv: object_by_plain(workspace, *argv) for argv in {unit.argv for unit in units}}
    for unit in units:
        path = workspace.directory / unit.product
        assert path.exists() or unit.killed_after, unit
        if path.exists():
            assert path.read_bytes() == expected[unit.argv], unit


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    """How many compiles a build has."""
    return 200 if request.config.getoption("--every-case") else 10


def write_makefile(workspace: Workspace, units: list[Unit]) -> None:
    """A few targets that compile one unit after the other, so that there are tokens left for what each runs.

    The lines hold nothing that make would need a shell for, so that its children are the calls.
    """
    lines = [f"all: {' '.join(map(str, range(AT_ONCE)))}\n"]
    for target in range(AT_ONCE):
        lines.append(f"{target}:\n")
        for unit in units[target::AT_ONCE]:
            argv = [str(launcher_of_tree()), workspace.nvcc, "-c", *unit.argv, "-o", unit.product]
            lines.append(f"\t-+@{' '.join([*argv, *HOST_OPTIONS])}\n")
    workspace.write("Makefile", "".join(lines))


def kill_from(make: Call, units: list[Unit], signum: signal.Signals) -> None:
    """Kill the planned calls while make runs."""
    waiting = {unit.product: unit.killed_after for unit in units if unit.killed_after}
    seen: dict[int, float] = {}
    while make.poll() is None:
        for pid in [pid for pid in all_processes() if parent_of(pid) == make.pid]:
            product = product_of(pid)
            moment = seen.setdefault(pid, time.monotonic()) + waiting.get(product, PATIENCE)
            if time.monotonic() >= moment and parent_of(pid) == make.pid:
                os.kill(pid, signum)
                del waiting[product]
        time.sleep(0.02)


def product_of(pid: int) -> str:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return argv[argv.index(b"-o") + 1].decode() if b"-o" in argv else ""


@pytest.mark.by_default("9")
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_build_by_make(workspace: Workspace, toolkit: Path, count: int, signum: signal.Signals) -> None:
    """make complains when it ends with a token missing, or one too many.

    A tool whose call has been killed may outlive it for as long as its watchdog needs, so it does not count.
    """
    units = plan(count, signum)
    write_makefile(workspace, units)
    variables = {name: word for name, word in workspace.environ.items() if not name.startswith("MAKE")}
    environ = {**variables, "TMPDIR": str(scratch_of(workspace))}
    with ending(workspace):
        make = subprocess.Popen(
            ["make", f"-j{JOBS}"],
            cwd=workspace.directory,
            env=environ,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        killing = threading.Thread(target=kill_from, args=(make, units, signum))
        killing.start()
        with Watch(workspace, lambda tools: sum(is_below(pid, make.pid) for pid, _ in tools)) as watch:
            result = end(make)
        killing.join()
        check_nothing_is_left(workspace, [])
    assert (result.status, result.stdout) == (0, b"")
    assert all(line.endswith(b"(ignored)") for line in result.stderr.splitlines()), result.stderr
    assert 1 < watch.most <= JOBS
    check_objects(workspace, units)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    found = Fifo(tmp_path)
    yield found
    found.close()


@pytest.mark.by_default("15")
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_build_with_a_fifo(
    workspace: Workspace, toolkit: Path, fifo: Fifo, count: int, signum: signal.Signals
) -> None:
    units = plan(count, signum)
    with ending(workspace), Watch(workspace) as watch:
        Build(workspace, fifo, signum).carry_out(units)
        check_nothing_is_left(workspace, [])
        assert fifo.tokens() == TOKENS
    assert 1 < watch.most <= JOBS
    check_objects(workspace, units)


def hang(toolkit: Path, tmp_path: Path, tool: str = "cicc") -> tuple[Path, Path]:
    """Make a tool wait; the directory in which each run makes a file, and the file that they wait for."""
    started, release = tmp_path / "started", tmp_path / "release"
    started.mkdir()
    precede(toolkit, tool, f': > "{started}/$$"\nuntil [ -e "{release}" ]; do sleep 0.05; done')
    return started, release


@pytest.mark.parametrize("tokens", [b"x", TOKENS])
def test_a_call_takes_tokens_for_what_it_runs_and_no_more(
    workspace: Workspace, toolkit: Path, tmp_path: Path, tokens: bytes
) -> None:
    """With `-t`, too, make alone decides. The three runs of cicc continue when no further one can start."""
    (tmp_path / "fifo").mkdir()
    fifo = Fifo(tmp_path / "fifo", tokens)
    started, release = hang(toolkit, tmp_path)
    expected = reference_after_release(workspace, release)
    at_once = min(3, len(tokens) + 1)
    with ending(workspace), Watch(workspace) as watch:
        call = start(workspace, "-c", "0.cu", "-o", "a.o", *THREE, "-t", "4", MAKEFLAGS=fifo.makeflags)
        wait_until(lambda: len(os.listdir(started)) >= at_once, [call])
        select.select([], [], [], 0.5)
        assert len(os.listdir(started)) == at_once
        release.touch()
        assert end(call) == Result(0, b"", b"")
        assert fifo.tokens() == bytes(sorted(tokens))
    fifo.close()
    assert watch.most <= len(tokens) + 1
    assert (workspace.directory / "a.o").read_bytes() == expected


def reference_after_release(workspace: Workspace, release: Path) -> bytes:
    """The object by plain nvcc, whose tools must not wait."""
    release.touch()
    expected = object_by_plain(workspace, "0.cu", *THREE)
    for path in [release, *(release.parent / "started").iterdir()]:
        path.unlink()
    return expected


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_the_tokens_of_a_call_that_is_ended(
    workspace: Workspace, toolkit: Path, tmp_path: Path, fifo: Fifo, signum: signal.Signals
) -> None:
    """They come back when its tools are gone, not before."""
    started, _ = hang(toolkit, tmp_path)
    with ending(workspace):
        call = start(workspace, "-c", "0.cu", "-o", "a.o", *THREE, MAKEFLAGS=fifo.makeflags)
        wait_until(lambda: len(os.listdir(started)) == 3, [call])
        left = fifo.tokens()
        assert len(left) <= len(TOKENS) - 2
        call.send_signal(signum)
        assert end(call) == Result(-signum, b"", b"")
        wait_until(lambda: fifo.tokens() != left)
        assert not tools_of(workspace)
        check_nothing_is_left(workspace, [call])
        assert fifo.tokens() == TOKENS


@pytest.mark.by_default("None", "9")
@pytest.mark.parametrize("ending_signal", [None, signal.SIGTERM, signal.SIGKILL])
def test_a_call_whose_watchdog_is_killed(
    workspace: Workspace, toolkit: Path, tmp_path: Path, fifo: Fifo, ending_signal: signal.Signals | None
) -> None:
    """It returns the tokens itself, if it can. After both were killed the tokens are lost."""
    started, release = hang(toolkit, tmp_path)
    expected = reference_after_release(workspace, release)
    with ending(workspace):
        call = start(workspace, "-c", "0.cu", "-o", "a.o", *THREE, MAKEFLAGS=fifo.makeflags)
        wait_until(lambda: len(os.listdir(started)) == 3, [call])
        held = set(TOKENS) - set(fifo.tokens())
        assert len(held) >= 2
        os.kill(watchdog_of(call), signal.SIGKILL)
        if ending_signal:
            call.send_signal(ending_signal)
        else:
            release.touch()
        status = end(call).status
        assert status == -(ending_signal or 0)
        if ending_signal is None:
            assert (workspace.directory / "a.o").read_bytes() == expected
        if ending_signal != signal.SIGKILL:
            check_nothing_is_left(workspace, [call])
            assert fifo.tokens() == TOKENS
        else:
            assert set(fifo.tokens()) == set(TOKENS) - held


# What MAKEFLAGS names: ends of a pipe or a directory, and which descriptors are inherited.
WRONG: dict[str, tuple[str, slice]] = {
    "closed_descriptors": ("97,98", slice(0)),
    "ends_that_were_not_handed_on": ("{0},{1}", slice(0)),
    "ends_in_the_wrong_order": ("{1},{0}", slice(2)),
    "no_fifo": ("fifo:{directory}/absent", slice(0)),
}


@pytest.mark.by_default("closed_descriptors", "no_fifo")
@pytest.mark.parametrize("wrong", WRONG)
def test_makeflags_that_name_no_jobserver(
    workspace: Workspace, toolkit: Path, tmp_path: Path, wrong: str
) -> None:
    """The compile runs as without a jobserver, and reads nothing from those descriptors."""
    time.sleep(OLD_ENOUGH)
    expected = object_by_plain(workspace, "0.cu")
    ends = os.pipe()
    os.write(ends[1], TOKENS)
    named, handed_on = WRONG[wrong]
    (tmp_path / "file").write_bytes(TOKENS)
    named = named.format(*ends, directory=tmp_path)
    environ = {**workspace.environ, "MAKEFLAGS": f" -j8 --jobserver-auth={named}"}
    done = subprocess.run(
        [str(launcher_of_tree()), workspace.nvcc, "-c", "0.cu", "-o", "a.o", *HOST_OPTIONS],
        cwd=workspace.directory,
        env=environ,
        input=b"what the caller reads",
        capture_output=True,
        pass_fds=ends[handed_on],
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").read_bytes() == expected
    assert os.read(ends[0], 100) == TOKENS
    for descriptor in ends:
        os.close(descriptor)

"""Faults while several stages of a call run: tools that die or fail, no memory, no room, and signals.

The pool is made large enough for all stages to run at once, whatever else runs on the machine. `-t` would do
that too, but nvcc then has an exit status of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.support.at_once import (
    PATIENCE,
    Call,
    all_processes,
    check_nothing_is_left,
    claims_held,
    end,
    ending,
    is_below,
    name_of,
    processes_of,
    scratch_of,
    small_file_system,
    start,
    wait_until,
)
from scenarios.support.both_ways import object_by_plain, twice_like_plain
from scenarios.support.toolkits import (
    CCBIN,
    HOST_COMPILER,
    HOST_OPTIONS,
    SOURCE,
    architectures,
    barrier,
    precede,
    wrap,
)
from workspaces import OLD_ENOUGH, Result, Workspace, make_workspace

THREE = architectures(80, 86, 90)
HOST = "host compiler"
WORDS = ("-c", "a.cu", "-o", "a.o", *THREE)
AT_ONCE = {"NVCCACHE_JOBS": "64"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> bytes:
    """The object by plain nvcc, which depends on no path."""
    workspace = make_workspace(tmp_path_factory.mktemp("plain"), nvcc)
    workspace.write("a.cu", SOURCE)
    return object_by_plain(workspace, "a.cu", *THREE)


@pytest.fixture
def toolkit(workspace: Workspace, toolkit: Path) -> Path:
    workspace.write("a.cu", SOURCE)
    time.sleep(OLD_ENOUGH)
    return toolkit


def where(virtual: int, commands: str) -> str:
    """Shell commands for a tool that works for one architecture."""
    return f'case " $* " in *compute_{virtual}*|*sm_{virtual}*) {commands};; esac'


# What a tool does before or in place of its work.
TROUBLE = {
    "cudafe++ dies after the others": ("cudafe++", "sleep 0.3; kill -SEGV $$"),
    "two fail": (
        "cicc",
        where(80, "sleep 0.5; echo told by 80 >&2; exit 3") + "\n" + where(90, "echo told by 90 >&2; exit 4"),
    ),
}


@pytest.mark.parametrize("case", TROUBLE)
def test_a_crashing_or_failing_tool_gives_the_result_of_nvcc(
    workspace: Workspace, toolkit: Path, case: str
) -> None:
    precede(toolkit, *TROUBLE[case])
    workspace.write("a.o", "made earlier")

    def by_cache() -> Result:
        with ending(workspace):
            call = start(workspace, *WORDS, "-MD", **AT_ONCE)
            made = end(call)
            check_nothing_is_left(workspace, [call])
        return made

    plain, _ = twice_like_plain(workspace, lambda: workspace.plain(*WORDS, "-MD", *HOST_OPTIONS), by_cache)
    assert plain.status != 0


def test_nvcc_compiles_by_itself_after_a_tool_was_killed_for_its_memory(
    workspace: Workspace, toolkit: Path, tmp_path: Path, expected: bytes
) -> None:
    """The real nvcc then runs the stages one by one and succeeds; nothing of the failed run is kept."""
    precede(toolkit, "cicc", where(86, f'mkdir "{tmp_path}/once" 2>&- && kill -KILL $$'))
    with ending(workspace):
        call = start(workspace, *WORDS, **AT_ONCE)
        assert end(call) == Result(0, b"", b"")
        check_nothing_is_left(workspace, [call])
    check_right_afterwards(workspace, expected)


def test_a_compile_succeeds_with_little_address_space(
    workspace: Workspace, toolkit: Path, expected: bytes
) -> None:
    """For plain nvcc and its tools as for nvccache; if it is too little for nvccache, the real nvcc runs."""
    before = ["sh", "-c", f'ulimit -v {80 * 1024} && exec "$@"', "sh"]
    plain = workspace.run([*before, workspace.nvcc, *WORDS, *HOST_OPTIONS])
    (workspace.directory / "a.o").unlink(missing_ok=True)
    with ending(workspace):
        call = start(workspace, *WORDS, before=before, NVCCACHE_STRICT="0", **AT_ONCE)
        result = end(call)
        check_nothing_is_left(workspace, [call])
    assert result.status == plain.status
    assert (workspace.directory / "a.o").exists() == (result.status == 0)
    check_right_afterwards(workspace, expected)


def test_a_compile_succeeds_with_little_space_for_temporary_files(
    workspace: Workspace, toolkit: Path, expected: bytes
) -> None:
    """If it is too little for nvccache but not for nvcc, the real nvcc runs."""
    with ending(workspace), small_file_system(scratch_of(workspace), "768k"):
        plain = workspace.plain(*WORDS, *HOST_OPTIONS, TMPDIR=str(scratch_of(workspace)))
        (workspace.directory / "a.o").unlink(missing_ok=True)
        for path in scratch_of(workspace).iterdir():
            path.unlink()
        call = start(workspace, *WORDS, NVCCACHE_STRICT="0", **AT_ONCE)
        result = end(call)
        wait_until(lambda: not processes_of(workspace))
        assert not list(scratch_of(workspace).glob("nvccache-*"))
    assert result.status == plain.status
    assert (workspace.directory / "a.o").exists() == (plain.status == 0)
    check_right_afterwards(workspace, expected)


def check_right_afterwards(workspace: Workspace, expected: bytes) -> None:
    """No entry of the cache is partial, or partial ones are not used."""
    (workspace.directory / "a.o").unlink(missing_ok=True)
    result = workspace.cached(*WORDS, *HOST_OPTIONS)
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").read_bytes() == expected


@contextlib.contextmanager
def stuck(
    workspace: Workspace, toolkit: Path, tmp_path: Path, hang: str = "$SLEEP", tool: str = "cicc"
) -> Iterator[Call]:
    """A call in its own process group that hangs in its tools, each of which has started a child."""
    started = tmp_path / "started"
    started.mkdir()
    is_to_hang = tmp_path / "hang"
    sleep = f'SLEEP="{shutil.which("sleep")} 1000"; : > "{started}/$$"'
    commands = f'if [ -e "{is_to_hang}" ]; then {sleep}; {hang}; fi'
    options: list[str | Path] = []
    if tool == HOST:
        options = ["-ccbin", tmp_path / "g++"]
        wrap(tmp_path / "g++", HOST_COMPILER, before=f'case " $* " in *" -c "*) {commands};; esac')
    else:
        precede(toolkit, tool, commands)
    is_to_hang.touch()
    count = len(THREE) if tool == "cicc" else 1
    with ending(workspace):
        call = start(workspace, *WORDS, "-MD", *options, has_own_group=True, **AT_ONCE)
        wait_until(lambda: len(os.listdir(started)) == names_of_family(call).count("sleep") == count, [call])
        is_to_hang.unlink()
        yield call


def names_of_family(call: Call) -> list[str]:
    return [name_of(pid) for pid in all_processes() if is_below(pid, call.pid)]


def tell(call: Call, signum: signal.Signals, is_for_group: bool) -> None:
    (os.killpg if is_for_group else os.kill)(call.pid, signum)


def check_ended(workspace: Workspace, call: Call, signum: signal.Signals, expected: bytes) -> None:
    """Nothing is left of it, and the next compile is right."""
    assert end(call) == Result(-signum, b"", b"")
    assert not (workspace.directory / "a.o").exists()
    check_nothing_is_left(workspace, [call])
    assert not list(workspace.cache.glob("tmp/*"))
    check_right_afterwards(workspace, expected)


@pytest.mark.parametrize(
    ("tool", "signum", "is_for_group"), [("cicc", signal.SIGINT, True), (HOST, signal.SIGTERM, False)]
)
def test_a_signal_ends_all_tools(
    workspace: Workspace,
    toolkit: Path,
    tmp_path: Path,
    expected: bytes,
    tool: str,
    signum: signal.Signals,
    is_for_group: bool,
) -> None:
    if CCBIN and tool == HOST:
        pytest.skip("this toolkit takes only the compiler it is given")
    with stuck(workspace, toolkit, tmp_path, tool=tool) as call:
        family = [pid for pid in processes_of(workspace) if pid != call.pid]
        assert len(family) >= (6 if tool == "cicc" else 2)  # the tools, and what they have started
        tell(call, signum, is_for_group)
        call.wait(PATIENCE)
        assert not [(pid, name_of(pid)) for pid in family if pid in processes_of(workspace)]
        check_ended(workspace, call, signum, expected)


def test_sigterm_at_a_random_moment_leaves_no_process(workspace: Workspace) -> None:
    """Nor scratch files, slots or claims. The moments are the same on every run; the speed is not."""
    choose = random.Random(7)
    with ending(workspace):
        for number in range(4):
            workspace.write("a.cu", f"__global__ void k(int *p) {{ *p = {number}; }}\n")
            call = start(workspace, *WORDS, **AT_ONCE)
            time.sleep(choose.uniform(0, 1))
            call.terminate()
            assert end(call).status in (-signal.SIGTERM, 0)
            check_nothing_is_left(workspace, [call])


def test_tools_that_ignore_signals_are_still_killed(
    workspace: Workspace, toolkit: Path, tmp_path: Path, expected: bytes
) -> None:
    """By the second ^C at the latest, which may come during the handling of the first."""
    with stuck(workspace, toolkit, tmp_path, 'trap "" TERM INT HUP; $SLEEP; $SLEEP') as call:
        for number in range(2):
            tell(call, signal.SIGINT, is_for_group=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                call.wait(0.2)
            assert number or call.poll() is None
        check_ended(workspace, call, signal.SIGINT, expected)


def test_a_compile_after_a_killed_one_does_not_wait_for_its_tools(
    workspace: Workspace, toolkit: Path, tmp_path: Path, expected: bytes
) -> None:
    """They run to their end, as nvcc's do, but no claim is held for them."""
    with stuck(workspace, toolkit, tmp_path) as call:
        assert claims_held(workspace)
        tell(call, signal.SIGKILL, is_for_group=False)
        call.wait(PATIENCE)
        assert processes_of(workspace) and not claims_held(workspace)
        check_right_afterwards(workspace, expected)


def test_a_failing_stage_stops_later_ones_but_lets_earlier_ones_finish(
    workspace: Workspace, toolkit: Path, tmp_path: Path
) -> None:
    """The first architecture has a warning, which comes last; the second fails; the third hangs."""
    first = 'until [ -e "$MARK" ]; do sleep 0.05; done; sleep 0.3; echo warned by 80 >&2'
    second = ': > "$MARK"; echo told by 86 >&2; exit 3'
    commands = "\n".join([where(80, first), where(86, second), where(90, "sleep 1000")])
    meeting = barrier(tmp_path / "all", 3)
    precede(toolkit, "cicc", f'MARK="{tmp_path}/mark"\n{meeting}\n{commands}')
    with ending(workspace):
        call = start(workspace, *WORDS, **AT_ONCE)
        result = end(call)
        assert (result.status, result.stdout) == (3, b"")
        assert result.stderr.splitlines() == [b"warned by 80", b"told by 86"]
        check_nothing_is_left(workspace, [call])

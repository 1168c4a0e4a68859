"""Concurrent calls share results, do not wait for stalled calls, and do not overload the machine."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from scenarios.support.at_once import (
    Call,
    Watch,
    check_nothing_is_left,
    claims_held,
    end,
    ending,
    is_waiting_for_claim,
    own_pool,
    start,
    tools_of,
    wait_until,
)
from scenarios.support.both_ways import object_by_plain, visible_result
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, architectures, barrier, precede
from workspaces import OLD_ENOUGH, Result, Workspace

NAMES = [f"{number}.o" for number in range(4)]
BOTH = architectures(80, 90)
DEVICE_ERROR = "#ifdef __CUDA_ARCH__\n__device__ int x = ;\n#endif\n" + SOURCE


def write(workspace: Workspace, text: str) -> None:
    workspace.write("a.cu", text)
    time.sleep(OLD_ENOUGH)


def check_made(calls: list[Call], paths: list[Path], expected: bytes) -> None:
    """Each succeeds silently, with this object."""
    for call, path in zip(calls, paths, strict=True):
        assert end(call) == Result(0, b"", b"")
        assert path.read_bytes() == expected


def test_identical_concurrent_compiles_run_each_stage_once(workspace: Workspace, toolkit: Path) -> None:
    write(workspace, SOURCE)
    expected = object_by_plain(workspace, "a.cu", *BOTH)
    for tool in ("cicc", "cudafe++"):
        precede(toolkit, tool, "sleep 0.5")
    paths = [workspace.directory / f"in-{name}/a.o" for name in NAMES]
    for path in paths:
        path.parent.mkdir()
    with ending(workspace):
        calls = [start(workspace, "-c", workspace.directory / "a.cu", "-o", path, *BOTH) for path in paths]
        check_made(calls, paths, expected)
        check_nothing_is_left(workspace, calls)
    counters = workspace.counters()
    once = {"cudafe": 1, "cicc": 2, "ptxas": 2, "fatbinary": 1, "host_compile": 1}
    assert counters.compiled() == once
    assert counters.hit()["cicc"] == 2 * (len(paths) - 1)


def test_calls_that_waited_for_a_failing_stage_then_run_it_concurrently(
    workspace: Workspace, toolkit: Path, tmp_path: Path
) -> None:
    """All but the first one must run at the same time, or else they print that they timed out."""
    write(workspace, DEVICE_ERROR)
    plain = workspace.plain("-c", "a.cu", "-o", "plain.o", *HOST_OPTIONS)
    others = barrier(tmp_path / "others", len(NAMES) - 1)
    caller = first_hangs(toolkit, tmp_path, until=str(tmp_path / "go on"), others=others)
    with ending(workspace):
        calls = [start(workspace, "-c", "a.cu", "-o", name) for name in NAMES]
        find_holder(workspace, caller, calls)
        (tmp_path / "go on").touch()
        assert [visible_result(end(call)) for call in calls] == [visible_result(plain)] * len(calls)
        check_nothing_is_left(workspace, calls)
    assert plain.status != 0 and not list(workspace.directory.glob("*.o"))
    assert workspace.counters().calls["failed"] == len(calls)


def first_hangs(toolkit: Path, tmp_path: Path, until: str = "", others: str = ":") -> Path:
    """Have the first cicc hang until that file exists, and others run these commands first.

    Returns the file that names the caller of the first.
    """
    caller = tmp_path / "caller"
    hang = f'read -r a b c parent rest < /proc/self/stat; echo $parent > "{caller}.new"'
    hang += f'; mv "{caller}.new" "{caller}"'
    awaited = until or tmp_path / "never"
    hang += f'; until [ -e "{awaited}" ]; do sleep 0.1; done'
    precede(toolkit, "cicc", f'if mkdir "{tmp_path}/first" 2>&-; then {hang}; else\n{others}\nfi')
    return caller


def find_holder(workspace: Workspace, caller: Path, calls: list[Call]) -> Call:
    """Wait until the other calls need a stage that one call runs; that call."""
    running = workspace.cache / "locks/running"
    wait_until(caller.exists, calls)
    pid = int(caller.read_text())
    (holder,) = [call for call in calls if call.pid == pid]
    others = [call for call in calls if call is not holder]
    # While the holder has only one claim it is this one: its earlier stages are stored.
    wait_until(lambda: len(list(running.iterdir())) == 1 and all(map(is_waiting_for_claim, others)), calls)
    return holder


def test_calls_that_wait_for_a_killed_call_continue(
    workspace: Workspace, toolkit: Path, tmp_path: Path
) -> None:
    write(workspace, SOURCE)
    expected = object_by_plain(workspace, "a.cu")
    caller = first_hangs(toolkit, tmp_path)
    with ending(workspace):
        calls = [start(workspace, "-c", "a.cu", "-o", name) for name in NAMES]
        holder = find_holder(workspace, caller, calls)
        holder.kill()
        others = [call for call in calls if call is not holder]
        names = [name for name, call in zip(NAMES, calls, strict=True) if call is not holder]
        check_made(others, [workspace.directory / name for name in names], expected)
        assert end(holder) == Result(-signal.SIGKILL, b"", b"")
        assert not claims_held(workspace)
    assert workspace.counters().ran()["cicc"] == 1


def test_calls_that_wait_for_each_others_stages_do_not_deadlock(
    workspace: Workspace, toolkit: Path, request: pytest.FixtureRequest
) -> None:
    """With one slot for both, in opposite orders, and one of them often killed."""
    write(workspace, SOURCE)
    crossing = [BOTH, BOTH[::-1]]
    expected = [object_by_plain(workspace, "a.cu", *argv) for argv in crossing]
    chance = random.Random(20)
    for number in range(20 if request.config.getoption("--every-case") else 2):
        shutil.rmtree(workspace.cache, ignore_errors=True)
        names = [f"{number}-0.o", f"{number}-1.o"]
        with ending(workspace):
            calls = [start(workspace, "-c", "a.cu", "-o", name, *argv, NVCCACHE_JOBS="1")
                     for name, argv in zip(names, crossing, strict=True)]  # fmt: skip
            killed = chance.choice([None, *calls])
            if killed:
                time.sleep(chance.uniform(0.1, 0.8))
                killed.kill()
            for call, name, content in zip(calls, names, expected, strict=True):
                result = end(call)
                if call is killed and result.status:
                    assert result == Result(-signal.SIGKILL, b"", b"")
                else:
                    assert result == Result(0, b"", b"")
                    assert (workspace.directory / name).read_bytes() == content
            assert not claims_held(workspace)
        again = start(workspace, "-c", "a.cu", "-o", "again.o", *BOTH)
        check_made([again], [workspace.directory / "again.o"], expected[0])


def test_concurrent_tools_are_limited_to_the_slots_or_one_per_call(
    workspace: Workspace, toolkit: Path, tmp_path: Path
) -> None:
    """The second call finds all slots taken, and runs one tool without a slot."""
    release = tmp_path / "release"
    precede(toolkit, "cicc", f'until [ -e "{release}" ]; do sleep 0.05; done')
    before = own_pool(workspace)
    calls: list[Call] = []
    with ending(workspace):
        for number in range(2):
            workspace.write(f"{number}.cu", SOURCE.replace("STEP 1", f"STEP 1{number}"))
            argv = ("-c", f"{number}.cu", "-o", f"{number}.o", *architectures(75, 80, 86))
            calls.append(start(workspace, *argv, before=before, NVCCACHE_JOBS="2"))
            wait_until(lambda number=number: len(waiting_tools(workspace)) >= 2 + number, calls)
        with Watch(workspace) as watch:
            time.sleep(0.5)
        assert watch.most == 3
        release.touch()
        assert [end(call) for call in calls] == [Result(0, b"", b"")] * 2
        check_nothing_is_left(workspace, calls)


def waiting_tools(workspace: Workspace) -> list[int]:
    return [pid for pid, name in tools_of(workspace) if name == "cicc"]

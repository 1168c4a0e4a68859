"""Concurrent calls share results, do not wait for stalled calls, and do not overload the machine."""

from __future__ import annotations

import os
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
    end,
    ending,
    is_below,
    is_waiting_for_claim,
    own_pool,
    start,
    tools_of,
    wait_until,
)
from scenarios.support.both_ways import object_by_plain, visible_result
from scenarios.support.linking import INTERNAL, link
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, architectures, barrier, precede
from workspaces import OLD_ENOUGH, Result, Workspace

NAMES = [f"{number}.o" for number in range(8)]
BOTH = architectures(80, 90)
DEVICE_ERROR = "#ifdef __CUDA_ARCH__\n__device__ int x = ;\n#endif\n" + SOURCE
PTXAS_ERROR = SOURCE + '__global__ void other() { asm volatile("no.such.instruction;"); }\n'


def write(workspace: Workspace, text: str) -> None:
    workspace.write("a.cu", text)
    time.sleep(OLD_ENOUGH)


def check_made(calls: list[Call], paths: list[Path], expected: bytes) -> None:
    """Each succeeds silently, with this object."""
    for call, path in zip(calls, paths, strict=True):
        assert end(call) == Result(0, b"", b"")
        assert path.read_bytes() == expected


@pytest.mark.by_default("folders")
@pytest.mark.parametrize("where", ["names", "folders"])
def test_what_all_need_runs_once(workspace: Workspace, toolkit: Path, where: str) -> None:
    write(workspace, SOURCE)
    expected = object_by_plain(workspace, "a.cu", *BOTH)
    for tool in ("cicc", "cudafe++"):
        precede(toolkit, tool, "sleep 0.5")
    paths = [workspace.directory / (name if where == "names" else f"in-{name}/a.o") for name in NAMES]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
    with ending(workspace):
        calls = [start(workspace, "-c", workspace.directory / "a.cu", "-o", path, *BOTH) for path in paths]
        check_made(calls, paths, expected)
        check_nothing_is_left(workspace, calls)
    counters = workspace.counters()
    once = {"cudafe": 1, "cicc": 2, "ptxas": 2, "fatbinary": 1, "host_compile": 1}
    assert counters.compiled() == once
    assert counters.hit()["cicc"] == 2 * (len(paths) - 1)


@pytest.mark.by_default("-dc")
@pytest.mark.parametrize("mode", ["-c", "-dc"])
def test_units_named_after_their_outputs_are_what_they_are_alone(
    workspace: Workspace, toolkit: Path, nvcc: str, mode: str
) -> None:
    """They have no external definition: their ids depend on the name of the object."""
    write(workspace, INTERNAL)
    names = NAMES if mode == "-c" else NAMES[:3]
    alone = {}
    for name in names[:3]:
        result = workspace.cached(mode, "a.cu", "-o", name, *HOST_OPTIONS)
        assert (result.status, result.stderr) == (0, b"")
        alone[name] = (workspace.directory / name).read_bytes()
        (workspace.directory / name).unlink()
        shutil.rmtree(workspace.cache)
    with ending(workspace):
        calls = [start(workspace, mode, "a.cu", "-o", name) for name in names]
        assert [end(call) for call in calls] == [Result(0, b"", b"")] * len(calls)
    assert {name: (workspace.directory / name).read_bytes() for name in alone} == alone
    workspace.nvcc = nvcc
    link(workspace, names, (mode,))


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("source", [DEVICE_ERROR, PTXAS_ERROR], ids=["cicc", "ptxas"])
def test_all_waiting_calls_get_a_failure_as_nvcc_prints_it(
    workspace: Workspace, toolkit: Path, source: str
) -> None:
    write(workspace, source)
    plain = workspace.plain("-c", "a.cu", "-o", "plain.o", *BOTH, *HOST_OPTIONS)
    assert plain.status != 0
    with ending(workspace):
        calls = [start(workspace, "-c", "a.cu", "-o", name, *BOTH) for name in NAMES]
        for call in calls:
            assert visible_result(end(call)) == visible_result(plain)
        check_nothing_is_left(workspace, calls)
    assert not list(workspace.directory.glob("*.o"))
    assert workspace.counters().calls["failed"] == len(calls)


def test_calls_that_waited_for_a_failure_do_not_queue_for_the_next(
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


def test_calls_that_wait_for_a_killed_call_go_on(workspace: Workspace, toolkit: Path, tmp_path: Path) -> None:
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
        check_nothing_is_left(workspace, calls)
    assert workspace.counters().ran()["cicc"] == 1


def test_two_calls_that_need_what_the_other_runs_both_come_to_an_end(
    workspace: Workspace, toolkit: Path, request: pytest.FixtureRequest
) -> None:
    """With one slot for both, in opposite orders, and one of them often killed."""
    write(workspace, SOURCE)
    crossing = [BOTH, BOTH[::-1]]
    expected = [object_by_plain(workspace, "a.cu", *argv) for argv in crossing]
    chance = random.Random(20)
    for number in range(20 if request.config.getoption("--every-case") else 6):
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
            check_nothing_is_left(workspace, calls)
        again = start(workspace, "-c", "a.cu", "-o", "again.o", *BOTH)
        check_made([again], [workspace.directory / "again.o"], expected[0])


@pytest.mark.parametrize("setting", ["NVCCACHE_READONLY", "NVCCACHE_RECACHE"])
def test_who_may_not_store_or_not_look_shares_nothing(
    workspace: Workspace, toolkit: Path, setting: str
) -> None:
    write(workspace, SOURCE)
    expected = object_by_plain(workspace, "a.cu")
    names = NAMES[:3]
    with ending(workspace):
        calls = [start(workspace, "-c", "a.cu", "-o", name, **{setting: "1"}) for name in names]
        check_made(calls, [workspace.directory / name for name in names], expected)
        check_nothing_is_left(workspace, calls)
    assert not (workspace.cache / "locks/running").exists()
    if setting == "NVCCACHE_READONLY":
        assert not workspace.cache.exists()
    else:
        assert workspace.counters().ran()["cicc"] == len(names)
        _, counters = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "0.o", *HOST_OPTIONS))
        assert counters.outcome == "direct_hit"


MANY = architectures(75, 80, 86, 89, 90)


def start_units(workspace: Workspace, count: int, places: int) -> list[Call]:
    """Compile unrelated units, the later ones when the first has filled the pool."""
    calls: list[Call] = []
    for number in range(count):
        workspace.write(f"{number}.cu", SOURCE.replace("STEP 1", f"STEP 1{number}"))
    before = own_pool(workspace)
    for number in range(count):
        argv = ("-c", f"{number}.cu", "-o", f"{number}.o", *MANY)
        calls.append(start(workspace, *argv, before=before, NVCCACHE_JOBS=str(places)))
        if not number:
            wait_until(lambda: len(tools_of(workspace)) >= places, calls)
    return calls


def has_tool(workspace: Workspace, call: Call) -> bool:
    return any(is_below(pid, call.pid) for pid, _ in tools_of(workspace))


@pytest.mark.parametrize(
    ("places", "count"),
    [
        (4, 1),
        (1, 3),
    ],
)
def test_no_more_tools_run_than_there_are_places_or_calls(
    workspace: Workspace, toolkit: Path, places: int, count: int
) -> None:
    """A call that finds all slots taken runs one tool without a slot, and gets the next free one."""
    for tool in ("cicc", "cudafe++", "ptxas"):
        precede(toolkit, tool, "sleep 0.3")
    with ending(workspace):
        calls = start_units(workspace, count, places)
        with Watch(workspace) as watch:
            wait_until(lambda: all(has_tool(workspace, call) for call in calls), calls)
            first = tools_of(workspace)
            wait_until(lambda: not first & tools_of(workspace), calls)
            with Watch(workspace) as later:
                for call in calls:
                    assert end(call) == Result(0, b"", b"")
        check_nothing_is_left(workspace, calls)
    assert watch.most <= places + count - 1
    assert later.most <= max(places, count)
    assert later.most >= min(places, len(MANY))


def test_threads_are_not_taken_from_the_pool(workspace: Workspace, toolkit: Path, tmp_path: Path) -> None:
    """The four runs of cicc wait for each other."""
    write(workspace, SOURCE)
    precede(toolkit, "cicc", barrier(tmp_path / "together", 4))
    with ending(workspace):
        call = start(workspace, "-c", "a.cu", "-o", "a.o", *MANY[:4], "-t", "4", NVCCACHE_JOBS="1")
        assert end(call) == Result(0, b"", b"")
    assert len(os.listdir(tmp_path / "together")) == 4

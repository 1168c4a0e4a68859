"""The whole process group is killed at any moment: nothing is left, and the next compile is right."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE
from workspaces import OLD_ENOUGH, Workspace

LINE = ("-c", "a.cu", "-o", "a.o", "-MD", "-MF", "a.d", *HOST_OPTIONS)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_PATIENCE = 60  # seconds after which a process that should end is taken to hang
_MOMENTS = 100  # for each level, with --every-case


def prepare(workspace: Workspace, level: str, number: int) -> None:
    if level == "cold":
        step = SOURCE.replace("STEP 1", f"STEP {number + 10}")
        workspace.write("a.cu", step)
    if level == "stages":
        workspace.forget_calls()
    if level == "direct":
        assert workspace.cached(*LINE).status == 0
    time.sleep(OLD_ENOUGH)


def killed(workspace: Workspace, after: float, signum: int) -> float:
    """Kill the group of a call after so many seconds; how long it ran."""
    started = time.monotonic()
    process = subprocess.Popen(
        [str(launcher_of_tree()), workspace.nvcc, *LINE],
        cwd=workspace.directory,
        env=workspace.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signum)
    status = process.wait(_PATIENCE)
    # Python itself ends with 1 if it gets SIGINT before it has begun.
    assert status in (0, -signum, 128 + signum) or (status, signum) == (1, signal.SIGINT)
    return time.monotonic() - started


def wait_for_all(mark: Path) -> None:
    """Until no process is left that names the workspace, watchdogs included, which look like calls."""
    give_up_at = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up_at:
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                lines.append(path.read_bytes())
        if not any(os.fsencode(mark) in line for line in lines):
            return
        time.sleep(0.02)
    pytest.fail("something runs on")


@pytest.mark.by_default("cold")
@pytest.mark.parametrize("level", ["cold", "stages", "direct"])
def test_a_process_group_may_be_killed_at_any_moment(
    workspace: Workspace, tmp_path: Path, toolkit: Path, level: str, request: pytest.FixtureRequest
) -> None:
    count = _MOMENTS if request.config.getoption("--every-case") else 2
    for name in ("tmp", "keep"):
        (tmp_path / name).mkdir()
    workspace.environ["TMPDIR"] = str(tmp_path / "tmp")
    workspace.write("a.cu", SOURCE)
    assert workspace.cached(*LINE).status == 0
    choose = random.Random(level)
    prepare(workspace, level, -1)
    longest = killed(workspace, _PATIENCE, signal.SIGKILL)
    for number in range(count):
        prepare(workspace, level, number)
        out = workspace.directory
        before = {name: (out / name).read_bytes() for name in ("a.o", "a.d") if number % 2}
        for name in ("a.o", "a.d"):
            if name not in before:
                (out / name).unlink(missing_ok=True)
        signum = SIGNALS[number % 3]
        # The first and the last moments are short: half of the kills go there.
        share = choose.random() if number % 4 else choose.choice([0.05, 0.95]) + choose.uniform(-0.05, 0.05)
        ran = killed(workspace, longest * share, signum)
        wait_for_all(tmp_path)
        # What gcc, killed with the call, leaves in its TMPDIR, it leaves under nvcc, too.
        left = [name for name in os.listdir(tmp_path / "tmp") if not re.fullmatch(r"cc\w{6}\.\w+", name)]
        assert left == [], (number, ran)
        assert set(os.listdir(out)) <= {"a.cu", "a.o", "a.d"}, (number, ran)
        after = {name: (out / name).read_bytes() for name in ("a.o", "a.d") if (out / name).exists()}
        assert workspace.cached(*LINE).status == 0
        for name, content in after.items():
            assert content in (before.get(name), (out / name).read_bytes()), (number, ran)
        if number % 10 == 0:
            whole = (out / "a.o").read_bytes()
            keep = ("-keep", "-keep-dir", tmp_path / "keep")
            assert workspace.plain(*LINE, *keep).status == 0
            assert whole == (out / "a.o").read_bytes()

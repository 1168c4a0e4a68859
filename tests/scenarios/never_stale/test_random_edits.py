"""One edit between two calls, made from a seed: neither a product nor a message is stale.

A small workspace is made and compiled through nvccache, and one thing is edited: a file, a link, a directory,
a variable, a program or an option. Then nvccache must do what plain nvcc does, now, on a second call,
and when the edit is undone. Some edits are made while the first call runs, others in a copy of the
directory below the same base directory.

One edit of each of 8 kinds is made by default, 240 edits with --every-case:

    pytest --every-case tests/scenarios/never_stale/test_random_edits.py
    NVCCACHE_TEST_SEED=7        the edits of another seed
    NVCCACHE_TEST_SEED=7:123    one of them, as a failure names it
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from generator import edited_files, edited_headers, edited_settings, edited_tools
from generator.edit_cases import AT_REST, ELSEWHERE, PRELUDE, Call, EditCase, make_case
from generator.lines import seeds
from installations import launcher_of_tree
from nvccache.outcomes import BYPASS, FAULT
from nvccache.store import event_totals
from scenarios.same_result.sameness import TEMPORARY
from scenarios.support.at_once import all_processes, is_below, name_of
from scenarios.support.both_ways import Made
from scenarios.support.cases import OLD_ENOUGH
from scenarios.support.ids import are_alike
from scenarios.support.toolkits import HOST_OPTIONS, light_toolkit
from workspaces import Workspace, make_workspace

_PARTS = edited_headers.PARTS | edited_files.PARTS | edited_settings.PARTS | edited_tools.PARTS
_EVERY = 240
_BY_DEFAULT = {
    "a script that sources a file",
    "a directory by a link",
    "a header of three directories",
    "a header that is asked for",
    "a file for the assembler",
    "a script with a variable",
    "files of options",
    "specs of the host compiler",
}
_OF_HOST = re.compile(rb"/tmp/cc\w{6}")  # a temporary file of the host compiler, in a message


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", list(_with_marks(seeds(_EVERY))))


def _with_marks(numbered: list[str]) -> Iterator[object]:
    """By default, one seed for each of some kinds of what is edited; or the one that was asked for."""
    left = set(_BY_DEFAULT)
    for seed in numbered:
        main = make_case(seed, _PARTS).parts[0]
        is_chosen = main in left or len(numbered) == 1
        left.discard(main)
        yield pytest.param(seed, marks=() if is_chosen else pytest.mark.full)


@pytest.fixture(scope="module")
def quick_nvcc(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> str:
    """An nvcc with few headers."""
    workspace = make_workspace(tmp_path_factory.mktemp("light"), nvcc)
    light_toolkit(workspace, workspace.directory.parent / "toolkit")
    return workspace.nvcc


def test_most_edits_change_what_nvcc_gives() -> None:
    """The effect of each edit is checked where it is made."""
    changes = [make_case(seed, _PARTS).changes for seed in seeds(_EVERY)]
    assert changes.count(True) > 0.6 * len(changes)


def test_nothing_stale_after_an_edit(tmp_path: Path, quick_nvcc: str, seed: str) -> None:
    case = make_case(seed, _PARTS)
    trial = Trial(make_workspace(tmp_path, quick_nvcc), case)
    try:
        _check(trial, case)
    except AssertionError as difference:
        raise AssertionError(f"{difference}\n\nTo do it again:\n{case}") from difference
    finally:
        print(f"{case.moment}: {case.edit.description}: {', '.join(trial.outcomes)}")


def _check(trial: Trial, case: EditCase) -> None:
    before = trial.prepare()
    call = case.call.after(case.edit)
    trial.make_edit()
    found = trial.cached(call)
    expected = trial.plain(call)
    _assert_same(trial, found, expected, "after the edit")
    if before is not None and case.changes is not None and case.moment == AT_REST:
        assert (before != expected) == case.changes, "what the edit does to what plain nvcc gives"
    _assert_same(trial, trial.cached(call), expected, "when asked again")
    if case.is_undone and case.moment == AT_REST:
        trial.undo()
        _assert_same(trial, trial.cached(case.call), trial.plain(case.call), "when all is as it was")


def _assert_same(trial: Trial, found: Outcome, expected: Made, when: str) -> None:
    made = found.made
    if found.name == BYPASS:  # nvcc's own messages then have names of temporary files, and so do objects
        made, expected = (_without_temporary_names(each) for each in (made, expected))
    assert made.status == expected.status, f"another status {when}: {_messages(made, expected)}"
    assert (made.stdout, made.stderr) == (expected.stdout, expected.stderr), (
        f"other messages {when}: {_messages(made, expected)}"
    )
    assert made.files.keys() == expected.files.keys(), f"other files {when}"
    for name, file in expected.files.items():
        (mode, content), (other_mode, other) = made.files[name], file
        is_same = mode == other_mode and are_alike(content, other, trial.workspace)
        assert is_same, f"another `{name}` {when} ({found.name})"


def _messages(made: Made, expected: Made) -> str:
    return (
        f"{(made.stdout + made.stderr).decode()!r}, and nvcc {(expected.stdout + expected.stderr).decode()!r}"
    )


def _without_temporary_names(made: Made) -> Made:
    files = {name: (mode, b"") for name, (mode, _) in made.files.items()}
    return Made(made.status, TEMPORARY.sub(b"", made.stdout), TEMPORARY.sub(b"", made.stderr), files)


@dataclasses.dataclass(frozen=True)
class Outcome:
    name: str
    made: Made


class Trial:
    """A directory, in which a case is made."""

    def __init__(self, workspace: Workspace, case: EditCase) -> None:
        self.workspace = workspace
        self._case = case
        self.directory = workspace.directory
        self.pristine = workspace.directory.with_name("pristine")
        self.outcomes: list[str] = []
        self._toolkit = Path(workspace.nvcc).parents[1]
        if case.moment == ELSEWHERE:
            workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory.parent)

    def prepare(self) -> Made | None:
        """Make the directory, and compile in it; the result, if it is certainly nvcc's own."""
        self._run_script(self._case.script)
        subprocess.run(["cp", "-a", self.directory, self.pristine], check=True)
        self._pause()
        if self._case.is_made_meanwhile:
            with Meddler(self._case.moment, lambda: self._run_script(self._case.edit.script)) as meddler:
                self.cached(self._case.call)
            self.outcomes.append("in time" if meddler.is_in_time else "too late")
            return None
        for _ in range(1 + self._case.is_repeated):
            outcome = self.cached(self._case.call)
            assert outcome.made.status == 0, f"it cannot be compiled: {outcome.made.stderr.decode()}"
        return self.plain(self._case.call) if outcome.name == BYPASS else outcome.made

    def make_edit(self) -> None:
        if self._case.is_made_meanwhile:
            return
        if self._case.moment == ELSEWHERE:
            copy = self.directory.with_name("other")
            subprocess.run(["cp", "-a", self.directory, copy], check=True)
            self.directory = copy
        self._run_script(self._case.edit.script)
        self._pause()

    def undo(self) -> None:
        subprocess.run(["rm", "-rf", self.directory], check=True)
        subprocess.run(["cp", "-a", self.pristine, self.directory], check=True)
        self._pause()

    def _run_script(self, script: str) -> None:
        text = PRELUDE + script.replace("{toolkit}", str(self._toolkit))
        done = subprocess.run(
            ["sh", "-euc", text],
            cwd=self.directory,
            env=self.workspace.environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    def _pause(self) -> None:
        time.sleep(OLD_ENOUGH if self._case.has_pauses else 0)

    def cached(self, call: Call) -> Outcome:
        event_totals.reset(str(self.workspace.cache))
        made = self._made([str(launcher_of_tree()), *self._words(call)], call)
        counters = self.workspace.counters()
        name = counters.outcome if any(counters.calls.values()) else "not counted"
        assert name != FAULT
        self.outcomes.append(name)
        return Outcome(name, made)

    def plain(self, call: Call) -> Made:
        """Made with `-keep`, whose names for intermediates are the same on every run."""
        keep = self.workspace.directory.with_name("keep")
        keep.mkdir(exist_ok=True)
        return self._made([*self._words(call), "-keep", "-keep-dir", str(keep)], call)

    def _words(self, call: Call) -> list[str]:
        nvcc = self.workspace.nvcc if call.nvcc == "nvcc" else self._filled(call.nvcc)
        argv = [nvcc, *map(self._filled, shlex.split(call.line))]
        chosen = "-ccbin" in argv or "NVCC_CCBIN" in call.variables
        return argv if chosen else [*argv, *HOST_OPTIONS]

    def _filled(self, text: str) -> str:
        text = text.replace("{work}", str(self.directory)).replace("{toolkit}", str(self._toolkit))
        return text.replace("{path}", self.workspace.environ["PATH"])

    def _made(self, argv: list[str], call: Call) -> Made:
        paths = {name: self.directory / name for name in self._case.makes}
        for path in paths.values():
            path.unlink(missing_ok=True)
        variables = {name: self._filled(text) for name, text in call.variables.items()}
        result = self.workspace.run(argv, cwd=self.directory, **variables)
        files = {
            name: (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
            for name, path in paths.items()
            if path.is_file()
        }
        return Made(
            result.status, *(_OF_HOST.sub(b"", stream) for stream in (result.stdout, result.stderr)), files
        )


class Meddler:
    """Makes an edit when a program of this name first runs below this process, or on exit if none does."""

    def __init__(self, program: str, edit: Callable[[], None]) -> None:
        self._program = program
        self._edit = edit
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.is_in_time = False

    def __enter__(self) -> Meddler:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()
        if not self.is_in_time:
            self._edit()

    def _watch(self) -> None:
        while not self._is_over.is_set():
            if self._runs():
                self._edit()
                self.is_in_time = True
                return
            time.sleep(0.005)

    def _runs(self) -> bool:
        return any(name_of(pid) == self._program and is_below(pid, os.getpid()) for pid in all_processes())

"""That whatever differs from plain nvcc is seen by what all scenarios compare with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.support import both_ways as comparison
from scenarios.support.both_ways import both_ways, rebuild
from workspaces import Result, Workspace

pytestmark = pytest.mark.light_by_default

LINE = ("-ptx", "a.cu", "-o", "a.ptx", "-arch=sm_80")
Fault = Callable[[Path, Result], Result | None]
FAULTS: dict[str, Fault] = {
    "a byte of a product": lambda here, _: (here / "a.ptx").write_text("another") and None,
    "the mode of a product": lambda here, _: (here / "a.ptx").chmod(0o600),
    "no product": lambda here, _: (here / "a.ptx").unlink(),
    "a file more": lambda here, _: (here / "more").write_text("") and None,
    "a file that was there, and is another": lambda here, _: (here / "old").write_text("new") and None,
    "the status": lambda _, result: dataclasses.replace(result, status=1),
    "a message": lambda _, result: dataclasses.replace(result, stderr=b"said\n"),
    "text on standard output": lambda _, result: dataclasses.replace(result, stdout=b"said\n"),
}


@pytest.fixture
def kernel(workspace: Workspace) -> Workspace:
    workspace.write("a.cu", "__global__ void kernel(int *x) { *x = 1; }\n")
    workspace.write("old", "old")
    return workspace


@pytest.fixture
def stand_in(kernel: Workspace) -> Workspace:
    """With an nvcc that compiles nothing, where it is enough that it writes its product."""
    script = kernel.write("../stand-in/nvcc", "#!/bin/sh\necho kernel >a.ptx\n")
    script.chmod(0o755)
    kernel.nvcc = str(script.resolve())
    return kernel


@pytest.mark.parametrize("fault", FAULTS)
def test_both_ways_fails_on_any_difference_from_nvcc(
    stand_in: Workspace, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Of a call that nvcc itself makes in the place of nvccache."""

    def cached(self: Workspace, *argv: str | Path, **how: str) -> Result:
        result = self.plain(*argv, **how)
        return FAULTS[fault](self.directory, result) or result

    monkeypatch.setattr(Workspace, "cached", cached)
    with pytest.raises(AssertionError, match=r"differs from nvcc:(.|\n)* nvccache .*nvcc -ptx a.cu"):
        both_ways(stand_in, *LINE)


def test_both_ways_accepts_equal_results_and_removes_products(kernel: Workspace) -> None:
    before = set(kernel.directory.iterdir())
    kernel.write("a.ptx", "made earlier")
    first, second = (both_ways(kernel, *LINE) for _ in range(2))
    assert (first.outcome, second.outcome, first) == ("miss", "direct_hit", second)
    assert [*first.files] == ["a.ptx"] and b"kernel" in first["a.ptx"]
    (kernel.directory / "a.ptx").unlink()
    both_ways(kernel, *LINE)
    assert set(kernel.directory.iterdir()) == before


@pytest.mark.parametrize("option", ["--no-such", "-objtemp"])
def test_rebuild_raises_for_errors_and_bypasses(kernel: Workspace, option: str) -> None:
    with pytest.raises(AssertionError):
        rebuild(kernel, "-c", "a.cu", option)


def test_the_reference_compile_is_repeated_after_any_input_changes(
    stand_in: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, run = [], Workspace.plain

    def plain(self: Workspace, *argv: str | Path, **how: str) -> Result:
        runs.append(argv)
        return run(self, *argv, **how)

    monkeypatch.setattr(Workspace, "plain", plain)
    monkeypatch.setattr(Workspace, "cached", run)
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: stand_in.write("inc/a.h", ""),
        (stand_in.directory / "a.cu").touch,
        lambda: (stand_in.directory / "inc").chmod(0o700),
        lambda: stand_in.environ.update(SITE="1"),
    ]
    for number, change in enumerate(changes, start=1):
        change()
        for _ in range(2):
            both_ways(stand_in, *LINE)
            assert len(runs) == number


def test_the_reference_object_is_compiled_once_and_compared_each_time(
    kernel: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, compiled = [], comparison.compile_with_ids
    monkeypatch.setattr(comparison, "compile_with_ids", lambda *how: made.append(how) or compiled(*how))
    kernel.write("a.cu", "namespace { __global__ void hidden() {} }\nvoid f() { hidden<<<1, 1>>>(); }\n")
    line = ("-c", "a.cu", "-o", "a.o", "-arch=sm_80")
    assert [both_ways(kernel, *line).outcome for _ in range(2)] == ["miss", "direct_hit"]
    assert len(made) == 1
    run = Workspace.cached

    def stale(self: Workspace, *argv: str | Path, **how: str) -> Result:
        result = run(self, *argv, **how)
        (self.directory / "a.o").write_bytes(b"stale")
        return result

    monkeypatch.setattr(Workspace, "cached", stale)
    with pytest.raises(AssertionError, match="differs from nvcc"):
        both_ways(kernel, *line)
    monkeypatch.setattr(Workspace, "cached", run)
    kernel.write("a.cu", "namespace { __global__ void other() {} }\nvoid f() { other<<<1, 1>>>(); }\n")
    both_ways(kernel, *line)
    assert len(made) == 2

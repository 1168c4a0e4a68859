"""Values of macros and of variables: nowhere in the cache, nowhere in the log, whatever becomes of a call."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from nvccache.store import store
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

SECRET = "hunter2_correct_horse"  # a name as well, which a script could look for
SOURCE = "__global__ void kernel(int *x) { *x = 1; }\n"
ARGUMENTS = ["-c", "a.cu", "-o", "a.o"]
ARGUMENTS += [f"-DKEY={SECRET}", f'-DTEXT="{SECRET} x"', f"-Xcompiler=-DHOST={SECRET}"]
# All but one are read by some compiler, and are therefore part of what a call is known by.
VARIABLES = {
    "LANGUAGE": SECRET,
    "NVCC_APPEND_FLAGS": f"-DAPPENDED={SECRET}",
    "GCC_COLORS": SECRET,
    "UNRELATED_TOKEN": SECRET,
}


def texts_of(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file of a cache, those that are compressed as they were before."""
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            yield path, zstandard.decompress(content) if path.suffix == ".zst" else content


def holding(folder: Path) -> list[Path]:
    """The files with the secret; what nvcc prints of a call may hold it, in files for its user alone."""
    private = folder / store.PRIVATE
    assert not any(path.stat().st_mode & 0o077 for path in private.rglob("*") if path.is_file())
    found = [path for path, text in texts_of(folder) if SECRET.encode() in text]
    return [path for path in found if not path.is_relative_to(private)]


@pytest.mark.parametrize(
    "is_wrapped", [False, True], ids=["the compilers", "scripts in front of the compilers"]
)
def test_no_secret_value_is_stored_or_logged_by_a_miss_and_a_hit(
    workspace: Workspace, is_wrapped: bool
) -> None:
    workspace.write("a.cu", SOURCE)
    if is_wrapped:
        for name, becomes in (("nvcc", workspace.nvcc), ("g++", shutil.which("g++"))):
            path = workspace.write(f"wrapped/{name}", f'#!/bin/sh\nexec {becomes} "$@"\n')
            path.chmod(0o755)
        workspace.nvcc = str(workspace.directory / "wrapped/nvcc")
        workspace.environ["PATH"] = f"{workspace.directory}/wrapped:{workspace.environ['PATH']}"
    log = workspace.directory / "log"
    workspace.environ["NVCCACHE_LOG"] = str(log)
    for _ in ("miss", "hit"):
        assert workspace.cached(*ARGUMENTS, **VARIABLES).status == 0
    other = [word.replace(f"KEY={SECRET}", f"KEY={SECRET}-2") for word in ARGUMENTS]
    assert workspace.cached(*other, **{**VARIABLES, "LANGUAGE": f"{SECRET}-2"}).status == 0
    assert list((workspace.cache / store.OBJECT).rglob("*"))
    assert holding(workspace.cache) == []
    assert SECRET not in log.read_text()
    shown = workspace.explain("a.o")
    assert ", because the value of `-DKEY` changed\n" in shown
    assert "  also: the environment variable `LANGUAGE` changed\n" in shown


def test_no_secret_value_is_logged_by_a_call_that_is_left_to_nvcc(workspace: Workspace) -> None:
    workspace.write("a.cu", SOURCE)
    log = workspace.directory / "log"
    argv = ("--no-such-option", "--token", SECRET)
    workspace.cached(*ARGUMENTS, *argv, NVCCACHE_LOG=str(log), **VARIABLES)
    assert "bypass" in log.read_text()
    assert SECRET not in log.read_text()
    assert holding(workspace.cache) == []


def test_no_secret_value_is_logged_by_a_fault(workspace: Workspace, tmp_path: Path) -> None:
    """The report of a fault is made to be pasted somewhere."""
    workspace.write("a.cu", SOURCE)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "zstandard.py").write_text("import sys\nraise RuntimeError(repr(sys.argv))\n")
    log = workspace.directory / "log"
    found_first = f"{tmp_path / 'broken'}:{workspace.environ.get('PYTHONPATH', '')}"
    variables = {"PYTHONPATH": found_first, "NVCCACHE_LOG": str(log), "NVCCACHE_STRICT": "0"}
    assert workspace.cached(*ARGUMENTS, **variables, **VARIABLES).status == 0
    text = log.read_text()
    assert "fault in nvccache" in text and "RuntimeError" in text and "'-DKEY=…" in text and "a.cu" in text
    assert SECRET not in text

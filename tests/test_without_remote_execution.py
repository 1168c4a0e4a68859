"""The core without what sends stages to other machines: it compiles here, and `doctor` says why."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from installations import ROOT
from nvccache import endpoint
from workspaces import Result, Workspace

HIDDEN = "remote_execution"
SOURCE = '#include "x.h"\n__global__ void kernel(float *x) { x[0] = SCALE; }\n'
LINE = ("-c", "a.cu", "-o", "a.o")
PLAIN = (
    "-c",
    "a.cu",
    "-o",
    "plain.o",
    "-keep",
    "-keep-dir",
    "keep",
)  # -keep: module ids without the process


def is_left_out(folder: str, names: list[str]) -> set[str]:
    """The package, and tests that cannot be collected without it."""
    tests = [name for name in names if name.endswith(".py") and folder.startswith(str(ROOT / "tests"))]
    naming = {name for name in tests if f"\nfrom nvccache.{HIDDEN}" in Path(folder, name).read_text()}
    return naming | {"__pycache__", HIDDEN}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources without the package."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=is_left_out)
    assert not (tmp_path / "src" / "nvccache" / HIDDEN).exists()
    return tmp_path


@pytest.fixture
def alone(workspace: Workspace, tree: Path) -> Workspace:
    """A workspace in which nvccache is that copy, with a remote in a directory."""
    (tree / "remote").mkdir()
    workspace.environ |= {
        "PYTHONPATH": str(tree / "src"),
        "NVCCACHE_REMOTE": f"file://{tree}/remote,rw",
        "NVCCACHE_LOG": str(tree / "log"),
    }
    workspace.write("x.h", "#define SCALE 2.0f\n")
    workspace.write("a.cu", SOURCE)
    return workspace


def command(workspace: Workspace, *words: str, **variables: str) -> Result:
    return workspace.run([sys.executable, "-m", "nvccache", *words], **variables)


def outcome_of_compile(workspace: Workspace, **variables: str) -> str:
    """Compile, as plain nvcc does; what `nvccache stats` calls it."""
    (workspace.directory / "keep").mkdir(exist_ok=True)
    plain = workspace.plain(*PLAIN)
    (workspace.directory / "a.o").unlink(missing_ok=True)
    done, counted = workspace.since(lambda: workspace.cached(*LINE, **variables))
    assert (done.status, done.stderr) == (plain.status, plain.stderr)
    made, expected = ((workspace.directory / name).read_bytes() for name in ("a.o", "plain.o"))
    assert made == expected
    return counted.outcome


def test_nothing_else_misses_it(alone):
    assert outcome_of_compile(alone) == "miss"
    assert outcome_of_compile(alone) == "direct_hit"
    alone.write("a.cu", f"// a remark\n{SOURCE}")
    assert outcome_of_compile(alone) == "stage_hit"
    assert command(alone, "remote", "push").status == 0
    alone.environ["NVCCACHE_DIR"] += "-of-another"
    assert outcome_of_compile(alone) == "direct_hit"
    assert json.loads(command(alone, "stats", "--json").stdout)["remote"]["found"] > 0
    assert b"hit" in command(alone, "explain", "a.o").stdout
    findings = json.loads(command(alone, "doctor", "--json").stdout)["findings"]
    assert {"remote", "nvccache", "and again"} <= {
        each["topic"] for each in findings if each["state"] == "ok"
    }
    assert "executor" not in {each["topic"] for each in findings}


@pytest.mark.by_default("grpc://127.0.0.1:1")
@pytest.mark.parametrize("executor", ["grpc://127.0.0.1:1", "prefix:env"])
def test_stages_that_would_be_sent_run_here(alone, executor):
    alone.environ |= {"NVCCACHE_EXECUTOR": executor}
    assert outcome_of_compile(alone) == "miss"
    assert outcome_of_compile(alone) == "direct_hit"
    assert Path(alone.environ["NVCCACHE_LOG"]).read_text().count(endpoint.NOT_INSTALLED) == 1
    done = command(alone, "doctor", "--json")
    (finding,) = [each for each in json.loads(done.stdout)["findings"] if each["topic"] == "executor"]
    assert (done.status, finding["state"], finding["text"]) == (1, "bad", endpoint.NOT_INSTALLED)
    assert command(alone, "stats").status == 0


def test_a_folder_that_was_left_over_is_no_package(alone, tree):
    (tree / "src" / "nvccache" / HIDDEN).mkdir()
    assert outcome_of_compile(alone, NVCCACHE_EXECUTOR="prefix:env") == "miss"
    assert endpoint.NOT_INSTALLED in Path(alone.environ["NVCCACHE_LOG"]).read_text()


def test_a_fault_within_the_package_surfaces(alone, tree):
    """In strict mode; else the real nvcc is run."""
    package = tree / "src" / "nvccache" / HIDDEN
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "source.py").write_text("import nvccache.of_no_such_name\n")
    assert b"of_no_such_name" in alone.cached(*LINE, NVCCACHE_EXECUTOR="prefix:env").stderr


@pytest.mark.full
def test_the_quick_set_passes(tree):
    for name in ("tests", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=is_left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    environ = {**os.environ, "PYTHONPATH": str(tree / "src"), "NVCCACHE_DIR": str(tree / "cache")}
    argv = [sys.executable, "-m", "pytest", "-m", "smoke", "-p", "no:xdist"]
    done = subprocess.run(argv, cwd=tree, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout

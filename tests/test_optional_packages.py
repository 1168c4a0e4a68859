"""The core without the package for remote execution. That it imports none of it, import-linter checks."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from installations import ROOT
from nvccache import endpoint
from scenarios.support.toolkits import toolkit_of
from workspaces import Result, Workspace


def without(package: str, workspace: Workspace) -> None:
    """Have the workspace use a copy of the sources that lacks a package."""
    copy = workspace.directory.parent / "copy"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", package))
    workspace.environ["PYTHONPATH"] = str(copy)
    # Without the launcher an nvcc that is a script is left alone.
    workspace.nvcc = str(toolkit_of(workspace) / "bin/nvcc")


def command(workspace: Workspace, *words: str) -> Result:
    return workspace.run([sys.executable, "-m", "nvccache", *words])


@pytest.mark.by_default("grpc://127.0.0.1:1")
@pytest.mark.parametrize("executor", ["grpc://127.0.0.1:1", "prefix:env"])
def test_without_remote_execution_stages_run_here(workspace, tmp_path, executor):
    without("remote_execution", workspace)
    log: Path = tmp_path / "log"
    workspace.environ |= {"NVCCACHE_EXECUTOR": executor, "NVCCACHE_LOG": str(log)}
    workspace.write("a.cu", "__global__ void kernel(float *x) { x[0] = 1; }\n")
    for outcome in ("miss", "direct_hit"):
        done, counted = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "a.o"))
        assert (done.status, done.stderr, counted.outcome) == (0, b"", outcome)
    assert log.read_text().count(endpoint.NOT_INSTALLED) == 1
    findings = json.loads(command(workspace, "doctor", "--json").stdout)["findings"]
    (finding,) = [each for each in findings if each["topic"] == "executor"]
    assert (finding["state"], finding["text"]) == ("bad", endpoint.NOT_INSTALLED)


def test_a_fault_within_remote_execution_surfaces_in_strict_mode(workspace):
    without("remote_execution", workspace)
    package = Path(workspace.environ["PYTHONPATH"]) / "nvccache" / "remote_execution"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "source.py").write_text("import nvccache.of_no_such_name\n")
    workspace.write("a.cu", "int a;\n")
    done = workspace.cached("-c", "a.cu", "-o", "a.o", NVCCACHE_EXECUTOR="prefix:env")
    assert b"of_no_such_name" in done.stderr

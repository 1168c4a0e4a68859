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


@pytest.fixture
def package(workspace):
    """A copy of the sources, which the workspace uses, without the package."""
    copy = workspace.directory.parent / "copy"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "remote_execution"))
    workspace.environ["PYTHONPATH"] = str(copy)
    # Without the launcher an nvcc that is a script is left alone.
    workspace.nvcc = str(toolkit_of(workspace) / "bin/nvcc")
    workspace.write("a.cu", "__global__ void kernel(float *x) { x[0] = 1; }\n")
    return copy / "nvccache" / "remote_execution"


def test_without_remote_execution_stages_run_here(workspace, package, tmp_path: Path):
    log = tmp_path / "log"
    workspace.environ |= {"NVCCACHE_EXECUTOR": "grpc://127.0.0.1:1", "NVCCACHE_LOG": str(log)}
    for outcome in ("miss", "direct_hit"):
        done, counted = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "a.o"))
        assert (done.status, done.stderr, counted.outcome) == (0, b"", outcome)
    assert log.read_text().count(endpoint.NOT_INSTALLED) == 1
    printed = workspace.run([sys.executable, "-m", "nvccache", "doctor", "--json"]).stdout
    (finding,) = [each for each in json.loads(printed)["findings"] if each["topic"] == "executor"]
    assert (finding["state"], finding["text"]) == ("bad", endpoint.NOT_INSTALLED)


def test_a_fault_within_remote_execution_surfaces_in_strict_mode(workspace, package):
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "source.py").write_text("import nvccache.of_no_such_name\n")
    done = workspace.cached("-c", "a.cu", "-o", "a.o", NVCCACHE_EXECUTOR="prefix:env")
    assert b"of_no_such_name" in done.stderr

"""The core package alone: `nvccache report` says what is not installed, and everything else works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from installations import ROOT
from nvccache.cli.names import COMMANDS


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources, the tests and the pages without the report."""
    left_out = shutil.ignore_patterns("__pycache__", "report", "test_*report*.py")
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def run(tree: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(tree / "src"), "NVCCACHE_DIR": str(tree / "cache")}
    command = [sys.executable, "-m", *argv]
    return subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [(), ("--help",), ("-o", "page.html", "--since", "2h")], ids=" ".join)
def test_a_report_that_is_not_installed_is_refused_in_one_sentence(tree, options):
    done = run(tree, "nvccache", "report", *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: `nvccache report` is not installed: ")


def test_every_other_command_is_there(tree):
    shown = run(tree, "nvccache", "--help").stdout
    assert all(f"\n  {name} " in shown for name in COMMANDS)
    for name in COMMANDS:
        assert run(tree, "nvccache", name, "--help").returncode == (name == "report"), name


@pytest.mark.full
def test_the_quick_set_passes(tree):
    done = run(tree, "pytest", "-m", "smoke", "-p", "no:xdist")
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout

"""The examples of docs/examples compile, and run where there is a GPU."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "docs/examples"
NEEDED = {"cuda_graph/graph.py": "torch"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "expected", "on_a_gpu"),
    [
        ("sweep/sweep.py", r"^compiled them again in \d+\.\d s$", "the fastest has"),
        ("cuda_graph/graph.py", r"^in another directory: \d+\.\d s$", "the graph is right"),
    ],
)
def test_each_example_script_succeeds_and_prints_the_expected_text(
    workspace, launcher, tmp_path, script, expected, on_a_gpu
):
    if not importlib.util.find_spec(NEEDED.get(script, "sys")):
        pytest.skip(f"needs {NEEDED[script]}")
    path = f"{launcher.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, tmp_path / "build"],
        env={**workspace.environ, "PATH": path}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(expected, done.stdout, re.MULTILINE)
    assert (on_a_gpu if os.path.exists("/dev/nvidia0") else "there is no GPU") in done.stdout

"""The examples of docs/examples compile, and run where there is a GPU."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workspaces import Workspace

pytestmark = pytest.mark.full

EXAMPLES = Path(__file__).parents[1] / "docs/examples"
RUNS_OUT = 600  # seconds
HAS_GPU = os.path.exists("/dev/nvidia0")


def run(script: str, folder: Path, environ: dict[str, str]) -> str:
    command = [sys.executable, str(EXAMPLES / script), str(folder)]
    done = subprocess.run(command, check=False, env=environ, capture_output=True, text=True, timeout=RUNS_OUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def environ(workspace: Workspace, launcher: Path) -> dict[str, str]:
    path = f"{launcher.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return dict(workspace.environ) | {"PATH": path, "NVCCACHE_STRICT": "1"}


def test_a_sweep_of_one_kernel(environ: dict[str, str], tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    text = (EXAMPLES / "sweep/sweep.py").read_text()
    assert "WARPS = range(1, 33)" in text
    (few / "sweep.py").write_text(text.replace("range(1, 33)", "(3, 4)"))
    (few / "softmax.cu").write_bytes((EXAMPLES / "sweep/softmax.cu").read_bytes())
    output = run(few / "sweep.py", tmp_path / "made", environ)
    assert ("the fastest has" in output) if HAS_GPU else ("there is no GPU: nothing was timed" in output)
    assert re.search(r"^compiled them again in \d+\.\d s$", output, re.MULTILINE)


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs PyTorch")
def test_a_cuda_graph_of_pytorch(environ: dict[str, str], tmp_path: Path) -> None:
    output = run("cuda_graph/graph.py", tmp_path / "build", environ)
    for step in ("first build", "the same again", "in another directory"):
        assert re.search(rf"^{step}: \d+\.\d s$", output, re.MULTILINE)
    assert ("the graph is right" in output) if HAS_GPU else ("there is no GPU" in output)

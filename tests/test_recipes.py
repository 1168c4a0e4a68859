"""What GitHub runs for users of the action: its shell commands, in an environment like the runner's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import installations
from workspaces import Workspace

ACTION = installations.ROOT / ".github/actions/setup-nvccache/action.yml"


def test_the_github_action_installs_nvccache(workspace: Workspace, wheel: Path, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    install, *rest = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    temporary = tmp_path / "runner-temp"  # with a blank in its path, the observer cannot be loaded
    temporary.mkdir()
    # What nvccache needs is linked from here, in place of a download.
    installations.make_environment(temporary / "nvccache/environment")
    files = {name: tmp_path / name for name in ("GITHUB_PATH", "GITHUB_ENV", "GITHUB_OUTPUT")}
    inputs = {"PACKAGE": str(wheel), "MAX_SIZE": "3G", "REMOTE": "file:///shared"}
    assert install["env"].keys() == inputs.keys()
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("NVCCACHE_", "PIP_"))},
        **{name: str(path) for name, path in files.items()},
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        **inputs,
        "RUNNER_TEMP": str(temporary),
        "GITHUB_WORKSPACE": str(workspace.directory),
    }
    _run(install["run"], environ)

    variables = dict(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
    (folder,) = files["GITHUB_PATH"].read_text().splitlines()
    cache = files["GITHUB_OUTPUT"].read_text().strip().removeprefix("cache=")
    assert variables == {
        "NVCCACHE_DIR": cache,
        "NVCCACHE_MAX_SIZE": "3G",
        "NVCCACHE_BASE_DIR": str(workspace.directory),
        "CMAKE_CUDA_COMPILER_LAUNCHER": f"{folder}/nvccache",
        "NVCCACHE_REMOTE": "file:///shared",
    }
    after = {**environ, "NVCCACHE_DIR": cache, "PATH": f"{folder}:{environ['PATH']}", "NVCCACHE_STRICT": "1"}
    workspace.write("a.cu", "__global__ void k() {}\n")
    (last,) = [step["run"] for step in rest if "run" in step]
    _run(last, after)
    for _ in range(2):
        _run(f"cd '{workspace.directory}'; nvccache '{workspace.nvcc}' -c a.cu -o a.o", after)
    printed = _run("nvccache events", after)
    assert "direct_hit" in printed


def test_the_github_action_saves_a_directory_and_shows_no_token_unless_told_otherwise() -> None:
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load(ACTION.read_text())
    assert action["inputs"]["remote"]["default"] == ""
    conditions = {
        step["uses"].partition("@")[0]: step["if"] for step in action["runs"]["steps"] if "uses" in step
    }
    assert conditions == {
        "actions/github-script": "startsWith(inputs.remote, 'ghac:')",
        "actions/cache": "inputs.remote == '' && inputs.save == 'true'",
        "actions/cache/restore": "inputs.remote == '' && inputs.save != 'true'",
    }


def _run(script: str, environ: dict[str, str]) -> str:
    """As the runner starts bash."""
    argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

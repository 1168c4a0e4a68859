"""docs/reference/json.md: what commands print with --json is described there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "reference" / "json.md").read_text()
LINES = [
    *("clean --all --dry-run", "config", "config jobs", "config jobs 2"),
    *("config --unset jobs", "explain a.o", "install shims", "doctor"),
    *("remote status", "remote push"),
    *("stats", "stats --by source"),
    *("--version", "--version --verbose"),
]
BY_NAME = ("settings", "calls", "bypass_reasons", "stages", "kinds")


def section_of(line: str) -> set[str]:
    """The words between backquotes in the section of a command."""
    title = line.split()[0]
    found = re.search(rf"^## nvccache {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, title
    return set(re.findall(r"`(\w+)`", found[1]))


def names_in(document: object, name: str = "") -> set[str]:
    """All names of fields, but for those that are words or names of settings, stages or the like."""
    if isinstance(document, list):
        return {found for element in document for found in names_in(element)}
    if not isinstance(document, dict):
        return set()
    if name in BY_NAME:
        return {found for value in document.values() for found in names_in(value)}
    return {*document, *(found for key, value in document.items() for found in names_in(value, key))}


@pytest.fixture(scope="module")
def documents(tmp_path_factory, nvcc):
    from workspaces import make_workspace

    workspace = make_workspace(tmp_path_factory.mktemp("json"), nvcc)
    workspace.write("a.cu", "__global__ void k() {}\n")
    assert workspace.cached("-arch=sm_80", "-c", "a.cu", "-o", "a.o").status == 0
    (workspace.directory / "remote").mkdir()
    found = {}
    for line in LINES:
        argv = [sys.executable, "-m", "nvccache", *line.split(), "--json"]
        remote = f"file://{workspace.directory}/remote,rw"
        environ = {**workspace.environ, "NVCCACHE_NVCC": nvcc, "NVCCACHE_REMOTE": remote}
        shown = subprocess.run(argv, cwd=workspace.directory, env=environ, capture_output=True, check=False)
        found[line] = json.loads(shown.stdout)
    return found


@pytest.mark.parametrize("line", LINES)
def test_every_field_is_described(documents, line):
    assert names_in(documents[line]) <= section_of(line)

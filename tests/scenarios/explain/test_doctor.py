"""`nvccache doctor` on a sound machine, and on what users come with."""

from __future__ import annotations

import json
import sys

import pytest

from nvccache.store import event_line, event_totals, store
from nvccache.toolkit.discovery import release_of
from workspaces import Result, Workspace

pytestmark = pytest.mark.light_by_default


def examine(workspace: Workspace, **variables: str) -> tuple[Result, dict[str, list[tuple[str, str]]]]:
    """What `nvccache doctor` says: topic -> state and text of each line."""
    command = [sys.executable, "-m", "nvccache", "doctor"]
    result = workspace.run(command, NVCCACHE_NVCC=workspace.nvcc, **variables)
    lines: dict[str, list[tuple[str, str]]] = {}
    for line in result.stdout.decode().splitlines():
        lines.setdefault(line[6:20].strip(), []).append((line[:5].strip(), line[21:]))
    return result, lines


def test_a_sound_machine(workspace: Workspace) -> None:
    result, lines = examine(workspace)
    assert result.status == 0, result.stdout + result.stderr
    assert lines["nvcc"][0] == ("ok", f"CUDA {release_of(workspace.nvcc)} at `{workspace.nvcc}`")
    assert {"launcher", "observer", "on PATH", "cache", "plain nvcc"} <= set(lines)
    assert lines["nvccache"][0][1].startswith("miss in ")
    assert lines["and again"][0][1].startswith("direct_hit in ")
    assert not any(state == "bad" for found in lines.values() for state, _ in found)
    assert not (workspace.cache / store.RECORD).exists()


def test_a_cache_directory_that_cannot_be_used_is_left_as_it_is(workspace: Workspace) -> None:
    workspace.nvcc = str(workspace.directory / "none")
    workspace.write("theirs/tmp/mine", "")
    for name, words in (("theirs", "is not an nvccache cache"), ("theirs/tmp/mine/below", "")):
        result, lines = examine(workspace, NVCCACHE_DIR=str(workspace.directory / name))
        assert (result.status, lines["cache"][0][0]) == (1, "bad") and words in lines["cache"][0][1]
    assert [path.name for path in (workspace.directory / "theirs").rglob("*")] == ["tmp", "mine"]


def test_settings_that_keep_it_from_working_are_named(workspace: Workspace) -> None:
    """Nor do the compiles that it makes show in the user's own counts."""
    event_line.append(str(workspace.cache), event_line.Event("miss"))
    result, lines = examine(
        workspace,
        NVCCACHE_DISABLE="1",
        NVCCACHE_MAX_SISE="1G",
        NVCCACHE_UMASK="002",
        NVCCACHE_JOBS="-1",
    )
    assert result.status == 1
    assert lines["settings"] == [
        ("bad", "`NVCCACHE_JOBS`: `-1` is not a number of jobs; the default is in force"),
        ("bad", "`NVCCACHE_MAX_SISE`: there is no such setting; did you mean `NVCCACHE_MAX_SIZE`?"),
        (
            "note",
            "`NVCCACHE_UMASK`: there is no such setting any more: new files get the permissions of a"
            " directory that others may write to, such as mode 2775",
        ),
        ("note", "`disable` is on (NVCCACHE_DISABLE)"),
    ]
    assert lines["and again"][0][1].startswith("direct_hit in ")
    counts = event_totals.read(str(workspace.cache))["calls"]
    assert {name: count for name, count in counts.items() if count} == {"miss": 1}


def test_as_json_it_is_one_object(workspace: Workspace) -> None:
    workspace.nvcc = str(workspace.directory / "none")
    command = [sys.executable, "-m", "nvccache", "doctor", "--json", "."]
    result = workspace.run(command, NVCCACHE_NVCC=workspace.nvcc)
    report = json.loads(result.stdout)
    assert (result.status, result.stderr) == (1, b"")
    assert report["is_bad"] is True
    bad = {finding["topic"]: finding["mend"] for finding in report["findings"] if finding["state"] == "bad"}
    assert bad == {"nvcc": ["unset NVCCACHE_NVCC"], "build": []}

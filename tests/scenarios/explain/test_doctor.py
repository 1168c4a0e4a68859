"""`nvccache doctor` on a sound machine, and without an nvcc."""

from __future__ import annotations

import json
import re
import sys

from nvccache.store import event_line, store
from nvccache.toolkit.discovery import release_of
from workspaces import Result, Workspace


def examine(workspace: Workspace, *options: str, **variables: str) -> Result:
    command = [sys.executable, "-m", "nvccache", "doctor", *options]
    return workspace.run(command, NVCCACHE_NVCC=workspace.nvcc, **variables)


def test_doctor_finds_nothing_wrong_on_a_working_machine(workspace: Workspace) -> None:
    """It is examined even while nvccache is switched off; its compiles are neither counted nor kept."""
    event_line.append(str(workspace.cache), event_line.Event("miss"))
    result = examine(workspace, NVCCACHE_DISABLE="1")
    lines: dict[str, list[tuple[str, str]]] = {}
    for line in result.stdout.decode().splitlines():
        lines.setdefault(line[6:20].strip(), []).append((line[:5].strip(), line[21:]))
    assert result.status == 0, result.stdout + result.stderr
    assert lines["nvcc"][0] == ("ok", f"CUDA {release_of(workspace.nvcc)} at `{workspace.nvcc}`")
    assert lines["settings"] == [("note", "the setting `disable` is on (NVCCACHE_DISABLE)")]
    assert {"launcher", "observer", "on PATH", "cache", "plain nvcc"} <= lines.keys()
    assert lines["nvccache"][0][1].startswith("miss in ")
    assert lines["and again"][0][1].startswith("direct_hit in ")
    assert not any(state == "bad" for found in lines.values() for state, _ in found)
    assert workspace.counters().outcome == "miss"
    assert not (workspace.cache / store.RECORD).exists()


def test_doctor_compares_no_object_that_nvcc_made_itself(workspace: Workspace) -> None:
    """The object of each run of nvcc is another one."""
    report = json.loads(examine(workspace, "--json", NVCC_APPEND_FLAGS="-v").stdout)
    compiles = {each["topic"]: (each["state"], each["text"]) for each in report["findings"][-2:]}
    assert list(compiles) == ["plain nvcc", "nvccache"]
    state, text = compiles["nvccache"]
    assert state == "note" and re.fullmatch(
        r"bypass in .*: the call asks nvcc to print its commands \(-v\)", text
    )


def test_doctor_prints_one_json_object(workspace: Workspace) -> None:
    workspace.nvcc = str(workspace.directory / "none")
    result = examine(workspace, "--json", ".")
    report = json.loads(result.stdout)
    assert (result.status, result.stderr) == (1, b"")
    assert report["is_bad"] is True
    bad = {finding["topic"]: finding["fix"] for finding in report["findings"] if finding["state"] == "bad"}
    assert bad == {"nvcc": ["unset NVCCACHE_NVCC"], "build": []}

"""The components of a stage's key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nvccache.plan import stage_key
from nvccache.plan.model import Stage
from nvccache.plan.stages.tool import Grammar
from nvccache.toolkit import toolchain

# Which part of a call's record covers each component. A direct hit compares no keys of stages, so it would be
# stale if a component were only in these.
IN_CALLS = {
    "stage": "the arguments of its key", "arguments": "the same", "names": "the same, or its scope",
    "inputs": "its inputs, sources", "files": "its inputs, option files", "dates": "its inputs, dates",
    "tool": "its inputs, programs", "library path": "its inputs, variables and names",
    "directory": "its scope", stage_key.MODULE_IDS: "its scope",
}  # fmt: skip


def test_each_component_of_a_key_has_its_place_in_records_of_calls(cache, monkeypatch):
    monkeypatch.setattr(toolchain, "own_directories", lambda program, environ: ["/lib"])
    grammar = Grammar("cicc", sees_directory=True, sees_names=True)
    stage = Stage(grammar, ("/bin/true",), (), (), (), (), (), ())
    found = stage_key.of_stage(stage, ["digest"], {}, "/", cache, ["/bin/true"], ["id"])
    assert {tag for tag, _ in found} == set(IN_CALLS)


@pytest.mark.parametrize(
    ("kind", "is_script", "has_path"),
    [("cicc", False, False), ("ptxas", False, False), ("cicc", True, True), ("host_compile", False, True)],
)
def test_only_programs_of_nvidia_are_identified_by_content_alone(tmp_path, cache, kind, is_script, has_path):
    real = Path(shutil.copy("/bin/true", tmp_path / "real"))
    if is_script:
        real.write_text("#!/bin/sh\n")
    (tmp_path / "tool").symlink_to("real")
    tool = str(tmp_path / "tool")
    stage = Stage(Grammar(kind), (tool,), (), (), (), (), (), ())
    found = dict(stage_key.of_stage(stage, [], {}, "/", cache))["tool"]
    assert found[1:] == ((tool, str(real)) if has_path else ())
    assert len(found[0]) == 64

"""What identifies a stage's tool in its key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nvccache.plan import stage_key
from nvccache.plan.model import Stage
from nvccache.plan.stages.tool import Grammar


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

"""What `nvccache explain` says of a compile with the real nvcc: the cause, and the stages that ran."""

from __future__ import annotations

import json
import re

import pytest

from scenarios.support.toolkits import architectures
from workspaces import Workspace

KERNEL = "__global__ void k(int *p) { *p = NUMBER; }\n"
LINE = ("-c", "a.cu", "-arch=sm_80", "-o", "a.o")
TWO = ("-c", "a.cu", "-o", "a.o", *architectures(80, 90))


def explained(workspace: Workspace) -> tuple[list[str], set[str]]:
    """The causes of the last compile of `a.o`, and the stages that ran; text and JSON agree."""
    document = json.loads(workspace.explain("a.o", "--json"))
    ran = [stage["stage"] for stage in document["stages"] if stage["result"] in ("ran", "failed")]
    text = workspace.explain("a.o")
    assert re.findall(r"^  (\w.*?) +\d+\.\d\d s", text, re.MULTILINE) == ran
    assert f"because {document['cause']}\n" in text
    return [document["cause"], *document["details"]], set(ran)


@pytest.fixture
def compiled(workspace: Workspace) -> Workspace:
    """A unit of two files that has been compiled once."""
    workspace.write("a.h", "#pragma once\n#define NUMBER 1\n")
    workspace.write("a.cu", f'#include "a.h"\n{KERNEL}int host() {{ return 1; }}\n')
    assert workspace.cached(*LINE).status == 0
    return workspace


@pytest.mark.smoke("explain")
def test_an_added_tool_option_is_the_cause_and_only_stages_that_get_it_ran(compiled):
    assert compiled.cached(*LINE, "-Xptxas", "-O1").status == 0
    causes, ran = explained(compiled)
    assert causes == ["`-Xptxas -O1` was added to the command line"]
    assert "ptxas sm_80" in ran and not ran & {"cudafe++", "cicc compute_80"}


def test_a_changed_header_is_the_cause_also_after_a_compile_that_failed(compiled):
    for content, status in (("no", 1), ("3", 0)):
        compiled.write("a.h", f"#pragma once\n#define NUMBER {content}\n")
        assert bool(compiled.cached(*LINE).status) == bool(status)
        causes, ran = explained(compiled)
        assert causes == (["nvcc reports an error"] if status else []) + ["`a.h` changed"]
        assert "preprocess host" in ran
    assert ran >= {"cudafe++", "cicc compute_80", "ptxas sm_80", "fatbinary", "host compile"}


def test_an_added_architecture_is_the_cause_and_the_stages_of_the_others_did_not_run(compiled):
    assert compiled.cached(*TWO).status == 0
    causes, ran = explained(compiled)
    assert causes == ["`sm_90` was added"]
    assert ran >= {"cicc compute_90", "ptxas sm_90"} and not ran & {"cicc compute_80", "ptxas sm_80"}

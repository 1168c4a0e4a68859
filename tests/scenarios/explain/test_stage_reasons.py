"""Why each stage ran, by `nvccache explain` with the real nvcc: the component that differed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from scenarios.support.toolkits import architectures
from workspaces import Workspace, make_workspace

pytestmark = pytest.mark.light

KERNEL = "__global__ void k(int *p) { *p = NUMBER; }\n"
LINE = ("-c", "a.cu", "-arch=sm_80", "-o", "a.o")
TWO = ("-c", "a.cu", "-o", "a.o", *architectures(80, 90))
FIRST = "first compile of this stage"
OF_CICC = "cicc's output changed"


def why(workspace: Workspace) -> dict[str, str]:
    """The stages that ran in the last compile of `a.o`, each with why; the tree of stages says the same."""
    document = json.loads(workspace.explain("a.o", "--json"))
    found = {reason["stage"]: reason["why"] for reason in document["stage_reasons"]}
    ran = [stage["why"] for stage in document["stages"] if stage["result"] in ("ran", "failed")]
    assert ran == list(found.values())
    shown = re.findall(r"^  (\w.*?) +\d+\.\d\d s", workspace.explain("a.o"), re.MULTILINE)
    assert shown == list(found)
    return found


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Workspace:
    workspace = make_workspace(tmp_path_factory.mktemp("compiled"), nvcc)
    workspace.write("a.h", "#pragma once\n#define NUMBER 1\n")
    workspace.write("a.cu", f'#include "a.h"\n{KERNEL}int host() {{ return 1; }}\n')
    assert workspace.cached(*LINE).status == 0
    return workspace


@pytest.fixture
def compiled(compiled_once: Workspace, tmp_path: Path) -> Workspace:
    """A unit of two files that has been compiled once; each test has the cache as it was then."""
    cache = shutil.copytree(compiled_once.cache, tmp_path / "cache")
    compiled_once.write("a.h", "#pragma once\n#define NUMBER 1\n")
    environ = {**compiled_once.environ, "NVCCACHE_DIR": str(cache)}
    return Workspace(compiled_once.directory, compiled_once.nvcc, environ)


def test_an_added_tool_option_explains_only_the_stages_that_get_the_option(compiled):
    assert compiled.cached(*LINE, "-Xptxas", "-O1").status == 0
    found = why(compiled)
    assert found["ptxas sm_80"] == "`-O1` was added to its command line"
    assert not found.keys() & {"cudafe++", "preprocess compute_80"}


def test_a_changed_header_explains_all_stages_that_ran(compiled):
    # In `compiled` a.cu has been compiled once. One thing changes, and it is compiled again.
    compiled.write("a.h", "#pragma once\n#define NUMBER 2\n")
    assert compiled.cached(*LINE).status == 0
    # Stage -> the sentence of `explain` for it; `why` checks that JSON, the tree and the text agree.
    found = why(compiled)
    # Every stage that ran is here. Those that read the header name it; others name the tool before them.
    assert found.pop("fatbinary").startswith("ptxas sm_80's output changed")
    assert found == {
        "preprocess host": "`a.h` changed",
        "preprocess compute_80": "`a.h` changed",
        "cudafe++": "`a.h` changed",
        "cicc compute_80": "`a.h` changed",
        "ptxas sm_80": OF_CICC,
        "host compile": "cudafe++'s output changed; fatbinary's output changed",
    }


def test_explain_calls_the_stages_of_an_added_architecture_a_first_compile(compiled):
    assert set(why(compiled).values()) == {FIRST}
    assert compiled.cached(*TWO).status == 0
    found = why(compiled)
    assert {name for name, clause in found.items() if clause == FIRST} == {
        "preprocess compute_90",
        "cicc compute_90",
        "ptxas sm_90",
    }
    assert found["preprocess compute_80"] == "`sm_90` was added"
    assert not found.keys() & {"cicc compute_80", "ptxas sm_80"}
    assert "it now reads ptxas sm_90's output" in found["fatbinary"]


def test_explain_still_names_the_changed_option_after_a_failed_compile(compiled):
    compiled.write("a.h", "#pragma once\n#define NUMBER no\n")
    assert compiled.cached(*LINE).status != 0
    assert why(compiled)["preprocess host"] == "`a.h` changed"
    compiled.write("a.h", "#pragma once\n#define NUMBER 3\n")
    assert compiled.cached(*LINE, "-Xptxas", "-O1").status == 0
    assert why(compiled)["ptxas sm_80"] == f"`-O1` was added to its command line; {OF_CICC}"

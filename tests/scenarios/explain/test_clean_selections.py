"""`nvccache clean --matching`: what is removed runs again, and nothing else does."""

from __future__ import annotations

import json
import os
import sys

import pytest

from installations import launcher_of_tree
from nvccache.store import eviction

pytestmark = pytest.mark.light_by_default

LINE = ["-arch=sm_80", "-c"]
MISS_OF_ONE = {"cudafe": 1, "cicc": 1, "ptxas": 1, "fatbinary": 1, "host_compile": 1}


@pytest.fixture
def compiled(workspace):
    """A workspace in which `one.cu` and `two.cu` were compiled, and answered at once."""
    for name in ("one", "two"):
        workspace.write(f"{name}.cu", f"__global__ void {name}(int *x) {{ *x = {len(name)}; }}\n// {name}\n")
        os.utime(workspace.directory / f"{name}.cu", (1, 1))
        assert compile_again(workspace, name).outcome in ("miss", "partial_hit")
        assert compile_again(workspace, name).outcome == "direct_hit"
    return workspace


def compile_again(workspace, name):
    argv = [str(launcher_of_tree()), workspace.nvcc, *LINE, f"{name}.cu", "-o", f"{name}.o"]
    result, counted = workspace.since(lambda: workspace.run(argv))
    assert result.status == 0, result.stderr
    return counted


def clean(workspace, *options):
    """What `clean` removes: the same in a dry run and for real."""
    reports = []
    for more in (["--dry-run"], []):
        before = eviction.usage(str(workspace.cache)).files
        argv = [sys.executable, "-m", "nvccache", "clean", "--json", *options, *more]
        done = workspace.run(argv)
        assert (done.status, done.stderr) == (0, b"")
        reports.append(json.loads(done.stdout))
        left = before - eviction.usage(str(workspace.cache)).files
        assert left == (0 if more else reports[0]["files"])
    assert reports[0] | {"dry_run": False} == reports[1]
    return reports[1]


@pytest.mark.by_default("on*.o")
@pytest.mark.parametrize("glob", ["on*.o", "{0}/one.cu", "{0.parent}/*/one.o"])
def test_an_object_that_matches_is_compiled_by_every_tool(compiled, glob):
    assert clean(compiled, "--matching", "one")["files"] == 0
    removed = clean(compiled, "--matching", glob.format(compiled.directory))
    assert removed["files"] > 10 and removed["bytes"] > 1000
    assert compile_again(compiled, "two").outcome == "direct_hit"
    assert compile_again(compiled, "one").compiled() == MISS_OF_ONE

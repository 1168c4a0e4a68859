"""`nvccache clean --matching`: what is removed runs again, and nothing else does."""

from __future__ import annotations

import json
import sys

import pytest

from installations import launcher_of_tree
from nvccache.store import eviction

pytestmark = pytest.mark.light_by_default

LINE = ["-arch=sm_80", "-c"]
MISS_OF_ONE = {"cudafe": 1, "cicc": 1, "ptxas": 1, "fatbinary": 1, "host_compile": 1}


@pytest.fixture
def compiled(compiled):
    """The same, after each unit was answered at once."""
    for name in ("one", "two"):
        assert compile_again(compiled, name).outcome == "direct_hit"
    return compiled


def compile_again(workspace, name, nvcc=None):
    argv = [str(launcher_of_tree()), nvcc or workspace.nvcc, *LINE, f"{name}.cu", "-o", f"{name}.o"]
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
@pytest.mark.parametrize("glob", ["one.cu", "on*.o", "{0}/one.cu", "{0.parent}/*/one.o"])
def test_an_object_that_matches_is_compiled_by_every_tool(compiled, glob, monkeypatch):
    removed = clean(compiled, "--matching", glob.format(compiled.directory))
    assert removed["files"] > 10 and removed["bytes"] > 1000
    assert compile_again(compiled, "two").outcome == "direct_hit"
    again = compile_again(compiled, "one")
    assert again.compiled() == MISS_OF_ONE
    assert compile_again(compiled, "one").outcome == "direct_hit"


def test_what_does_not_match_stays(compiled):
    for glob in ("three.cu", "one", "/one.cu", "cu"):
        assert clean(compiled, "--matching", glob)["files"] == 0

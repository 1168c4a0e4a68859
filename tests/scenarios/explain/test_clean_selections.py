"""`nvccache clean --matching`: what is removed runs again, and nothing else does."""

from __future__ import annotations

import json
import os

from installations import launcher_of_tree
from nvccache.store import eviction
from scenarios.support.both_ways import by_cache
from workspaces import Workspace

MISS_OF_ONE = {"cudafe": 1, "cicc": 1, "ptxas": 1, "fatbinary": 1, "host_compile": 1}


def clean(workspace: Workspace, *options: str) -> dict[str, object]:
    done = workspace.run([launcher_of_tree(), "clean", "--json", *options])
    assert (done.status, done.stderr) == (0, b"")
    return json.loads(done.stdout)


def test_cleaning_one_object_makes_every_tool_run_again_for_that_object_only(workspace: Workspace) -> None:
    for name in ("one", "two"):
        workspace.write(f"{name}.cu", f"__global__ void {name}(int *x) {{ *x = 3; }}\n// {name}\n")
        os.utime(workspace.directory / f"{name}.cu", (1, 1))

    def compile_again(name: str) -> object:
        made = by_cache(workspace, "-arch=sm_80", "-c", f"{name}.cu", "-o", f"{name}.o")
        return made.outcome if made.outcome == "direct_hit" else made.compiled()

    assert compile_again("two") and compile_again("one") and compile_again("one") == "direct_hit"
    files = eviction.usage(str(workspace.cache)).files
    assert clean(workspace, "--matching", "one")["files"] == 0
    place = workspace.directory
    matching = [
        clean(workspace, "--dry-run", "--matching", glob)
        for glob in ("on*.o", f"{place}/one.cu", f"{place.parent}/*/one.o")
    ]
    assert eviction.usage(str(workspace.cache)).files == files
    removed = clean(workspace, "--matching", "on*.o")
    assert matching == [{**removed, "dry_run": True}] * 3
    assert files - eviction.usage(str(workspace.cache)).files == removed["files"] > 10
    assert compile_again("two") == "direct_hit"
    assert compile_again("one") == MISS_OF_ONE

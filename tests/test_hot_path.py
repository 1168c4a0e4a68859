"""The modules that a hit loads: none for a replay, those listed here for a direct hit.

Start-up dominates the cost of a hit, so each further module is a decision.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from nvccache.store import store
from workspaces import Workspace

# Any program pays for what `os` brings; that differs between releases of Python, and has errno in some.
FOR_ANY_PROGRAM = "import errno, os"
# Written in C and part of the interpreter: they cost nothing that could be measured.
BUILT_IN = {"_operator", "gc", "itertools", "_struct", "struct", "__future__"}
LIBRARIES = {"blake3", "blake3.blake3", "xxhash", "xxhash._xxhash", "xxhash.version"}
# Options are looked at, digests compared, and a record is written for the launcher.
OURS = """
    call_end commandline commandline.host_options commandline.invocation commandline.options
    commandline.tokens config entry_point environment files files.comments files.keys files.presence
    files.signatures files.untrusted nvcc_lookup outcomes records records.call_key records.direct_hit
    records.facts records.input_records records.output_names records.products records.record records.replay
    records.replay_layout store store.directory store.event_line store.sections store.store
"""
DIRECT = {*BUILT_IN, *LIBRARIES, "nvccache", *(f"nvccache.{name}" for name in OURS.split())}
# What a miss does without: each takes as long to load as many of our own modules.
TOO_SLOW = set("dataclasses hashlib inspect json locale selectors shutil subprocess tempfile typing".split())
LINE = ["-c", "a.cu", "-o", "a.o", "-MD"]
# Whether the setting can be understood; nothing that asks.
OF_REMOTES = ["nvccache.remote_url", "nvccache.values"]


# A Python that reports what it loads; the launcher looks whether it runs at all.
_REPORTING = '#!/bin/sh\nexec "{python}" -X importtime "$@"\n'


@pytest.fixture
def compiled(workspace: Workspace) -> list[str]:
    """The words before nvcc's arguments, once `nvcc -c a.cu -o a.o` has been compiled by them."""
    folder = workspace.directory.parent / "launcher"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("")
    for path in launcher_of_tree().parent.iterdir():
        shutil.copy(path, folder / "bin")
    (folder / "bin/python3").write_text(_REPORTING.format(python=sys.executable))
    (folder / "bin/python3").chmod(0o755)
    workspace.environ["PWD"] = str(workspace.directory)  # or that shell would set it
    words = [str(folder / "bin/nvccache"), workspace.nvcc]
    workspace.write("x.h", "#pragma once\n")
    workspace.write("a.cu", '#include "x.h"\n__global__ void k() {}\n')
    for name in ("x.h", "a.cu"):
        os.utime(workspace.directory / name, (1, 1))
    time.sleep(0.3)
    assert workspace.run([*words, *LINE]).status == 0
    return words


def imported(stderr: bytes) -> set[str]:
    """The modules in what `-X importtime` wrote: the last column, indented by depth."""
    lines = [line for line in stderr.decode().splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def modules_of_call(workspace: Workspace, words: list[str], outcome: str) -> set[str]:
    """What a call of this outcome loads."""
    (workspace.directory / "a.o").unlink()
    done, counted = workspace.since(lambda: workspace.run([*words, *LINE]))
    assert (done.status, counted.outcome) == (0, outcome), done.stderr.decode()
    assert (workspace.directory / "a.o").exists()
    bare = [sys.executable, "-X", "importtime", "-IS", "-c", FOR_ANY_PROGRAM]
    return imported(done.stderr) - imported(workspace.run(bare).stderr)


def check_out_again(directory: Path) -> None:
    """Other files and directories of the same content, as of a fresh clone."""
    shutil.copytree(directory, directory.with_name("copy"))
    shutil.rmtree(directory)
    directory.with_name("copy").rename(directory)


CHANGES = {
    "nothing": lambda directory: None,
    "touched": lambda directory: [(directory / name).touch() for name in ("a.cu", "x.h")],
    "checked out again": check_out_again,
    "commented": lambda directory: (directory / "x.h").write_text("#pragma once  // one\n"),
}


@pytest.mark.by_default("touched", "checked out again", "commented", smoke={"nothing": "replay"})
@pytest.mark.parametrize("change", CHANGES)
def test_a_replay_imports_no_python_modules(workspace, compiled, change):
    """Also of other files with the same content, and of sources with other comments."""
    CHANGES[change](workspace.directory)
    assert not modules_of_call(workspace, compiled, "direct_hit")


@pytest.mark.by_default("alone")
@pytest.mark.parametrize("remote", ["", "file:///nowhere,rw"], ids=["alone", "with a remote"])
def test_a_direct_hit_imports_only_the_listed_modules(workspace, compiled, remote):
    workspace.environ |= {"NVCCACHE_REMOTE": remote} if remote else {}
    for _ in range(8):
        shutil.rmtree(workspace.cache / store.REPLAY, ignore_errors=True)
        found = modules_of_call(workspace, compiled, "direct_hit")
        if "nvccache.store.eviction" not in found:  # one hit in 16 counts what is in the cache as well
            break
    assert found == {*DIRECT, *(OF_REMOTES if remote else ())}
    assert not modules_of_call(workspace, compiled, "direct_hit"), "it is recorded for the launcher"
    shutil.rmtree(workspace.cache / store.REPLAY)
    os.utime(workspace.directory / "a.cu", (2, 2))  # as in another checkout
    found = modules_of_call(workspace, compiled, "direct_hit")
    assert "nvccache.files.comments" in found and "re" not in found


def test_a_miss_and_a_stage_hit_load_nothing_that_is_slow_to_load(workspace, compiled):
    workspace.write("x.h", "#pragma once\nint added;\n")
    found = modules_of_call(workspace, compiled, "partial_hit")
    assert "nvccache.observation.stage_inputs" in found
    assert not found & TOO_SLOW
    assert not modules_of_call(workspace, [*compiled, "-DUNUSED"], "stage_hit") & TOO_SLOW

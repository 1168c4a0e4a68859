"""The same relative command line in two directories: each gets the files of its own.

gcc opens headers of `-isystem`, of CPLUS_INCLUDE_PATH and of its own directories by their real path where
that is shorter than the path as typed (-fcanonical-system-headers). So a relative name can lead to an
absolute path, and how a header is named in dependencies and messages depends on the length of a path.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scenarios.never_stale.gcc_trees import gcc_tree, own_headers
from scenarios.support.both_ways import Made, both_ways
from scenarios.support.cases import OLD_ENOUGH
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
UNIT = "#include <h.h>\nextern const int value;\nconst int value = VALUE;\n"
ONE, TWO = "#define VALUE 111\n", "#define VALUE 222\n"


def deep(root: Path) -> tuple[Path, str]:
    """A directory in `root`, and the way up from it: longer than the path of `root`."""
    levels = len(str(root)) // 3 + 10
    folder = root.joinpath(*["d"] * levels)
    folder.mkdir(parents=True)
    return folder, "/".join([".."] * levels)


def compile_in(workspace: Workspace, folder: Path, *argv: str, **variables: str) -> Made:
    time.sleep(OLD_ENOUGH)
    line = ("-c", "a.cu", "-MD", "-MF", "a.d", "-o", "a.o", *argv)
    return both_ways(workspace, *line, cwd=folder, PWD=str(folder), **variables)


SEARCHED = {
    "another checkout": ["-isystem", "{up}/sys"],
    "a directory beside the checkout": ["-isystem", "{up}/../{root}-sdk"],
    "a variable": [],
}


@pytest.mark.by_default("another checkout")
@pytest.mark.parametrize("searched", SEARCHED)
def test_system_headers_of_another_directory(workspace: Workspace, searched: str) -> None:
    folders = {}
    for name in ("one", "two"):
        root = workspace.directory / name
        folder, up = deep(root)
        line = [word.format(up=up, root=name) for word in SEARCHED[searched]]
        variables = {} if line else {"CPLUS_INCLUDE_PATH": f"{up}/sys"}
        header = f"{name}-sdk/h.h" if "sdk" in "".join(line) else f"{name}/sys/h.h"
        workspace.write(header, ONE)
        (folder / "a.cu").write_text(UNIT)
        folders[name] = folder, line, variables, header
    for folder, line, variables, header in folders.values():
        made = compile_in(workspace, folder, *line, **variables)
        assert made.outcome != "direct_hit"
        depfile = f"{folder.relative_to(workspace.directory)}/a.d"
        assert f"{workspace.directory}/{header}".encode() in made[depfile]
    workspace.write(header, TWO)
    compile_in(workspace, folder, *line, **variables)
    folder, line, variables, _ = folders["one"]
    assert compile_in(workspace, folder, *line, **variables).outcome == "direct_hit"


def test_a_compiler_in_each_checkout(workspace: Workspace) -> None:
    """Even one directory below the checkout, gcc opens its own headers by an absolute path."""
    headers = {}
    for name in ("one", "two"):
        driver = gcc_tree(workspace.directory / name / "tc")
        headers[name] = own_headers(driver) / "h.h"
        headers[name].write_text(ONE)
        (workspace.directory / name / "src").mkdir()
        workspace.write(f"{name}/src/a.cu", UNIT)
    ccbin = os.path.relpath(driver, workspace.directory / "two/src")
    line = [word for word in HOST_OPTIONS if "ccbin" not in word]
    for name in ("one", "two", "two"):
        made = compile_in(workspace, workspace.directory / name / "src", *line, "-ccbin", ccbin)
    assert made.outcome == "direct_hit"
    headers["two"].write_text(TWO)
    for name in ("two", "one"):
        made = compile_in(workspace, workspace.directory / name / "src", *line, "-ccbin", ccbin)
    assert made.outcome == "direct_hit"


def test_a_directory_added_to_the_search_path_hits_wherever_it_is(workspace: Workspace) -> None:
    """What is found along PATH counts, not PATH: also where the added directory is beside the source."""
    workspace.write("src/a.cu", "int f() { return 1; }\n")
    (workspace.directory / "build").mkdir()
    workspace.write("tools/unrelated", "")
    time.sleep(OLD_ENOUGH)
    outcomes = []
    for path in (os.environ["PATH"], f"{workspace.directory}/tools:{os.environ['PATH']}"):
        argv = ("-c", workspace.directory / "src/a.cu", "-o", "a.o")
        outcomes.append(both_ways(workspace, *argv, cwd=workspace.directory / "build", PATH=path).outcome)
    assert outcomes == ["miss", "direct_hit"]

"""A call's record has all files that plain nvcc opens, and all absent names that it looks up."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import kept_records
from nvccache.records import facts, input_records
from nvccache.records.base_dir import Relocation
from scenarios.support.toolkits import HOST_OPTIONS, cccl_of, toolkit_of
from workspaces import Workspace

STRACE = shutil.which("strace")
CALL = re.compile(r'\b(open|openat|execve|stat|newfstatat|access)\((?:AT_FDCWD[^,]*, )?"([^"]+)".* = (-?\d+)')
# Files independent of the source: shared libraries, locales, the shell, temporary files.
UNWATCHED = re.compile(
    r"/tmpxft|/nvcctest|\.so|/locale|gconv|/ld\.so|^/(?:dev|proc|etc)/|zoneinfo|/(?:da|ba)?sh$"
)
LIBRARY_PATHS = re.compile(r"/lib(?:/|$)|/lib/x86_64-linux-gnu/|/\.$")
SOURCES = {
    "plain": '#include "h.h"\n#include <cstdio>\n'
    "__global__ void k(int *p) { *p = NUMBER; }\nint f() { return NUMBER; }\n",
    "thrust": '#include "h.h"\n#include <thrust/sort.h>\n#include <thrust/device_vector.h>\n'
    "int f() { thrust::device_vector<int> v(NUMBER); thrust::sort(v.begin(), v.end()); return v[0]; }\n",
}


def recorded(workspace: Workspace, source: str) -> input_records.InputRecord:
    """The input record of the one recorded call; its dry run has another."""
    bodies = filter(kept_records.is_of_call, kept_records.bodies_of(workspace.cache).values())
    (made,) = kept_records.read_by(next(bodies), Relocation("", str(workspace.directory)))
    return made


def trace(workspace: Workspace, *arguments: str) -> tuple[set[str], set[str]]:
    """The files that plain nvcc opened, and the paths at which it found nothing."""
    log = workspace.directory / "trace"
    result = workspace.run([STRACE or "", "-f", "-e", "trace=%file", "-o", log, workspace.nvcc, *arguments])
    assert result.status == 0, result.stderr
    opened, missing = set(), set()
    for line in log.read_text(errors="replace").splitlines():
        found = CALL.search(line)
        if not found or UNWATCHED.search(found[2]):
            continue
        path = os.path.join(workspace.directory, found[2])
        if int(found[3]) < 0 and "ENOENT" in line:
            missing.add(path)
        elif found[1] in ("open", "openat", "execve") and os.path.isfile(path):
            opened.add(os.path.realpath(path))
    return opened, missing


def is_watched(path: str, names: dict[str, set[str]]) -> bool:
    """Whether the first part of a path that does not exist is among the names that must stay absent."""
    at = "/"
    for part in [part for part in path.split("/") if part]:
        below = os.path.join(at, part)
        if not os.path.lexists(below):
            return "-" + part in names.get(os.path.realpath(at), set())
        at = below
    return True


@pytest.mark.by_default("plain")
@pytest.mark.skipif(not STRACE, reason="strace is not installed")
@pytest.mark.parametrize("name", SOURCES)
def test_a_record_holds_everything_that_nvcc_looked_at(workspace: Workspace, name: str) -> None:
    if name == "thrust":
        cccl_of(workspace)
    workspace.nvcc = str(toolkit_of(workspace) / "bin/nvcc")  # a script would have its own record
    workspace.write("a.cu", SOURCES[name])
    workspace.write("inc/h.h", "#define NUMBER 3\n")
    argv = ["-c", "a.cu", "-I", "empty", "-I", "inc", "-arch=sm_80", *HOST_OPTIONS]
    (workspace.directory / "empty").mkdir()
    assert workspace.cached(*argv, "-o", "a.o").status == 0
    known = recorded(workspace, "a.cu")
    opened, missing = trace(workspace, *argv, "-o", "plain.o")
    files = {os.path.realpath(workspace.directory / path) for path in known.files}
    temporary = os.path.realpath(os.environ.get("TMPDIR") or "/tmp")
    unread = {path for path in opened - files if not path.startswith(str(workspace.directory / "plain.o"))}
    assert not unread
    names: dict[str, set[str]] = {}
    for directory, listed in zip(known.directories, known.names, strict=True):
        names.setdefault(os.path.realpath(workspace.directory / directory), set()).update(listed)
    # The host compile looks next to cudafe++'s C++ file, which plain nvcc has in the temporary directory.
    unwatched = {path for path in missing if not is_watched(path, names) and not LIBRARY_PATHS.search(path)}
    assert {path for path in unwatched if not is_beside(path, temporary)} == set()


def is_beside(path: str, temporary: str) -> bool:
    return Path(path).parent in (Path(temporary), Path(temporary) / "crt")


@pytest.mark.by_default("-march=native", "-O2")
@pytest.mark.parametrize("option", ["-march=native", "-mtune=native", "-O2"])
def test_native_is_the_processor_this_runs_on(workspace: Workspace, option: str) -> None:
    workspace.write("a.cu", "int f() { return 1; }\n")
    assert workspace.cached("-c", "a.cu", "-Xcompiler", option, "-o", "a.o", *HOST_OPTIONS).status == 0
    asked = [topic for topic, _, _ in recorded(workspace, "a.cu").machine]
    assert (facts.NATIVE in asked) == ("native" in option)


def test_each_stage_has_a_input_record_of_its_own_run(workspace: Workspace) -> None:
    """Including ptxas's checks of PTX, which write nothing; an empty input record would always hold."""
    workspace.write("a.cu", "__global__ void k(int *p) { *p = 1; }\n")
    virtual = [f"-gencode=arch=compute_{number},code=compute_{number}" for number in (80, 90)]
    assert workspace.cached("-c", "a.cu", *virtual, "-o", "a.o", *HOST_OPTIONS).status == 0
    found = list(kept_records.bodies_of(workspace.cache).values())
    assert sum(map(kept_records.is_of_stage, found)) > 4
    for body in found:
        for made in kept_records.read_by(body, Relocation("", str(workspace.directory))):
            assert "LANG" in [name for name, _ in made.variables], made.files

"""Scripts as host compilers: what is found behind each kind, and never more.

The wrappers resemble those of build systems: one exec; Nix's (bash, reads files, loops over its
arguments), MPICH's (starts the compiler, and ends as it did), and Python.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from scenarios.support.both_ways import both_ways, by_cache, by_plain
from scenarios.support.cases import KERNEL
from scenarios.support.observed_wrappers import script
from workspaces import Counters, Workspace

SOURCE = "#ifndef VALUE\n#define VALUE 0\n#endif\n" + KERNEL
PASSES = {"host_preprocess": 1, "device_preprocess": 1}
NIX = """
set -eu -o pipefail +o posix
shopt -s nullglob
if (( "${NIX_DEBUG:-0}" >= 7 )); then set -x; fi
source "{work}/support/utils"
mangle NIX_CFLAGS_COMPILE "" _FOR_BUILD
flags="$(< "{work}/support/cflags") ${NIX_CFLAGS_COMPILE_salt}"
link=1 n=0 params=("$@")
while (( n < ${#params[@]} )); do
  case "${params[n]}" in -[cSEM]) link=0 ;; -x) [[ ${params[n+1]:-} == c++* ]] && cxx=1 ;; esac
  n=$((n + 1))
done
before=(-fstack-protector-strong --param ssp-buffer-size=4 -fno-strict-overflow -frandom-seed=abcdef)
after=($flags)
if [[ $link = 1 ]]; then after+=(-Wl,-rpath,/lib); export LINKS=dynamic; fi
if [[ -e "{work}/support/hook" ]]; then source "{work}/support/hook"; fi
exec "{g++}" ${before+"${before[@]}"} ${params+"${params[@]}"} ${after+"${after[@]}"}
"""
UTILS = """
mangle() {
  local name="$1"; shift
  declare -gx ${name}_salt=''
  for role in "$@"; do
    local input="$name$role"
    if [ -v "$input" ]; then
      declare -g ${name}_salt+=" ${!input}"
    fi
  done
}
"""
MPI = """
for arg in "$@"; do
  case $arg in -show) show=1 ;; -c) link=no ;; esac
  all="$all $arg"
done
if [ "$link" != no ]; then libs=-lm; fi
if [ "$show" = 1 ]; then echo "{g++}" $all; else "{g++}" "$@" $libs "-I{work}/mpi"; rc=$?; fi
exit $rc
"""
SUBPROCESS = (
    'import subprocess, sys\nsys.exit(subprocess.run(["{g++}", "-DPYTHON", *sys.argv[1:]]).returncode)\n'
)
KINDS = {
    "one exec": ('exec "{g++}" -B/usr/bin -isystem "{work}/more" "$@"', "#!/bin/sh"),
    "as Nix has it": (NIX, "#!/bin/bash"),
    "as MPICH has it, in bash": (MPI, "#!/bin/bash"),
    "Python that waits": (SUBPROCESS, "#!{python}"),
}
PLAIN = "one exec"  # it does nothing but start the compiler, so objects are shared between directories


def put(
    workspace: Workspace, text: str, first: str = "#!/bin/sh", name: str = "bin/wrapper"
) -> tuple[str, ...]:
    """Create a wrapper and the inputs of those above; the options that name it."""
    workspace.write("support/utils", UTILS)
    workspace.write("support/cflags", f"-B/usr/bin -idirafter {workspace.directory}/more")
    script(text, name, first)(workspace)
    return ("-ccbin", f"{workspace.directory}/{name}", "-arch=sm_75", "-O2")


def compiled(workspace: Workspace, *argv: str, cwd: Path | None = None, **variables: str) -> Counters:
    """The counters of a compile whose results are plain nvcc's."""
    cwd = cwd or workspace.directory
    cwd.mkdir(exist_ok=True)
    return both_ways(workspace, *argv, cwd=cwd, PWD=str(cwd), **variables).counters


@pytest.mark.by_default("one exec", "as MPICH has it, in bash")
@pytest.mark.parametrize("kind", KINDS)
def test_only_plain_wrapper_scripts_share_host_compiles_between_directories(
    workspace: Workspace, kind: str
) -> None:
    options = put(workspace, *KINDS[kind])
    source = workspace.write("a.cu", "// one\n" + SOURCE)
    line = (*options, "-c", str(source), "-o", "a.o")
    compiled(workspace, *line, cwd=workspace.directory / "one")
    assert compiled(workspace, *line, cwd=workspace.directory / "one").outcome == "direct_hit"
    ran = compiled(workspace, *line, cwd=workspace.directory / "two").ran()
    further = {} if kind == PLAIN else {"host_compile": 1}
    assert ran in ([{}, PASSES] if kind == PLAIN else [PASSES | further]), "another directory"
    ran = compiled(workspace, *line[:-1], "b.o", cwd=workspace.directory / "two").ran()
    assert ran == further, "another name"
    workspace.write("a.cu", "// one\n// two\n" + SOURCE)
    ran = compiled(workspace, *line, cwd=workspace.directory / "one").ran()
    assert ran == PASSES, "a line of comment"


def test_objects_of_a_wrapper_that_adds_debug_info_are_not_shared(
    workspace: Workspace, reference_directory: Path
) -> None:
    """The object names lines and the directory, as nvcc's does, so it is not shared.

    Only the run of the compile shows it. What was found for other lines is then made again, and the object
    names a temporary directory, which is as random under nvcc.
    """
    options = put(workspace, 'case " $* " in *" -c "*) set -- -g "$@" ;; esac\nexec "{g++}" "$@"')
    for directory, text in (("one", SOURCE), ("two", SOURCE), ("two", "// a line\n" + SOURCE)):
        source = workspace.write("a.cu", text)
        here = workspace.directory / directory
        here.mkdir(exist_ok=True)
        argv = (*options, "-c", str(source), "-o", "a.o")
        made = by_cache(workspace, *argv, cwd=here, PWD=str(here))
        plain = by_plain(workspace, *argv, cwd=here, keep=reference_directory, PWD=str(here))
        assert made.status == plain.status == 0
        ours, theirs = (each[f"{directory}/a.o"] for each in (made, plain))
        assert without_debug_information(workspace, ours) == without_debug_information(workspace, theirs)
        assert os.fsencode(f"{here}\0") in ours
        assert made.ran()["host_compile"] == 1


def without_debug_information(workspace: Workspace, content: bytes) -> bytes:
    path = workspace.directory.parent / "stripped.o"
    path.write_bytes(content)
    subprocess.run(["objcopy", "--strip-debug", path], check=True)
    return path.read_bytes()


@dataclasses.dataclass(frozen=True)
class Turn:
    """One compile: its directory, source, object name and variables."""

    directory: str = "."
    output: str = "a.o"
    source: str = "{work}/a.cu"
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


BECOMES = 'exec "{g++}" $V "$@"'
# Inputs that change a wrapper's command, and the compiles that show it.
CHANGEABLE: dict[str, tuple[str, tuple[Turn, ...]]] = {
    "the path of the object": (
        'case "$*" in *"debug/a.o"*) V=-fpatchable-function-entry=2 ;; esac\n' + BECOMES,
        (Turn(), Turn(output="debug/a.o"), Turn(), Turn(output="debug/a.o")),
    ),
    "a variable, for the last compile alone": (
        'case "$*" in *" -c "*) if [ "$SITE" = two ]; then V=-fpatchable-function-entry=2; fi ;; esac\n'
        + BECOMES,
        (Turn(variables={"SITE": "one"}), Turn(variables={"SITE": "two"}), Turn()),
    ),
    "what it is to compile": (
        'marks() { if grep -q marked "$1"; then V=-fpatchable-function-entry=2; fi; }\n'
        'for w in "$@"; do case $w in *.cudafe1.cpp) marks "$w" ;; esac; done\n' + BECOMES,
        (Turn(), Turn(source="{work}/marked.cu"), Turn(), Turn(source="{work}/marked.cu")),
    ),
    "whether the first try fails": (
        '"{g++}" "$@" 2>/dev/null || exec "{g++}" -DVALUE=2 "$@"',
        (Turn(), Turn(source="{work}/picky.cu"), Turn(source="{work}/picky.cu")),
    ),
}


@pytest.mark.by_default("what it is to compile")
@pytest.mark.parametrize("what", CHANGEABLE)
def test_a_wrapper_that_changes_its_options_gives_no_stale_object(workspace: Workspace, what: str) -> None:
    """In turns, and again by stages alone."""
    text, turns = CHANGEABLE[what]
    options = put(workspace, text)
    workspace.write("a.cu", SOURCE + "static __device__ int hidden;\n")
    workspace.write("marked.cu", SOURCE + "int marked;\n")
    workspace.write("picky.cu", SOURCE.replace("VALUE 0", 'VALUE 0\n#error "another"'))
    workspace.write("debug/.keep", "")
    for _ in range(2):
        for turn in turns:
            source = turn.source.replace("{work}", str(workspace.directory))
            line = (*options, "-c", source, "-o", turn.output)
            compiled(workspace, *line, cwd=workspace.directory / turn.directory, **turn.variables)
        workspace.forget_calls()


def test_a_file_that_a_wrapper_reads_only_when_it_compiles_is_an_input(workspace: Workspace) -> None:
    """Neither the passes nor nvcc's dry run, which queries the wrapper's version, show it."""
    options = put(workspace, 'case "$*" in *" -c "*) . "{work}/site" ;; esac\n' + BECOMES)
    workspace.write("a.cu", SOURCE)
    outcomes = []
    for number in (2, 3, 2):
        workspace.write("site", f"V=-fpatchable-function-entry={number}\n")
        outcomes.append(compiled(workspace, *options, "-c", "a.cu", "-o", "a.o").outcome)
    assert outcomes == ["miss", "partial_hit", "direct_hit"]


def test_messages_that_a_wrapper_prints_only_sometimes_are_those_of_nvcc(workspace: Workspace) -> None:
    """They are not part of the command that it becomes."""
    options = put(workspace, 'if [ -s "{work}/said" ]; then cat "{work}/said" >&2; fi\n' + BECOMES)
    workspace.write("a.cu", SOURCE)
    for text in ("one\n", "", "one\n"):
        workspace.write("said", text)
        compiled(workspace, *options, "-c", "a.cu", "-o", "a.o")

"""Scripts as host compilers: what is found behind each kind, and never more.

The wrappers resemble those of build systems: one exec; Nix's (bash, reads files, loops over its
arguments), Spack's (another command line for each mode), MPICH's (starts the compiler, and ends as it did),
a launcher such as ccache, and Python.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from scenarios.support.both_ways import both_ways, by_cache, by_plain
from scenarios.support.cases import KERNEL
from scenarios.support.observed_wrappers import script
from workspaces import Counters, Workspace

pytestmark = pytest.mark.light
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
SPACK = """
mode=ccld
for arg in "$@"; do
  case $arg in -E) mode=cpp; break ;; -S) mode=as; break ;; -c) mode=cc; break ;; esac
done
lsep=" "
eval "include=\\$SPACK_INCLUDE_DIRS flags=\\$SPACK_CXXFLAGS"
case $mode in cpp) set -- -isystem "{work}/more" $include "$@" ;; cc) set -- $flags "$@" ;; esac
export SPACK_MODE=$mode
exec "{g++}" "$@"
"""
LAUNCHER = 'shift 0\nenv LAUNCHED=1 "{g++}" "$@"'
SUBPROCESS = (
    'import subprocess, sys\nsys.exit(subprocess.run(["{g++}", "-DPYTHON", *sys.argv[1:]]).returncode)\n'
)
KINDS = {
    "one exec": ('exec "{g++}" -B/usr/bin -isystem "{work}/more" "$@"', "#!/bin/sh"),
    "one exec with variables": ('SITE=${SITE:-1}\nexec "{g++}" "-DFACTOR=$SITE" "$@" -fPIC', "#!/bin/bash"),
    "a launcher": (LAUNCHER, "#!/bin/sh"),
    "as Spack has it": (SPACK, "#!/bin/sh"),
    "as Nix has it": (NIX, "#!/bin/bash"),
    "as MPICH has it, in bash": (MPI, "#!/bin/bash"),
    "Python that waits": (SUBPROCESS, "#!{python}"),
}
# Whose objects are shared between directories: these do nothing but start the compiler.
PLAIN = ("one exec", "one exec with variables")


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
def test_what_is_found_behind_each_kind(workspace: Workspace, kind: str) -> None:
    options = put(workspace, *KINDS[kind])
    source = workspace.write("a.cu", "// one\n" + SOURCE)
    line = (*options, "-c", str(source), "-o", "a.o")
    compiled(workspace, *line, cwd=workspace.directory / "one")
    assert compiled(workspace, *line, cwd=workspace.directory / "one").outcome == "direct_hit"
    ran = compiled(workspace, *line, cwd=workspace.directory / "two").ran()
    further = {} if kind in PLAIN else {"host_compile": 1}
    assert ran in ([{}, PASSES] if kind in PLAIN else [PASSES | further]), "another directory"
    ran = compiled(workspace, *line[:-1], "b.o", cwd=workspace.directory / "two").ran()
    assert ran == further, "another name"
    workspace.write("a.cu", "// one\n// two\n" + SOURCE)
    ran = compiled(workspace, *line, cwd=workspace.directory / "one").ran()
    assert ran == PASSES, "a line of comment"


ASKS = {
    "always": 'exec "{g++}" -g "$@"',
    "for a compile alone": 'case " $* " in *" -c "*) set -- -g "$@" ;; esac\nexec "{g++}" "$@"',
}


@pytest.mark.parametrize("adds", ["-finstrument-functions", "@{work}/words"])
def test_arguments_that_may_make_lines_visible(workspace: Workspace, adds: str) -> None:
    """Only arguments known not to are ignored: otherwise the text counts by its bytes."""
    workspace.write("words", "-DWORDS")
    options = put(workspace, f'exec "{{g++}}" {adds} "$@"')
    for text in (SOURCE, "// a line\n" + SOURCE):
        workspace.write("a.cu", text)
        ran = compiled(workspace, *options, "-c", "a.cu", "-o", "a.o").ran()
        assert (ran["cicc"], ran["host_compile"]) == (1, 1)


@pytest.mark.by_default("for a compile alone")
@pytest.mark.parametrize("when", ASKS)
def test_a_wrapper_that_asks_for_debug_information(
    workspace: Workspace, reference_directory: Path, when: str
) -> None:
    """The object names lines, the directory and the stub, as nvcc's does, so it is not shared.

    If only the run of the compile shows it, what was found for other lines is made again, and the object
    names a temporary directory, which is as random under nvcc.
    """
    options = put(workspace, ASKS[when])
    for text in (SOURCE, "// a line\n" + SOURCE, "// a line\n" + SOURCE.replace("kernel", "other")):
        source = workspace.write("a.cu", text)
        for directory in ("one", "two"):
            here = workspace.directory / directory
            here.mkdir(exist_ok=True)
            argv = (*options, "-c", str(source), "-o", "a.o")
            if when == "for a compile alone":
                made = by_cache(workspace, *argv, cwd=here, PWD=str(here))
                plain = by_plain(workspace, *argv, cwd=here, keep=reference_directory, PWD=str(here))
                assert made.status == plain.status == 0
                name = f"{directory}/a.o"
                assert without_debug_information(workspace, made[name]) == without_debug_information(
                    workspace, plain[name]
                )
                assert os.fsencode(f"{here}\0") in made[name]
            else:
                made = both_ways(workspace, *argv, cwd=here, keep=reference_directory, PWD=str(here))
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
PLACES = (Turn("one"), Turn("two"))
# Inputs that change a wrapper's command, and the compiles that show it.
CHANGEABLE: dict[str, tuple[str, tuple[Turn, ...]]] = {
    "the directory's name": ("case $PWD in */two) V=-DVALUE=2 ;; esac\n" + BECOMES, PLACES),
    "a header that it adds": (
        'exec "{g++}" -I "$PWD/inc" "$@"',
        (Turn("one", source="{work}/includes.cu"), Turn("two", source="{work}/includes.cu")),
    ),
    "a descriptor that it opens": ('exec 9<"$PWD/inc/h.h"\nexec "{g++}" -include /dev/fd/9 "$@"', PLACES),
    "the path of the object": (
        'case "$*" in *"debug/a.o"*) V=-fpatchable-function-entry=2 ;; esac\n' + BECOMES,
        (Turn(), Turn(output="debug/a.o"), Turn(output="b.o"), Turn(output="debug/a.o")),
    ),
    "the path of the object, to an assembler": (
        'exec "{g++}" "-B{work}/tools/" "$@"',
        (Turn(), Turn(output="debug/a.o"), Turn(), Turn(output="debug/a.o")),
    ),
    "where the source lies": (
        'case "$*" in *"base/two/"*) V=-DVALUE=2 ;; esac\n' + BECOMES,
        (Turn("base/one", source="{work}/base/one/a.cu"), Turn("base/two", source="{work}/base/two/a.cu")),
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
    "what it does to the object": (
        'for w in "$@"; do case $w in *.o) o=$w ;; esac; done\n"{g++}" "$@" || exit\n'
        'if [ -f "$o" ]; then objcopy --add-section "site=$PWD/inc/h.h" "$o"; fi',
        PLACES,
    ),
}


@pytest.mark.by_default("the path of the object", "what it is to compile")
@pytest.mark.parametrize("what", CHANGEABLE)
def test_a_wrapper_that_changes_its_mind(workspace: Workspace, what: str) -> None:
    """In turns, and again by stages alone."""
    text, turns = CHANGEABLE[what]
    if "objcopy" in text and not shutil.which("objcopy"):
        pytest.skip("there is no objcopy")
    options = put(workspace, text)
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "base")
    set_up(workspace)
    for _ in range(2):
        for turn in (*turns, *turns):
            source = turn.source.replace("{work}", str(workspace.directory))
            line = (*options, "-c", source, "-o", turn.output.replace("{work}", str(workspace.directory)))
            compiled(workspace, *line, cwd=workspace.directory / turn.directory, **turn.variables)
        workspace.forget_calls()


def set_up(workspace: Workspace) -> None:
    """The inputs of the wrappers above, one or two of each."""
    workspace.write("a.cu", SOURCE + "static __device__ int hidden;\n")
    workspace.write("marked.cu", SOURCE + "int marked;\n")
    workspace.write("picky.cu", SOURCE.replace("VALUE 0", 'VALUE 0\n#error "another"'))
    workspace.write("includes.cu", '#include "h.h"\n' + KERNEL)
    for number, name in enumerate(("one", "two"), start=1):
        workspace.write(f"{name}/inc/h.h", f"#define VALUE {number}\n")
        workspace.write(f"base/{name}/a.cu", SOURCE)
    chooses = 'case "$*" in *debug/a.o*) V="--defsym marked=1" ;; esac'
    assembler = f'#!/bin/sh\n{chooses}\nexec {shutil.which("as")} $V "$@"\n'
    workspace.write("tools/as", assembler).chmod(0o755)
    workspace.write("two/mark", "")
    workspace.write("debug/.keep", "")


def test_a_file_that_only_the_last_command_has_a_wrapper_read(workspace: Workspace) -> None:
    """Neither the passes nor nvcc's dry run, which queries the wrapper's version, show it."""
    options = put(workspace, 'case "$*" in *" -c "*) . "{work}/site" ;; esac\n' + BECOMES)
    workspace.write("a.cu", SOURCE)
    outcomes = []
    for number in (2, 2, 3, 2):
        workspace.write("site", f"V=-fpatchable-function-entry={number}\n")
        outcomes.append(compiled(workspace, *options, "-c", "a.cu", "-o", "a.o").outcome)
    assert outcomes == ["miss", "direct_hit", "partial_hit", "direct_hit"]


def test_a_wrappers_own_messages_belong_to_the_call(workspace: Workspace) -> None:
    """They are not part of the command that it becomes."""
    options = put(workspace, 'if [ -s "{work}/said" ]; then cat "{work}/said" >&2; fi\n' + BECOMES)
    workspace.write("a.cu", SOURCE)
    for text in ("", "one\n", "two\n", "", "two\n"):
        workspace.write("said", text)
        compiled(workspace, *options, "-c", "a.cu", "-o", "a.o")


LOOKS = """
for word; do case $word in *.ii|*.cpp) grep -qs MARK "$word" && mark=1 ;; esac; done
exec "{g++}" -DVALUE=${mark:-0} "$@"
"""


@pytest.mark.parametrize("is_marked", ["by its text", "by line markers"])
def test_a_wrapper_that_looks_at_intermediates_is_not_relied_on(workspace: Workspace, is_marked: str) -> None:
    """Nor does it find files of an abandoned attempt."""
    options = put(workspace, LOOKS)
    for folder in ("plain", "MARKED"):
        workspace.write(f"{folder}/a.h", "inline int here() { return 1; }\n")
    workspace.write("a.cu", '#include "plain/a.h"\n' + SOURCE)
    compiled(workspace, *options, "-c", "a.cu", "-o", "a.o")
    if is_marked == "by its text":
        workspace.write("plain/a.h", 'static const char* const mark = "MARK";\n')
    else:
        workspace.write("a.cu", '#include "MARKED/a.h"\n' + SOURCE)
    compiled(workspace, *options, "-c", "a.cu", "-o", "a.o")

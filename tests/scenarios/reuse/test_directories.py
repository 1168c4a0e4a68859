"""A second build directory, and another checkout, with nothing set: what is shared, and what must not be.

Every object is compared with that which plain nvcc makes in that very directory.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.both_ways import Made, both_ways, rebuild
from scenarios.support.toolkits import HOST_COMPILER, HOST_OPTIONS, SOURCE, architectures
from workspaces import Counters, Workspace

pytestmark = pytest.mark.light_by_default
OLD_ENOUGH = 0.2  # seconds, for signatures to be believed
PLAIN = '#include "h.h"\n__global__ void k(int *x) { *x = VALUE; }\nint host() { return VALUE; }\n'
# The module id is in the names of what is internal.
INTERNAL = (
    '#include "h.h"\nnamespace { __device__ int counter = VALUE; __global__ void hidden(int *x)'
    " { *x = counter; } }\nint launch(int *x) { hidden<<<1, 32>>>(x); return VALUE; }\n"
)
NAMED = PLAIN + "extern const char *const name;\nconst char *const name = __FILE__;\n"
HEADER = "#define VALUE 1\n__device__ __forceinline__ int part(int x) { return x / 3; }\n"
MAPPED = "-Xcompiler -ffile-prefix-map={here}=."


def check_out(workspace: Workspace, text: str, *names: str) -> None:
    for name in names:
        workspace.write(f"{name}/src/a.cu", text)
        workspace.write(f"{name}/inc/h.h", "#define VALUE 1\n")
    time.sleep(OLD_ENOUGH)


def compile_in(
    workspace: Workspace,
    directory: str,
    source: str,
    *options: str,
    keep: Path | None = None,
    **variables: str,
) -> Made:
    """Compile as plain nvcc does in a build directory below a checkout, whose path replaces `{here}`."""
    folder = workspace.directory / directory
    folder.mkdir(parents=True, exist_ok=True)
    here = str(folder.parent)
    words = ("-c", source, *options, "-arch=sm_80", "-MD", "-MF", "a.d", "-o", "a.o")
    argv = [word.replace("{here}", here) for word in words]
    environ = {name: value.replace("{here}", here) for name, value in variables.items()}
    return both_ways(workspace, *argv, cwd=folder, keep=keep, PWD=str(folder), **environ)


@pytest.mark.parametrize("text", [PLAIN, INTERNAL], ids=["plain", "id"])
def test_a_second_build_directory_takes_it_whole(workspace: Workspace, text: str) -> None:
    """The arguments name the source's path, which may thus be in the object."""
    check_out(workspace, text, "p")
    source, include = f"{workspace.directory}/p/src/a.cu", f"-I{workspace.directory}/p/inc"
    assert compile_in(workspace, "p/b1", source, include).outcome == "miss"
    assert compile_in(workspace, "p/b2", source, include).outcome == "direct_hit"
    assert compile_in(workspace, "elsewhere", source, include).outcome in ("stage_hit", "direct_hit")
    workspace.write("p/inc/h.h", "#define VALUE 2\n")
    assert compile_in(workspace, "p/b3", source, include).outcome != "direct_hit"


def test_relative_words_share_stages(workspace: Workspace) -> None:
    """What is stored of cudafe++ has no module id, which would hold a checksum of the source's path."""
    check_out(workspace, NAMED, "p", "q")
    line = ("../src/a.cu", "-I../inc")
    assert compile_in(workspace, "p/b", *line).outcome == "miss"
    ran = compile_in(workspace, "q/b", *line).ran()
    assert ran == {"host_preprocess": 1, "device_preprocess": 1}
    assert compile_in(workspace, "q/b", *line).outcome == "direct_hit"
    workspace.write("q/inc/h.h", "#define VALUE 2\n")
    assert compile_in(workspace, "q/b", *line).outcome != "direct_hit"
    assert compile_in(workspace, "p/b", *line).outcome == "direct_hit"


@pytest.mark.parametrize(
    ("text", "options", "outcome", "again"),
    [
        (PLAIN, (), "partial_hit", "direct_hit"),
        (INTERNAL, (), "miss", "direct_hit"),
        (PLAIN, ("-g",), "partial_hit", "partial_hit"),
    ],
    ids=["plain", "id", "debug"],
)
def test_absolute_words_in_another_checkout(
    workspace: Workspace,
    reference_directory: Path,
    text: str,
    options: tuple[str, ...],
    outcome: str,
    again: str,
) -> None:
    check_out(workspace, text, "p", "q")
    words = [word for option in options for word in option.split()]
    line = ("{here}/src/a.cu", "-I{here}/inc", *words)
    keep = reference_directory
    assert compile_in(workspace, "p/b", *line, keep=keep).outcome == "miss"
    assert compile_in(workspace, "q/b", *line, keep=keep).outcome == outcome
    assert compile_in(workspace, "q/other", *line, keep=keep).outcome == again


@pytest.mark.by_default("relative")
@pytest.mark.parametrize(
    "words",
    [("../src/a.cu", "-I../inc"), ("{here}/src/a.cu", "-I{here}/inc")],
    ids=["relative", "absolute"],
)
def test_two_checkouts_of_a_unit_with_an_id_keep_nvccs(workspace: Workspace, words: tuple[str, ...]) -> None:
    check_out(workspace, INTERNAL, "p", "q")
    for directory in ("p/b", "q/b", "p/b", "q/b"):
        compile_in(workspace, directory, *words)


def test_a_relative_id_is_not_given_where_no_base_directory_is_set(workspace: Workspace) -> None:
    check_out(workspace, INTERNAL, "p")
    folder = workspace.directory / "p/b"
    folder.mkdir()
    argv = ("-c", "../src/a.cu", "-I../inc", "-arch=sm_80", "-MD", "-MF", "a.d", "-o", "a.o", *HOST_OPTIONS)
    set_for_it = {"PWD": str(folder), "NVCCACHE_BASE_DIR": str(workspace.directory)}
    assert workspace.cached(*argv, cwd=folder, **set_for_it).status == 0
    for directory in ("p/b", "p/c"):
        compile_in(workspace, directory, "../src/a.cu", "-I../inc")


def test_debug_information_names_each_build_directory(
    workspace: Workspace, reference_directory: Path
) -> None:
    """Stages independent of the directory run once; preprocessed text for the host compiler names it."""
    check_out(workspace, PLAIN, "p")
    line = ("{here}/src/a.cu", "-I{here}/inc", "-g")
    compile_in(workspace, "p/b1", *line, keep=reference_directory)
    ran = compile_in(workspace, "p/b2", *line, keep=reference_directory).ran()
    assert ran == {"host_preprocess": 1, "device_preprocess": 1, "host_compile": 1}
    for option in ("-lineinfo", "-G"):
        for directory in ("p/b1", "p/b2"):
            compile_in(workspace, directory, *line, option, keep=reference_directory)


@pytest.mark.parametrize(
    ("words", "text", "is_direct"),
    [
        (("{here}/src/a.cu", "-I{here}/inc"), PLAIN, True),
        (("{here}/src/a.cu", "-I../inc"), PLAIN, False),
        (("{here}/src/a.cu", "-I{here}/inc", "-G"), PLAIN, False),
    ],
    ids=["absolute", "a relative header", "debug information"],
)
def test_line_information_names_a_build_directory_before_relative_names_alone(
    workspace: Workspace, words: tuple[str, ...], text: str, is_direct: bool
) -> None:
    check_out(workspace, text.replace("{ *x", "{ *x = part(*x); *x"), "p")
    workspace.write("p/inc/h.h", HEADER)
    time.sleep(OLD_ENOUGH)
    assert compile_in(workspace, "p/b1", *words, "-lineinfo").outcome == "miss"
    counters = compile_in(workspace, "p/b2", *words, "-lineinfo")
    assert (counters.outcome == "direct_hit") == is_direct
    assert is_direct or counters.ran()["cicc"] == 1
    workspace.write("p/inc/h.h", f"// a line\n{HEADER}")
    assert compile_in(workspace, "p/b3", *words, "-lineinfo").ran()["cicc"] == 1


def test_an_options_file_counts_by_its_words(workspace: Workspace) -> None:
    """As from CMake's Makefiles: the file names the checkout, and differs in each."""
    check_out(workspace, PLAIN.replace("VALUE;", "VALUE + MORE;"), "p", "q")
    for name in ("p", "q"):
        workspace.write(f"{name}/b/o.rsp", f"-I{workspace.directory}/{name}/inc -DMORE=1\n")
    time.sleep(OLD_ENOUGH)
    line = ("{here}/src/a.cu", "--options-file", "o.rsp")
    assert compile_in(workspace, "p/b", *line).outcome == "miss"
    assert compile_in(workspace, "q/b", *line).outcome != "direct_hit"
    assert compile_in(workspace, "q/b", *line).outcome == "direct_hit"
    workspace.write("q/b/o.rsp", f"-I{workspace.directory}/q/inc -DMORE=2\n")
    assert compile_in(workspace, "q/b", *line).outcome != "direct_hit"
    workspace.write("q/b/o.rsp", f"-I{workspace.directory}/q/inc -DMORE=3\n")
    time.sleep(OLD_ENOUGH)
    assert compile_in(workspace, "q/b", *line).outcome != "direct_hit"
    assert compile_in(workspace, "p/b", *line).outcome == "direct_hit"


def test_a_variable_with_arguments_counts_by_these(workspace: Workspace) -> None:
    """As in a PyTorch extension, whose users can add an option only by such a variable."""
    check_out(workspace, NAMED, "p", "q")
    line, mapped = ("{here}/src/a.cu", "-I{here}/inc"), MAPPED.replace(" ", "=")
    assert compile_in(workspace, "p/b", *line, NVCC_APPEND_FLAGS=mapped).outcome == "miss"
    assert compile_in(workspace, "q/b", *line, NVCC_APPEND_FLAGS=mapped).outcome != "direct_hit"
    assert compile_in(workspace, "q/b", *line, NVCC_APPEND_FLAGS=f"{mapped}x").outcome != "direct_hit"
    assert compile_in(workspace, "q/b", *line, NVCC_PREPEND_FLAGS="-DMORE").outcome != "direct_hit"
    assert compile_in(workspace, "q/b", *line, NVCC_APPEND_FLAGS=mapped).outcome == "direct_hit"


def test_a_variable_with_arguments_counts_as_a_whole_for_a_script_that_reads_it(workspace: Workspace) -> None:
    check_out(workspace, PLAIN, "p")
    script = workspace.write(
        "hostcxx", f'#!/bin/sh\nexec {HOST_COMPILER} -DSIZE=${{#NVCC_APPEND_FLAGS}} "$@"\n'
    )
    script.chmod(0o755)
    line = ("{here}/src/a.cu", "-I{here}/inc", "-ccbin", str(script))
    compile_in(workspace, "p/b", *line, NVCC_APPEND_FLAGS="-DA=1")
    assert compile_in(workspace, "p/b", *line, NVCC_APPEND_FLAGS="-DA=1").outcome == "direct_hit"
    assert compile_in(workspace, "p/b", *line, NVCC_APPEND_FLAGS=" -DA=1").outcome != "direct_hit"


def test_a_script_that_looks_at_its_arguments(workspace: Workspace) -> None:
    """It may depend on the checkout's path, which differs in the other."""
    check_out(workspace, PLAIN, "p", "q")
    script = workspace.write(
        "hostcxx", f'#!/bin/sh\ncase $* in *VALUE*) ;; esac; exec {HOST_COMPILER} "$@"\n'
    )
    script.chmod(0o755)
    for directory in ("p/b", "p/c", "q/b"):
        compile_in(workspace, directory, "{here}/src/a.cu", "-I{here}/inc", "-ccbin", str(script))


def test_a_copy_that_is_built_where_it_was_unpacked(workspace: Workspace) -> None:
    """As pip does, in a new directory each time, which is removed afterwards."""
    outcomes = []
    for name in ("tmp1x", "tmp2yy"):
        check_out(workspace, PLAIN, name)
        folder = workspace.directory / name
        argv = ("-c", "src/a.cu", f"-I{folder}/inc", "-DNAME=a", "-o", "build.o")
        outcomes.append(both_ways(workspace, *argv, cwd=folder, PWD=str(folder)).outcome)
        shutil.rmtree(folder)
    assert outcomes == ["miss", "partial_hit"]


_INCLUDES = '#include "config.h"\n' + SOURCE
_CONFIG = "#define CONFIGURED 1\n"  # what CMake's configure_file writes into each build directory
# Each pass begins with another external definition, so that the ids that the stages make up differ.
_SURE = "#include <assert.h>\n" + _INCLUDES + "int sure(int x) { assert(x); return x; }\n"
BOTH = architectures(80, 90)


def build_in(
    workspace: Workspace, directory: str, options: Sequence[str | Path], program: Sequence[str] = ()
) -> Counters:
    """Compile the source in a build directory as CMake does; the object is plain nvcc's."""
    here = workspace.write(f"{directory}/config.h", _CONFIG).parent
    argv = ["-c", workspace.directory / "a.cu", *options, "-o", "a.o"]
    run = [*program, workspace.nvcc] if program else [str(launcher_of_tree()), workspace.nvcc]
    as_set_by_a_shell = {"PWD": str(here), "NVCCACHE_JOBS": "8"}
    result, counters = workspace.since(lambda: workspace.run([*run, *argv], cwd=here, **as_set_by_a_shell))
    assert (result.status, result.stderr) == (0, b"")
    made = (here / "a.o").read_bytes()
    keep = workspace.directory.parent / "keep"
    keep.mkdir(exist_ok=True)
    assert workspace.plain(*argv, "-keep", "-keep-dir", keep, cwd=here).status == 0
    assert made == (here / "a.o").read_bytes()
    return counters


def script(workspace: Workspace, *options: str, before: str = ":") -> Path:
    """A script as host compiler, which may do anything."""
    argv = " ".join((HOST_COMPILER, *options))
    path = workspace.write("hostcxx", f'#!/bin/sh\n: "$WRAPPED"\n{before}\nexec {argv} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("is_known", [True, False])
def test_behind_an_unknown_wrapper_all_goes_by_the_bytes_of_the_text(
    workspace: Workspace, toolkit: Path, is_known: bool
) -> None:
    """The path of a header is in line markers; a script could have the host compiler show it.

    Which command is the compile is unknown where a script starts several compilers.
    """
    workspace.write("a.cu", _INCLUDES)
    options = (
        *BOTH,
        "-ccbin",
        script(workspace, before=":" if is_known else f"{HOST_COMPILER} --version >&-"),
    )
    first, second = (f"-I{workspace.directory}/{name}" for name in ("one", "deep/two"))
    build_in(workspace, "one", (*options, first))
    ran = build_in(workspace, "deep/two", (*options, second)).ran()
    by_bytes = {} if is_known else {"cudafe": 1, "cicc": 2}
    assert ran == {"host_preprocess": 1, "device_preprocess": 2, "host_compile": 1, **by_bytes}


def test_a_product_that_names_a_header_of_the_build_directory(workspace: Workspace, toolkit: Path) -> None:
    """PTX with line information names each file that contributes code."""
    source = workspace.write("src/a.cu", _SURE)
    for name in ("one", "two"):
        here = workspace.write(f"{name}/config.h", "__global__ void more(int *x) { *x *= 3; }\n").parent
        time.sleep(OLD_ENOUGH)
        argv = ["-ptx", "-lineinfo", "-arch=sm_80", f"-I{here}", source, "-o", "a.ptx"]
        assert workspace.cached(*argv, *HOST_OPTIONS, cwd=here, PWD=str(here)).status == 0
        assert f'"{here}/config.h"' in (here / "a.ptx").read_text()


def test_a_header_of_another_build_directory_that_the_source_names(
    workspace: Workspace, toolkit: Path
) -> None:
    """It is not the one at the same path in this build directory."""
    first, second = (workspace.write(f"{name}/more.h", "#define MORE 1\n").parent for name in ("one", "two"))
    sure = "int sure(int x) { assert(x); return MORE; }\n"
    text = f'#include <assert.h>\n#include "{first}/more.h"\n{SOURCE}{sure}'
    workspace.write("src/a.cu", text)
    time.sleep(OLD_ENOUGH)
    argv = ["-c", workspace.directory / "src/a.cu", *BOTH]
    rebuild(workspace, *argv, cwd=first, PWD=str(first))
    workspace.write("one/more.h", "#define MORE 2\n")
    time.sleep(OLD_ENOUGH)
    rebuild(workspace, *argv, cwd=second, PWD=str(second))

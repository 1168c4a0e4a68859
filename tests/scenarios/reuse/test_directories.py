"""A second build directory, and another checkout: what is shared, and what must not be.

Every object of which a part was reused is compared with the one that plain nvcc makes in that very directory.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made, both_ways, by_cache, check_like_plain
from scenarios.support.toolkits import HOST_COMPILER, HOST_OPTIONS
from workspaces import Workspace

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
MAPPED = "-Xcompiler=-ffile-prefix-map={here}=."
PASSES = {"host_preprocess": 1, "device_preprocess": 1}


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
    product: str = "a.o",
    **variables: str,
) -> Made:
    """Compile in a build directory below a checkout, whose path replaces `{here}`.

    What is reused is compared with what plain nvcc makes there.
    """
    folder = workspace.directory / directory
    folder.mkdir(parents=True, exist_ok=True)
    here = str(folder.parent)
    words = ("-c", source, *options, "-arch=sm_80", "-MD", "-MF", "a.d", "-o", product)
    argv = [word.replace("{here}", here) for word in words]
    environ = {name: value.replace("{here}", here) for name, value in variables.items()}
    made = by_cache(workspace, *argv, cwd=folder, PWD=str(folder), **environ)
    if made.outcome != "miss":
        check_like_plain(workspace, made, *argv, cwd=folder, keep=keep, PWD=str(folder), **environ)
    return made


def test_a_second_build_directory_with_absolute_paths_is_a_direct_hit(workspace: Workspace) -> None:
    """The arguments name the source's path, which may thus be in the object."""
    check_out(workspace, INTERNAL, "p")
    source, include = f"{workspace.directory}/p/src/a.cu", f"-I{workspace.directory}/p/inc"
    assert compile_in(workspace, "p/b1", source, include).outcome == "miss"
    assert compile_in(workspace, "p/b2", source, include).outcome == "direct_hit"
    workspace.write("p/inc/h.h", "#define VALUE 2\n")
    assert compile_in(workspace, "p/b3", source, include).outcome != "direct_hit"


def test_relative_paths_share_all_stages_but_preprocessing_between_checkouts(workspace: Workspace) -> None:
    """What is stored of cudafe++ has no module id, which would hold a checksum of the source's path."""
    check_out(workspace, NAMED, "p", "q")
    line = ("../src/a.cu", "-I../inc")
    assert compile_in(workspace, "p/b", *line).outcome == "miss"
    assert compile_in(workspace, "q/b", *line).ran() == PASSES
    workspace.write("q/inc/h.h", "#define VALUE 2\n")
    assert compile_in(workspace, "q/b", *line).outcome != "direct_hit"


@pytest.mark.by_default("-dc")
@pytest.mark.parametrize("mode", ["-c", "-dc"])
def test_a_unit_with_a_module_id_is_shared_between_checkouts_below_a_base_directory(
    workspace: Workspace, mode: str
) -> None:
    """The way to the source is the same in both checkouts: by the record, and by stages."""
    check_out(workspace, INTERNAL, "p", "q")
    base = {"NVCCACHE_BASE_DIR": str(workspace.directory), "product": "{here}/b/a.o"}
    line = ("{here}/src/a.cu", "-I../inc", mode)
    assert compile_in(workspace, "p/b", *line, **base).outcome == "miss"
    assert compile_in(workspace, "q/b", *line, **base).outcome == "direct_hit"
    workspace.forget_calls()
    assert compile_in(workspace, "q/b", *line, **base).compiled() == {}


def test_dates_of_equal_headers_matter_only_relative_to_each_other(workspace: Workspace) -> None:
    """With `#pragma once`, gcc skips a header that is equal to another and has the same date."""
    text = "#pragma once\n#ifdef FIRST\n#define SECOND 2\n#endif\n#define FIRST\n"
    source = '#include "x.h"\n#include "y.h"\n#ifndef SECOND\n#define SECOND 1\n#endif\nint x = SECOND;\n'
    outcomes = []
    a_second = 10**9
    cases = {"one": (1, 2), "two": (3, 7), "three": (5, 5), "four": (6, 6.5), "linked": (), "five": (5, 6)}
    for name, dates in cases.items():
        workspace.write(f"{name}/b/a.cu", source)
        folder = workspace.write(f"{name}/b/x.h", text).parent
        if not dates:
            os.link(folder / "x.h", folder / "y.h")
        for header, date in zip("xy", dates, strict=False):
            path = workspace.write(f"{name}/b/{header}.h", text)
            os.utime(path, ns=(int(date * a_second) - 1, int((10**9 + date) * a_second) - 1))
        time.sleep(OLD_ENOUGH)
        settings = {"NVCCACHE_BASE_DIR": str(workspace.directory)}
        outcomes.append(compile_in(workspace, f"{name}/b", "a.cu", **settings).outcome)
    assert [outcome == "direct_hit" for outcome in outcomes] == [False, True, False, True, True, True]


def test_a_base_directory_works_with_a_script_as_host_compiler(workspace: Workspace) -> None:
    """A shell looks at its working directory by the absolute name in PWD."""
    workspace.write("compiler", f'#!/bin/sh\nexec {HOST_COMPILER} -DMORE "$@"\n').chmod(0o755)
    check_out(workspace, PLAIN, "one", "two")
    words = ("../src/a.cu", "-I../inc", "-ccbin", str(workspace.directory / "compiler"))
    settings = {"NVCCACHE_BASE_DIR": str(workspace.directory)}
    outcomes = [compile_in(workspace, f"{name}/b", *words, **settings).outcome for name in ("one", "two")]
    assert outcomes == ["miss", "direct_hit"]


def test_copies_of_a_unit_in_one_checkout_can_be_linked_together(workspace: Workspace) -> None:
    """They have the same relative paths, but not the same id."""
    check_out(workspace, INTERNAL, "one/p", "one/q")
    base = {"NVCCACHE_BASE_DIR": str(workspace.directory)}
    line = ("{here}/src/a.cu", "-I../inc")
    assert compile_in(workspace, "one/p/b", *line, **base).outcome == "miss"
    assert "host_compile" in compile_in(workspace, "one/q/b", *line, **base).compiled()


# Names of the directory `one/b`. gcc searches a directory once, so nothing is looked up there by these names.
ALIASES = {
    "another relative name": ("-I../b", ""),
    "a link": ("-I{top}/link", ""),
    "another name, with a base directory": ("-I../b", "{top}"),
    "a name with dots": ("-I{top}/two/../one/b", ""),
    "its path": ("-I{top}/one/b", ""),
    "the directory above by its path": ("-I.. -Xcompiler -iprefix,{top}/,-iwithprefixbefore,one", ""),
}


@pytest.mark.by_default("another relative name", "a link", "the directory above by its path")
@pytest.mark.parametrize("case", ALIASES)
def test_a_directory_with_two_names_here_is_another_one_elsewhere(workspace: Workspace, case: str) -> None:
    top = str(workspace.directory)
    option, base = (word.replace("{top}", top) for word in ALIASES[case])
    workspace.write("a.cu", "#include <g.h>\nint x = VALUE;\n")
    workspace.write("inc/g.h", "#define VALUE 1\n")
    workspace.write("two/unrelated.h", "")
    (workspace.directory / "link").symlink_to("one/b")
    time.sleep(OLD_ENOUGH)
    words = (f"{top}/a.cu", "-I.", *option.split(), "-isystem", f"{top}/inc")
    assert compile_in(workspace, "one/b", *words, NVCCACHE_BASE_DIR=base).outcome == "miss"
    for above in ("one/b", "one"):
        workspace.write(f"{above}/g.h", "#define VALUE 2\n")
    time.sleep(OLD_ENOUGH)
    elsewhere = "two/b" if "iprefix" in option else "one/c"
    assert "host_compile" in compile_in(workspace, elsewhere, *words, NVCCACHE_BASE_DIR=base).ran()


@pytest.mark.parametrize("more", ["-isystem ../../two/b", "-Xcompiler -iprefix,../../two/,-iwithprefix,b"])
def test_two_directories_here_are_one_elsewhere(workspace: Workspace, more: str) -> None:
    top = str(workspace.directory)
    workspace.write("a.cu", "#include <g.h>\nint x = VALUE;\n")
    for place, value in {"one/b": 1, "two/b": 1, "inc": 2}.items():
        workspace.write(f"{place}/g.h", f"#define VALUE {value}\n")
    time.sleep(OLD_ENOUGH)
    words = (f"{top}/a.cu", "-I.", f"-I{top}/inc", *more.split())
    assert compile_in(workspace, "one/b", *words, NVCCACHE_BASE_DIR=top).outcome == "miss"
    assert "host_compile" in compile_in(workspace, "two/b", *words, NVCCACHE_BASE_DIR=top).ran()


@pytest.mark.parametrize("wrapper", ["cc", "g++"], ids=["a script", "a program named like a compiler"])
@pytest.mark.parametrize("above", [".", "sub"], ids=["it fails there", "it finds other headers there"])
def test_nvcc_runs_if_a_compiler_is_elsewhere(workspace: Workspace, above: str, wrapper: str) -> None:
    top = f"{workspace.directory}"
    workspace.write("sub/cc", f'#!/bin/sh\ncd {top}/sub; exec {HOST_COMPILER} "$@"\n').chmod(0o755)
    program = f'chdir("{top}/sub"); return execv(words[0] = "{HOST_COMPILER}", words);'
    source = workspace.write("g.c", f"#include <unistd.h>\nint main(int n, char **words) {{ {program} }}\n")
    subprocess.run(["gcc", "-o", f"{top}/sub/g++", source], check=True)
    for place, value in {f"{above}/p": 1, "p": 2}.items():
        workspace.write(f"{place}/g.h", f"constexpr int value = {value};\n")
        workspace.write(f"{place}/a.cu", "#include <g.h>\n__global__ void kernel(int *p) { *p = value; }\n")
    line = ("-ptx", f"{top}/p/a.cu", "-o", f"{top}/a.ptx", "-ccbin", f"{top}/sub/{wrapper}", f"-I{top}/p")
    assert both_ways(workspace, *line, NVCCACHE_BASE_DIR=top).outcome == "bypass"


# A unit, options, what becomes of it in another checkout, and in another directory of that.
ABSOLUTE = {
    "plain": (PLAIN, (), "partial_hit", "direct_hit"),
    "id": (INTERNAL, (), "miss", "direct_hit"),
    "debug": (PLAIN, ("-g",), "partial_hit", "partial_hit"),
}


@pytest.mark.by_default("id", "debug")
@pytest.mark.parametrize("unit", ABSOLUTE)
def test_stages_without_the_checkouts_path_are_shared_between_checkouts(
    workspace: Workspace, reference_directory: Path, unit: str
) -> None:
    """Debug information names each build directory: the text for the host compiler has it."""
    text, options, outcome, again = ABSOLUTE[unit]
    check_out(workspace, text, "p", "q")
    line = ("{here}/src/a.cu", "-I{here}/inc", *options)
    keep = reference_directory
    assert compile_in(workspace, "p/b", *line, keep=keep).outcome == "miss"
    assert compile_in(workspace, "q/b", *line, keep=keep).outcome == outcome
    made = compile_in(workspace, "q/other", *line, keep=keep)
    assert made.outcome == again
    assert unit != "debug" or made.ran() == {**PASSES, "host_compile": 1}


def test_relative_module_ids_are_not_used_without_a_base_directory(workspace: Workspace) -> None:
    check_out(workspace, INTERNAL, "p")
    folder = workspace.directory / "p/b"
    folder.mkdir()
    argv = ("-c", "../src/a.cu", "-I../inc", "-arch=sm_80", "-MD", "-MF", "a.d", "-o", "a.o", *HOST_OPTIONS)
    set_for_it = {"PWD": str(folder), "NVCCACHE_BASE_DIR": str(workspace.directory)}
    assert workspace.cached(*argv, cwd=folder, **set_for_it).status == 0
    for directory in ("p/b", "p/c"):
        compile_in(workspace, directory, "../src/a.cu", "-I../inc")


@pytest.mark.by_default("absolute", "a relative header")
@pytest.mark.parametrize(
    ("words", "is_direct"),
    [(("-I{here}/inc",), True), (("-I../inc",), False), (("-I{here}/inc", "-G"), False)],
    ids=["absolute", "a relative header", "debug information"],
)
def test_line_information_is_shared_between_build_directories_if_paths_are_absolute(
    workspace: Workspace, words: tuple[str, ...], is_direct: bool
) -> None:
    check_out(workspace, PLAIN.replace("{ *x", "{ *x = part(*x); *x"), "p")
    workspace.write("p/inc/h.h", HEADER)
    time.sleep(OLD_ENOUGH)
    line = ("{here}/src/a.cu", *words, "-lineinfo")
    assert compile_in(workspace, "p/b1", *line).outcome == "miss"
    made = compile_in(workspace, "p/b2", *line)
    assert (made.outcome == "direct_hit") == is_direct
    assert is_direct or made.ran()["cicc"] == 1


def test_a_changed_options_file_prevents_a_direct_hit(workspace: Workspace) -> None:
    """As from CMake's Makefiles: the file names the checkout, and differs in each."""
    check_out(workspace, PLAIN.replace("VALUE;", "VALUE + MORE;"), "p", "q")
    for name in ("p", "q"):
        workspace.write(f"{name}/b/o.rsp", f"-I{workspace.directory}/{name}/inc -DMORE=1\n")
    time.sleep(OLD_ENOUGH)
    line = ("{here}/src/a.cu", "--options-file", "o.rsp")
    assert compile_in(workspace, "p/b", *line).outcome == "miss"
    assert compile_in(workspace, "q/b", *line).outcome != "direct_hit"
    workspace.write("q/b/o.rsp", f"-I{workspace.directory}/q/inc -DMORE=2\n")
    assert compile_in(workspace, "q/b", *line).outcome != "direct_hit"
    assert compile_in(workspace, "p/b", *line).outcome == "direct_hit"


def test_a_changed_value_of_nvcc_append_flags_prevents_a_direct_hit(workspace: Workspace) -> None:
    """As in a PyTorch extension, whose users can add an option only by such a variable."""
    check_out(workspace, NAMED, "p", "q")
    line = ("{here}/src/a.cu", "-I{here}/inc")
    assert compile_in(workspace, "p/b", *line, NVCC_APPEND_FLAGS=MAPPED).outcome == "miss"
    assert compile_in(workspace, "q/b", *line, NVCC_APPEND_FLAGS=MAPPED).outcome != "direct_hit"
    assert compile_in(workspace, "q/b", *line, NVCC_PREPEND_FLAGS="-DMORE").outcome != "direct_hit"
    assert compile_in(workspace, "q/b", *line, NVCC_APPEND_FLAGS=MAPPED).outcome == "direct_hit"


def test_other_blanks_in_nvcc_append_flags_prevent_a_direct_hit_if_a_wrapper_reads_them(
    workspace: Workspace,
) -> None:
    check_out(workspace, PLAIN, "p")
    script = workspace.write(
        "hostcxx", f'#!/bin/sh\nexec {HOST_COMPILER} -DSIZE=${{#NVCC_APPEND_FLAGS}} "$@"\n'
    )
    script.chmod(0o755)
    line = ("{here}/src/a.cu", "-I{here}/inc", "-ccbin", str(script))
    compile_in(workspace, "p/b", *line, NVCC_APPEND_FLAGS="-DA=1")
    assert compile_in(workspace, "p/b", *line, NVCC_APPEND_FLAGS=" -DA=1").outcome != "direct_hit"

"""Replacing a tool or editing a file makes exactly the stages miss that the tool and the file belong to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import kept_records
from scenarios.support.both_ways import rebuild
from scenarios.support.toolkits import (
    HOST_COMPILER,
    HOST_OPTIONS,
    SOURCE,
    copy_toolkit,
    edit,
    replace,
    wrap,
)
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

ARCHITECTURES = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")
TOOLS = {"cudafe": "bin/cudafe++", "cicc": "bin/cicc", "ptxas": "bin/ptxas", "fatbinary": "bin/fatbinary"}
# What a replaced tool does to its output, and which stages then run.
OTHER_OUTPUT = {
    "cudafe": ("--gen_c_file_name", "\nint added;\n", {"cudafe", "host_compile"}),
    "cicc": ("-o", "\n// added\n", {"cicc", "ptxas", "fatbinary", "host_compile"}),
    "ptxas": ("", "-O1", {"ptxas", "fatbinary", "host_compile"}),
    "fatbinary": ("", "-compress-all", {"fatbinary", "host_compile"}),
}


def path_of(toolkit: Path, stage: str) -> Path:
    return toolkit / ("nvvm" if stage == "cicc" else "") / TOOLS[stage]


@pytest.fixture
def toolkit(workspace: Workspace, tmp_path: Path) -> Path:
    workspace.write("a.cu", SOURCE)
    return copy_toolkit(workspace, tmp_path / "toolkit")


def test_each_tool_that_is_replaced(workspace: Workspace, toolkit: Path) -> None:
    """By one that does the same: only its own stage runs, since later ones read the same bytes."""
    rebuild(workspace, "-c", "a.cu")
    for stage in TOOLS:
        tool = path_of(toolkit, stage)
        real = tool.resolve()
        for number in (1, 2):
            wrap(tool, real, before=f"# {number}")
            assert set(rebuild(workspace, "-c", "a.cu").compiled()) == {stage}
    workspace.forget_calls()
    assert set(rebuild(workspace, "-c", "a.cu").compiled()) == set()


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("stage", TOOLS)
def test_a_tool_that_makes_something_else(workspace: Workspace, toolkit: Path, stage: str) -> None:
    rebuild(workspace, "-c", "a.cu")
    option, added, ran = OTHER_OUTPUT[stage]
    tool = path_of(toolkit, stage)
    if option:
        find = f'while [ "$1" != {option} ]; do shift; done\nprintf "%s" "{added}" >> "$2"'
        wrap(tool, tool.resolve(), after=find)
    else:
        wrap(tool, tool.resolve(), options=[added])
    assert set(rebuild(workspace, "-c", "a.cu").compiled()) == ran


def test_the_parts_of_the_host_compiler(workspace: Workspace, tmp_path: Path) -> None:
    """The driver stays the same file; the programs it starts do not."""
    workspace.write("a.cu", SOURCE)
    driver = tmp_path / "g++"
    wrap(driver, HOST_COMPILER, options=["-B", str(tmp_path / "parts")])
    (tmp_path / "parts").mkdir()
    real = {}
    for part in ("cc1plus", "as"):
        asked = workspace.run([HOST_COMPILER, f"-print-prog-name={part}"]).stdout.decode().strip()
        real[part] = shutil.which(asked)
        wrap(tmp_path / "parts" / part, real[part])
    rebuild(workspace, "-c", "a.cu", "-ccbin", driver)
    for part in ("cc1plus", "as"):
        wrap(tmp_path / "parts" / part, real[part], before="# another one")
        counters = rebuild(workspace, "-c", "a.cu", "-ccbin", driver)
        assert set(counters.compiled()) == {"host_compile"}, part
    wrap(tmp_path / "parts" / "cc1plus", real["cc1plus"], options=["-fno-ident"])
    assert set(rebuild(workspace, "-c", "a.cu", "-ccbin", driver).compiled()) == {"host_compile"}


def test_the_profile_of_nvcc(workspace: Workspace, toolkit: Path) -> None:
    rebuild(workspace, "-c", "a.cu")
    edit(toolkit / "bin/nvcc.profile", "\nPTXAS_FLAGS += -O1\n")
    assert set(rebuild(workspace, "-c", "a.cu").compiled()) == {"ptxas", "fatbinary", "host_compile"}


def test_a_header_that_only_one_pass_sees(workspace: Workspace) -> None:
    workspace.write(
        "a.cu",
        '#ifndef __CUDA_ARCH__\n#include "host.h"\n#else\n#include "device.h"\n'
        '#if __CUDA_ARCH__ >= 900\n#include "sm_90.h"\n#endif\n#endif\n'
        "#ifndef SM_90\n#define SM_90 0\n#endif\n"
        "__global__ void kernel(int *out) {\n#ifdef DEVICE\n  *out = DEVICE + SM_90;\n#endif\n}\n"
        "#ifndef __CUDA_ARCH__\nint host() { return HOST; }\n#endif\n",
    )
    for name in ("host", "device", "sm_90"):
        workspace.write(f"{name}.h", f"#define {name.upper()} 1\n")
    rebuild(workspace, "-c", "a.cu", *ARCHITECTURES)
    workspace.write("host.h", "#define HOST 2\n")
    assert rebuild(workspace, "-c", "a.cu", *ARCHITECTURES).compiled() == {"cudafe": 1, "host_compile": 1}
    workspace.write("sm_90.h", "#define SM_90 2\n")
    ran = {"cicc": 1, "ptxas": 1, "fatbinary": 1, "host_compile": 1}
    assert rebuild(workspace, "-c", "a.cu", *ARCHITECTURES).compiled() == ran
    workspace.write("device.h", "#define DEVICE 2\n")
    ran |= {"cicc": 2, "ptxas": 2}
    assert rebuild(workspace, "-c", "a.cu", *ARCHITECTURES).compiled() == ran


def test_a_toolkit_header_that_the_host_compiler_reads_again(workspace: Workspace, toolkit: Path) -> None:
    rebuild(workspace, "-c", "a.cu", "-Iown")
    probe = "\n#ifndef GUARD_{0}\n#define GUARD_{0}\nint {0};\n#endif\n"
    edit(toolkit / "include/crt/host_runtime.h", probe.format("edited_in_toolkit"))
    assert set(rebuild(workspace, "-c", "a.cu", "-Iown").compiled()) == {"host_compile"}
    # One that appears in a directory searched earlier, and one where even the directory is new.
    workspace.write("own/crt/host_runtime.h", "#include_next <crt/host_runtime.h>\n" + probe.format("in_own"))
    assert set(rebuild(workspace, "-c", "a.cu", "-Iown").compiled()) == {"host_compile"}
    shutil.rmtree(workspace.directory / "own")
    assert set(rebuild(workspace, "-c", "a.cu", "-Iown").compiled()) == set()


def test_a_system_header_that_appears_for_the_host_compiler(workspace: Workspace) -> None:
    """In a directory that the environment names, under the name of one found without any option."""
    workspace.write("a.cu", SOURCE)
    variables = {"CPATH": "own:"}
    rebuild(workspace, "-c", "a.cu", **variables)
    bodies = kept_records.bodies_of(workspace.cache).values()
    input_records = [inputs for body in bodies for _, inputs, _ in kept_records.pairs_in(body)]
    # The host compile's names all headers that it reads again, but not the source.
    if not any(
        b"/features.h" in input_record and b"a.cu" not in input_record for input_record in input_records
    ):
        pytest.skip("the headers of this toolkit do not make the host compiler read features.h again")
    for directory, name in (("own", "in_own"), (".", "in_working_directory")):
        # Only a preprocessor pass has nvcc's macro.
        probe = (
            f"#if !defined(__NVCC__) && !defined(GUARD_{name})\n#define GUARD_{name}\nint {name};\n#endif\n"
        )
        workspace.write(f"{directory}/features.h", "#include_next <features.h>\n" + probe)
        assert "host_compile" in rebuild(workspace, "-c", "a.cu", **variables).compiled()


def test_a_header_that_changes_while_it_is_read(workspace: Workspace, toolkit: Path, tmp_path: Path) -> None:
    """An object made from the old header is not stored under the new one."""
    header = toolkit / "include/crt/host_runtime.h"
    text = header.read_text()
    replace(header, text)
    compiler = tmp_path / "g++"
    late_edit = f'case " $* " in *" -c "*) printf "\\nextern int late;\\n" >> "{header}";; esac'
    wrap(compiler, HOST_COMPILER, after=late_edit)
    options = ("-c", "a.cu", "-o", "a.o", "-ccbin", compiler)
    os.utime(header, (1e9, 1e9))
    workspace.cached(*options)
    edited = header.read_text()
    assert edited != text
    _, counters = workspace.since(lambda: workspace.cached(*options))
    assert set(counters.compiled()) == {"host_compile"}


def test_profiles_of_earlier_runs_are_read_each_time(workspace: Workspace) -> None:
    workspace.write("a.cu", SOURCE)
    argv = ("-c", "a.cu", "-o", "a.o", *HOST_OPTIONS, "-Xcompiler", "-fprofile-use")
    for outcome in ("miss", "partial_hit"):
        _, counters = workspace.since(lambda: workspace.cached(*argv))
        assert counters.outcome == outcome

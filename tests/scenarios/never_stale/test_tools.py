"""The tools of a compile, the parts of the host compiler and nvcc's profile: when they change, stages run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kept_records
from scenarios.support.both_ways import rebuild
from scenarios.support.cases import (
    DIRECT_HIT,
    EITHER,
    Call,
    Case,
    Change,
    check,
    made_by_cache,
    remove,
    rewrite,
    set_up,
    swap,
    toolkit,
    touch,
)
from scenarios.support.observed_wrappers import script
from scenarios.support.toolkits import (
    CCBIN,
    HOST_COMPILER,
    HOST_OPTIONS,
    SOURCE,
    copy_toolkit,
    cuda_release,
    edit,
    replace,
    wrap,
)
from workspaces import Workspace, make_workspace

pytestmark = pytest.mark.light_by_default
CODE = {"a.cu": "__global__ void kernel(float *x) { x[0] = x[1] * 2.5f / x[2]; x[3] = x[0] + x[4]; }\n"}
SM_80 = Call("-arch=sm_80")
PTXAS, CICC, CUDAFE, FATBINARY = "bin/ptxas", "nvvm/bin/cicc", "bin/cudafe++", "bin/fatbinary"


def changed(name: str) -> str:
    return f"/{Path(name).name}` changed"


def wrapping(name: str, before: str = "", after: str = "", options: tuple[str, ...] = ()) -> Change:
    """A script around the tool; over an earlier script, around the same tool as that."""

    def apply(workspace: Workspace) -> None:
        tool = toolkit(workspace) / name
        real = toolkit(workspace) / f"real-{Path(name).name}"
        if not real.exists():
            real.symlink_to(tool.resolve())
        wrap(tool, real.resolve(), before, after, options)

    return apply


def original_of(workspace: Workspace) -> Path:
    """The toolkit to which the copy's links lead."""
    return (toolkit(workspace) / "bin/nvcc").resolve().parents[1]


def edit_profile(workspace: Workspace) -> None:
    edit(toolkit(workspace) / "bin/nvcc.profile", "\nPTXAS_FLAGS += -O0\n")


TOOLS = {
    "ptxas": Case(wrapping(PTXAS, options=("-O0",)), changed(PTXAS), CODE, SM_80, has_own_toolkit=True),
    "a tool that talks now": Case(
        wrapping(PTXAS, before="echo said >&2"), changed(PTXAS), CODE, has_own_toolkit=True
    ),
    "the profile of nvcc": Case(edit_profile, "nvcc.profile` changed", CODE, SM_80, has_own_toolkit=True),
    "a tool that is found elsewhere now": Case(
        remove(f"../toolkit/{FATBINARY}"),
        (),
        CODE,
        outcome=EITHER,
        changes_product=None,
        has_own_toolkit=True,
    ),
}


@pytest.mark.by_default("ptxas", "the profile of nvcc")
@pytest.mark.parametrize("rule", TOOLS)
def test_a_tool_that_changes_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, TOOLS[rule])


@pytest.mark.full
def test_a_tool_that_is_not_there_any_more_is_missed(workspace: Workspace) -> None:
    case = Case(files=CODE, has_own_toolkit=True)
    set_up(workspace, case)
    made_by_cache(workspace, case.call)
    (toolkit(workspace) / CICC).unlink()
    plain = workspace.plain(*case.call.argv(workspace))
    assert plain.status != 0
    assert workspace.cached(*case.call.argv(workspace), NVCCACHE_STRICT="0") == plain


@pytest.mark.by_default("swap")
@pytest.mark.parametrize("exchange", [rewrite, swap])
def test_a_tool_replaced_under_the_same_size_and_date_is_seen(
    workspace: Workspace, exchange: Callable[[str, str], Change]
) -> None:
    """Both are scripts; one says `-O0` where the other says `-O3`."""
    set_up(workspace, Case(files=CODE, has_own_toolkit=True))
    wrapping(PTXAS, options=("-O3",))(workspace)
    text = (toolkit(workspace) / PTXAS).read_text().replace("-O3", "-O0")
    check(workspace, Case(exchange(f"../toolkit/{PTXAS}", text), changed(PTXAS), CODE, SM_80))


def test_a_host_compiler_that_is_a_script_is_seen_through(workspace: Workspace) -> None:
    set_up(workspace, Case(files=CODE))
    script('exec {g++} "$@"', "g++")(workspace)
    call = Call("-ccbin {work}/g++")
    check(workspace, Case(touch("a.cu", 0), (), CODE, call, outcome=DIRECT_HIT, changes_product=False))
    change = script('exec {g++} "$@" -fno-ident', "g++")
    check(workspace, Case(change, "/g++` changed", CODE, call))


ARCHITECTURES = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")
PROGRAMS = {"cudafe": "bin/cudafe++", "cicc": "bin/cicc", "ptxas": "bin/ptxas", "fatbinary": "bin/fatbinary"}
# What a replaced tool does to its output, and which stages then run.
OTHER_OUTPUT = {
    "cudafe": ("--gen_c_file_name", "\nint added;\n", {"cudafe", "host_compile"}),
    "cicc": ("-o", "\n// added\n", {"cicc", "ptxas", "fatbinary", "host_compile"}),
    "ptxas": ("", "-O1", {"ptxas", "fatbinary", "host_compile"}),
    "fatbinary": ("", "-compress-all", {"fatbinary", "host_compile"}),
}


def path_of(own_tools: Path, stage: str) -> Path:
    return own_tools / ("nvvm" if stage == "cicc" else "") / PROGRAMS[stage]


@pytest.fixture
def own_tools(workspace: Workspace, tmp_path: Path) -> Path:
    workspace.write("a.cu", SOURCE)
    return copy_toolkit(workspace, tmp_path / "toolkit")


def test_each_tool_that_is_replaced(workspace: Workspace, own_tools: Path) -> None:
    """By one that does the same: only its own stage runs, since later ones read the same bytes."""
    rebuild(workspace, "-c", "a.cu")
    for stage in PROGRAMS:
        tool = path_of(own_tools, stage)
        real = tool.resolve()
        for number in (1, 2):
            wrap(tool, real, before=f"# {number}")
            assert set(rebuild(workspace, "-c", "a.cu").compiled()) == {stage}
    workspace.forget_calls()
    assert set(rebuild(workspace, "-c", "a.cu").compiled()) == set()


@pytest.mark.by_default("cicc")
@pytest.mark.parametrize("stage", PROGRAMS)
def test_a_tool_that_makes_something_else(workspace: Workspace, own_tools: Path, stage: str) -> None:
    rebuild(workspace, "-c", "a.cu")
    option, added, ran = OTHER_OUTPUT[stage]
    tool = path_of(own_tools, stage)
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


def test_a_toolkit_header_that_the_host_compiler_reads_again(workspace: Workspace, own_tools: Path) -> None:
    rebuild(workspace, "-c", "a.cu", "-Iown")
    probe = "\n#ifndef GUARD_{0}\n#define GUARD_{0}\nint {0};\n#endif\n"
    edit(own_tools / "include/crt/host_runtime.h", probe.format("edited_in_toolkit"))
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


def test_a_header_that_changes_as_it_is_read(workspace: Workspace, own_tools: Path, tmp_path: Path) -> None:
    """An object made from the old header is not stored under the new one."""
    header = own_tools / "include/crt/host_runtime.h"
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


ALL = {"cudafe", "cicc", "ptxas", "fatbinary", "host_compile"}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Workspace:
    """One source, compiled once without options; every test compiles it in its own way."""
    workspace = make_workspace(tmp_path_factory.mktemp("warm"), nvcc)
    workspace.write("a.cu", SOURCE)
    workspace.write("extra/extra.h", "extern int extra;\n")
    workspace.write("options.txt", "-DSTEP=8")
    assert set(rebuild(workspace, "-c", "a.cu").compiled()) == ALL
    workspace.forget_calls()
    assert rebuild(workspace, "-c", "a.cu").ran() == {}
    return workspace


def test_the_mode_matters(warm: Workspace) -> None:
    """-c, -dc and -dw make three kinds of object; -dw and -c differ only where an object is linked."""
    assert set(rebuild(warm, "-dc", "a.cu", "-DSTEP=3").compiled()) == ALL
    assert set(rebuild(warm, "-c", "a.cu", "-DSTEP=3").compiled()) == ALL
    rebuild(warm, "-dw", "a.cu", "-DSTEP=3")
    for options in (["-ptx"], ["-cubin", "-rdc=true"], ["-cubin"]):
        rebuild(warm, *options, "a.cu", "-DSTEP=3", product="a.device")


def test_the_host_compiler_by_option_and_by_environment(warm: Workspace, tmp_path: Path) -> None:
    first, second = tmp_path / "first-g++", tmp_path / "second-g++"
    wrap(first, HOST_COMPILER)
    wrap(second, HOST_COMPILER, options=["-fno-ident"])
    rebuild(warm, "-c", "a.cu", "-ccbin", first)
    assert set(rebuild(warm, "-c", "a.cu", "-ccbin", second).compiled()) == {"host_compile"}
    if not CCBIN and cuda_release(warm) >= (13, 0):
        assert set(rebuild(warm, "-c", "a.cu", NVCC_CCBIN=str(second)).compiled()) == set()


@pytest.mark.skipif(bool(CCBIN), reason="this toolkit takes only the compiler it is given")
def test_the_host_compiler_that_is_first_on_path(warm: Workspace, tmp_path: Path) -> None:
    rebuild(warm, "-c", "a.cu")
    wrap(tmp_path / "gcc", warm.run(["which", "gcc"]).stdout.decode().strip(), options=["-fno-ident"])
    path = f"{tmp_path}:{warm.environ['PATH']}"
    assert set(rebuild(warm, "-c", "a.cu", PATH=path).compiled()) == {"host_compile"}

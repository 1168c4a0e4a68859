"""Changes that a result does not depend on cause no miss, and the product is identical.

One compile fills the cache; every test here repeats it with one thing changed that must not matter.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, copy_toolkit, cuda_release
from workspaces import Counters, Workspace, make_workspace

pytestmark = pytest.mark.light_by_default

ARCHITECTURES = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Workspace:
    """A copy of a toolkit, and a source compiled with it once."""
    top = tmp_path_factory.mktemp("warm")
    workspace = make_workspace(top, nvcc)
    copy_toolkit(workspace, top / "toolkit")
    # As in PyTorch's headers: `once` outside the pragma that compares dates.
    word = '#ifdef NEVER\n#error This adds a dependency\n#endif\nconst char *const unused = "a dependency";\n'
    workspace.write("include/a.h", f"#define UNUSED 1\n{word}")
    workspace.write("a.cu", '#include "a.h"\n' + SOURCE)
    result = workspace.cached(*argv(workspace), "-o", "first.o")
    assert result.status == 0, result.stderr
    return workspace


def argv(workspace: Workspace, *others: str | Path) -> tuple[str | Path, ...]:
    source = workspace.directory / "a.cu"
    include = f"-I{workspace.directory}/include"
    return ("-c", source, include, *ARCHITECTURES, *HOST_OPTIONS, *others)


def check(
    workspace: Workspace,
    *arguments: str | Path,
    product: str | Path = "again.o",
    cwd: Path | None = None,
    outcome: str = "direct_hit",
    preprocesses: bool = False,
    **variables: str,
) -> None:
    """Compile with these arguments; all must come from the cache, by stages too, and be the same.

    `outcome` is `stage_hit` for what makes it another call.
    """
    compiled = arguments or argv(workspace, "-o", product)
    made = (cwd or workspace.directory) / product
    for level, place in ((outcome, workspace), ("stage_hit", without_calls(workspace))):
        result, counters = place.since(lambda place=place: place.cached(*compiled, cwd=cwd, **variables))
        assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
        assert (counters.outcome, counters.compiled()) == (level, {})
        assert preprocesses or counters.ran() == {}
        assert made.read_bytes() == (workspace.directory / "first.o").read_bytes()
        made.unlink()


def ran(workspace: Workspace, *arguments: str | Path, **variables: str) -> Counters:
    """The counters of a compile whose command line differs, but whose object is the same."""
    _, counters = workspace.since(lambda: workspace.cached(*arguments, "-o", "again.o", **variables))
    assert (workspace.directory / "again.o").read_bytes() == (workspace.directory / "first.o").read_bytes()
    return counters


def without_calls(workspace: Workspace) -> Workspace:
    """The same with a cache that has only stages."""
    copy = workspace.cache.with_name("stages")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(workspace.cache, copy)
    stages = dataclasses.replace(workspace, environ={**workspace.environ, "NVCCACHE_DIR": str(copy)})
    stages.forget_calls()
    return stages


def test_the_names_of_what_is_written(warm: Workspace) -> None:
    (warm.directory / "out").mkdir()
    check(warm, product="another name.o")
    check(warm, product=warm.directory / "out" / "absolute.o")
    check(warm, *argv(warm, "-odir", "out"), product="out/a.o", outcome="stage_hit")
    check(warm, *argv(warm), product="a.o", outcome="stage_hit")
    (warm.directory / "other").mkdir()
    check(warm, *argv(warm, "-odir", "other"), product="other/a.o")


def test_the_dependency_file(warm: Workspace) -> None:
    for options, outcome in (
        (["-MD"], "stage_hit"),
        (["-MD", "-MT", "target", "-MP"], "direct_hit"),
        (["-MMD", "-MF", "x.d"], "stage_hit"),
        (["-MMD", "-MF", "y.d"], "direct_hit"),
    ):
        check(warm, *argv(warm, *options, "-o", "again.o"), outcome=outcome)


def test_the_number_of_threads(warm: Workspace) -> None:
    for options in (["-t", "2"], ["--threads=4"], ["-t0"]):
        check(warm, *argv(warm, *options, "-o", "again.o"))


def test_the_working_directory(warm: Workspace, tmp_path: Path) -> None:
    warm.cached(*argv(warm, "-o", "again.o"), cwd=tmp_path)  # unless another test had another directory
    check(warm, cwd=tmp_path)
    warm.cached(*argv(warm, "-o", "again.o"), cwd=tmp_path, PWD=str(tmp_path))
    check(warm, cwd=tmp_path, PWD=str(tmp_path))


def test_temporary_directories(warm: Workspace, tmp_path: Path) -> None:
    for name in ("plain", "with a blank", "with'quotes"):
        (tmp_path / name).mkdir()
        check(warm, TMPDIR=str(tmp_path / name))
        assert not list((tmp_path / name).iterdir())
    warm.cached(*argv(warm, "-o", "again.o"), cwd=tmp_path)
    check(warm, cwd=tmp_path, TMPDIR="plain", preprocesses=True)  # as it does in each new directory


@pytest.mark.parametrize(
    ("variable", "value", "outcome"),
    [
        ("TERM", "xterm-256color", "direct_hit"),
        ("GCC_COLORS", "error=01;31", "direct_hit"),
        ("LIBRARIES", "-L/nowhere", "stage_hit"),
        ("TZ", "Asia/Tokyo", "direct_hit"),
    ],
)
def test_environment(warm: Workspace, variable: str, value: str, outcome: str) -> None:
    check(warm, outcome=outcome, **{variable: value})


def test_where_libraries_are_looked_for_matters_to_the_host_compiler_alone(warm: Workspace) -> None:
    assert set(ran(warm, *argv(warm), LD_LIBRARY_PATH="/nowhere").compiled()) == {"host_compile"}


def test_home(warm: Workspace, tmp_path: Path) -> None:
    check(warm, HOME=str(tmp_path))


def test_path_as_long_as_it_leads_to_the_same_tools(warm: Workspace, tmp_path: Path) -> None:
    check(warm, PATH=f"{tmp_path}:{warm.environ['PATH']}")


def test_dates(warm: Workspace) -> None:
    """Of the source, a header, and of every tool: only content counts."""
    for path in ("a.cu", "include/a.h"):
        os.utime(warm.directory / path)
        check(warm)
    toolkit = Path(warm.nvcc).parents[1]
    for tool in ("bin/cudafe++", "nvvm/bin/cicc", "bin/ptxas", "bin/fatbinary", "bin/nvcc"):
        path = toolkit / tool
        real = path.resolve()
        path.unlink()
        shutil.copyfile(real, path)  # another inode, another date
        path.chmod(0o755)
    check(warm, outcome="stage_hit")  # nvcc is no link any more
    check(warm)


def test_where_the_toolkit_is_matters_to_the_host_compile_alone(warm: Workspace, tmp_path: Path) -> None:
    """Its headers are named in line markers, which cudafe++ and cicc are keyed on."""
    original = warm.nvcc
    try:
        copy_toolkit(warm, tmp_path / "elsewhere")
        assert {"ptxas", "fatbinary"}.isdisjoint(ran(warm, *argv(warm)).ran())
    finally:
        warm.nvcc = original


def test_the_order_of_architectures_matters_to_no_cicc_and_no_ptxas(warm: Workspace) -> None:
    """The container has the images in the order of the options."""
    source, include = warm.directory / "a.cu", f"-I{warm.directory}/include"
    argv = ("-c", source, include, *reversed(ARCHITECTURES), *HOST_OPTIONS, "-o", "again.o")
    _, counters = warm.since(lambda: warm.cached(*argv))
    assert set(counters.compiled()) == {"fatbinary", "host_compile"}


def test_an_architecture_that_is_dropped(warm: Workspace) -> None:
    """The others are not compiled again; only the list of all is seen by every pass."""
    source, include = warm.directory / "a.cu", f"-I{warm.directory}/include"
    dropped = (ARCHITECTURES[1], *HOST_OPTIONS)
    _, counters = warm.since(lambda: warm.cached("-c", source, include, *dropped, "-o", "again.o"))
    assert set(counters.compiled()) <= {"cudafe", "fatbinary", "host_compile"}
    assert "ptxas" in counters.hit() and "cicc" in counters.hit()


def test_definitions_and_directories_that_nothing_uses(warm: Workspace, tmp_path: Path) -> None:
    """The host compile gets the directories, too, so it runs, with the same result."""
    defined = argv(warm, "-DNOBODY_USES_THIS=1", "-UNOR_THIS", "-o", "again.o")
    check(warm, *defined, outcome="stage_hit", preprocesses=True)
    assert set(ran(warm, *argv(warm, f"-I{tmp_path}")).compiled()) == {"host_compile"}


def test_the_directory_of_a_source_matters_to_no_ptxas(warm: Workspace, tmp_path: Path) -> None:
    """Nothing in this source's PTX is named after the module id, which holds the path."""
    copy = tmp_path / "a.cu"
    shutil.copyfile(warm.directory / "a.cu", copy)
    include = f"-I{warm.directory}/include"
    _, counters = warm.since(
        lambda: warm.cached("-c", copy, include, *ARCHITECTURES, *HOST_OPTIONS, "-o", "again.o")
    )
    assert {"ptxas", "fatbinary"}.isdisjoint(counters.ran())


@pytest.mark.smoke("stage hit")
def test_a_host_edit_matters_to_no_ptxas(warm: Workspace) -> None:
    source = warm.directory / "a.cu"
    text = source.read_text()
    source.write_text(text.replace("return STEP", "return STEP + 1"))
    try:
        _, counters = warm.since(lambda: warm.cached(*argv(warm), "-o", "again.o"))
        assert {"ptxas", "fatbinary"}.isdisjoint(counters.ran())
    finally:
        source.write_text(text)
    check(warm)


def test_the_names_of_inputs_matter_to_no_tool_where_intermediates_are_concerned(warm: Workspace) -> None:
    """One architecture has `a.ptx`, two have `a.compute_80.ptx`."""
    if cuda_release(warm) < (11, 5):
        pytest.skip("no list of architectures to compare")
    source, include = warm.directory / "a.cu", f"-I{warm.directory}/include"
    options = ("-cubin", source, include, "-arch=sm_80", *HOST_OPTIONS, "-o", "a.cubin")
    _, counters = warm.since(lambda: warm.cached(*options))
    assert "ptxas" not in counters.ran()

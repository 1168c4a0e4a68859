"""Changes that a result does not depend on cause no miss, and the product is identical.

One compile fills the cache; every test here repeats it with one thing changed that must not matter.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, architectures, copy_toolkit
from workspaces import Workspace, make_workspace

pytestmark = pytest.mark.light_by_default

ARCHITECTURES = architectures(80, 90)


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
    for name in ("out", "other"):
        (workspace.directory / name).mkdir()
    result = workspace.cached(*argv(workspace), "-o", "first.o")
    assert result.status == 0, result.stderr
    return workspace


def argv(workspace: Workspace, *others: str | Path) -> tuple[str | Path, ...]:
    return ("-c", *inputs(workspace), *ARCHITECTURES, *HOST_OPTIONS, *others)


def inputs(workspace: Workspace) -> tuple[Path, str]:
    return workspace.directory / "a.cu", f"-I{workspace.directory}/include"


def check(
    workspace: Workspace,
    *others: str | Path,
    product: str = "again.o",
    outcome: str = "direct_hit",
    preprocesses: bool = False,
    **variables: str,
) -> None:
    """Compile with these further arguments; all must come from the cache, by stages too, and be the same.

    `outcome` is `stage_hit` for what makes it another call.
    """
    named = () if "-odir" in others else ("-o", product)
    made = workspace.directory / product
    for level, place in ((outcome, workspace), ("stage_hit", without_calls(workspace))):
        result, counters = place.since(
            lambda place=place: place.cached(*argv(workspace, *others, *named), **variables)
        )
        assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
        assert (counters.outcome, counters.compiled()) == (level, {})
        assert preprocesses or counters.ran() == {}
        assert made.read_bytes() == (workspace.directory / "first.o").read_bytes()
        made.unlink()


def without_calls(workspace: Workspace) -> Workspace:
    """The same with a cache that has only stages."""
    copy = workspace.cache.with_name("stages")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(workspace.cache, copy)
    stages = dataclasses.replace(workspace, environ={**workspace.environ, "NVCCACHE_DIR": str(copy)})
    stages.forget_calls()
    return stages


def test_output_names_are_in_no_stage_key(warm: Workspace) -> None:
    check(warm, product="another name.o")
    check(warm, "-odir", "out", product="out/a.o", outcome="stage_hit")
    check(warm, "-odir", "other", product="other/a.o")


def test_dependency_file_options_are_in_no_stage_key(warm: Workspace) -> None:
    check(warm, "-MD", outcome="stage_hit")
    check(warm, "-MD", "-MT", "target", "-MP")


def test_the_number_of_threads_is_in_no_key(warm: Workspace) -> None:
    check(warm, "-t", "2")


@pytest.mark.by_default("TERM", "LIBRARIES", "TMPDIR", "PATH")
@pytest.mark.parametrize("variable", ["TERM", "GCC_COLORS", "TZ", "LIBRARIES", "TMPDIR", "HOME", "PATH"])
def test_variables_that_do_not_affect_the_result_are_in_no_key(
    warm: Workspace, tmp_path: Path, variable: str
) -> None:
    """PATH, as long as it leads to the same tools; the others with whatever value."""
    folder = tmp_path / "with'quotes and a blank"
    folder.mkdir()
    value = f"{folder}:{warm.environ['PATH']}" if variable == "PATH" else str(folder)
    check(warm, outcome="stage_hit" if variable == "LIBRARIES" else "direct_hit", **{variable: value})
    assert not list(folder.iterdir())


def test_dates_of_sources_and_tools_are_in_no_key(warm: Workspace) -> None:
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


def test_an_unused_macro_definition_reruns_only_the_preprocessor(warm: Workspace) -> None:
    check(warm, "-DNOBODY_USES_THIS=1", "-UNOR_THIS", outcome="stage_hit", preprocesses=True)


def compiled(workspace: Workspace, *arguments: str | Path, **variables: str) -> set[str]:
    """The stages that run for another command line."""
    line = (*arguments, *HOST_OPTIONS, "-o", "again.o")
    result, counters = workspace.since(lambda: workspace.cached(*line, **variables))
    assert result.status == 0, result.stderr
    return set(counters.compiled())


def test_search_paths_of_the_host_compiler_rerun_only_the_host_compile(
    warm: Workspace, tmp_path: Path
) -> None:
    """Where libraries and headers are looked for; the object is the same."""
    line = ("-c", *inputs(warm), *ARCHITECTURES)
    for options, variables in (((), {"LD_LIBRARY_PATH": "/nowhere"}), ((f"-I{tmp_path}",), {})):
        assert compiled(warm, *line, *options, **variables) == {"host_compile"}
        again, first = ((warm.directory / name).read_bytes() for name in ("again.o", "first.o"))
        assert again == first


def test_the_list_of_architectures_is_in_no_key_of_one_architectures_stages(warm: Workspace) -> None:
    """The container has the images in the order of the options; every pass sees the list of all."""
    line = ("-c", *inputs(warm))
    assert compiled(warm, *line, *reversed(ARCHITECTURES)) == {"fatbinary", "host_compile"}
    assert compiled(warm, *line, ARCHITECTURES[1]) <= {"cudafe", "fatbinary", "host_compile"}
    # One architecture has the intermediate `a.ptx`, two have `a.compute_80.ptx`.
    assert "ptxas" not in compiled(warm, "-cubin", *inputs(warm), "-arch=sm_80")


def test_a_copy_of_a_source_in_another_directory_reruns_no_ptxas(warm: Workspace, tmp_path: Path) -> None:
    """Nothing in this source's PTX is named after the module id, which holds the path."""
    source, include = inputs(warm)
    copy = shutil.copyfile(source, tmp_path / "a.cu")
    assert {"ptxas", "fatbinary"}.isdisjoint(compiled(warm, "-c", copy, include, *ARCHITECTURES))


@pytest.mark.smoke("stage hit")
def test_an_edit_of_host_code_reruns_no_ptxas(warm: Workspace) -> None:
    source, include = inputs(warm)
    text = source.read_text()
    source.write_text(text.replace("return STEP", "return STEP + 1"))
    try:
        ran = compiled(warm, "-c", source, include, *ARCHITECTURES)
        assert {"ptxas", "fatbinary"}.isdisjoint(ran)
    finally:
        source.write_text(text)
    check(warm)

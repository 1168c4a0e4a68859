"""Builds for debuggers and profilers: lines, paths and further files are those of this compile.

Objects with debug information are compared byte by byte with those of plain nvcc, which keeps its
intermediates where nvccache says that they were. One of each kind runs by default, all with --every-case.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made, both_ways, readable
from scenarios.support.toolkits import HOST_OPTIONS, cuda_release
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

HEADER = """#include <stdlib.h>
template <class T> __device__ T scaled(T value) {
  T twice = value * 2;
  return twice + 1;
}
inline int counted(int i) { return i + 1; }
"""
SOURCE = """
#include "h.h"
__global__ void kernel(float *values) { values[threadIdx.x] = scaled(values[threadIdx.x]); }
int launch(float *values) { kernel<<<1, 32>>>(values); return counted(3); }
"""
ABOVE = "// a comment\n\n"
COMPILES = (
    "-G -c",
    "-g -G -c",
    "-lineinfo -c",
    "-G -cubin",
    "-lineinfo -ptx",
    "-Xcompiler -g3 -c",
    "-g -Xcompiler -gz -c",
    "-g -Xcompiler -fdebug-prefix-map={work}=/source -c",
    "-pg -c",
)
BESIDE_OBJECT = ("-g -Xcompiler -gsplit-dwarf", "-Xcompiler --coverage", "-Xcompiler -fstack-usage")
# Lines about the user's sources, without what gcc makes of the time, and without symbols of their files.
_OF_SOURCES = re.compile(rb"^.*(?:\ba\.cu|\bh\.h|launch|kernel)\b.*$", re.MULTILINE)
_NEVER_THE_SAME = re.compile(rb"(?:ident|checksum)=\w+|\b\d+:FUNCTION|\b[0-9a-f]{16}\b|^ *\d+:|FILE .*")


@pytest.fixture
def light(workspace: Workspace) -> Workspace:
    (workspace.directory / "sub").mkdir()
    workspace.write("h.h", HEADER)
    workspace.write("a.cu", SOURCE)
    return workspace


def words_of(light: Workspace, options: str) -> list[str]:
    return [word.replace("{work}", str(light.directory)) for word in options.split()]


@pytest.mark.by_default("-g -G -c")
@pytest.mark.parametrize("options", COMPILES)
def test_debug_info_has_the_lines_and_paths_of_the_current_compile(
    light: Workspace, reference_directory: Path, options: str
) -> None:
    """Cold, by the stages, with lines moved in the source and in the header, and from elsewhere."""
    own = light.directory
    made: list[Made] = []

    def compile_it(source: str = "a.cu", cwd: Path = own) -> str:
        argv = [*words_of(light, options), source, "-o", f"{own}/a.out", "-arch=sm_80"]
        made.append(both_ways(light, *argv, cwd=cwd, keep=reference_directory))
        assert made[-1].status == 0 and made[-1].outcome != "bypass"
        return made[-1].outcome

    assert compile_it() == "miss"
    light.forget_calls()
    assert compile_it() == "stage_hit"
    light.write("a.cu", ABOVE + SOURCE)
    light.write("h.h", ABOVE + HEADER)
    compile_it()
    compile_it("../a.cu", own / "sub")
    light.write("h.h", HEADER)
    compile_it()


@pytest.mark.by_default("-lineinfo -c-{project}")
@pytest.mark.parametrize("base", ["", "{project}"])
@pytest.mark.parametrize("options", ["-g -c", "-lineinfo -c"])
def test_a_moved_project_gets_debug_info_with_its_new_paths(
    light: Workspace, reference_directory: Path, options: str, base: str
) -> None:
    for name in ("one", "two", "one"):
        project = light.directory / name
        (project / "build").mkdir(parents=True, exist_ok=True)
        for file in ("a.cu", "h.h"):
            shutil.copy2(light.directory / file, project / file)
        variables = {"NVCCACHE_BASE_DIR": str(project)} if base else {}
        argv = (*options.split(), "../a.cu", "-o", "a.out", "-arch=sm_80", f"-I{project}")
        files = both_ways(light, *argv, cwd=project / "build", keep=reference_directory, **variables)
        others = {"one", "two"} - {name}
        assert not any(
            os.fsencode(light.directory / other) in files[f"{name}/build/a.out"] for other in others
        )


def test_builds_that_write_further_files_are_left_to_nvcc(light: Workspace) -> None:
    """Which are all there."""
    made = both_ways(light, "-Xcompiler", "-save-temps", "-c", "a.cu", "-o", "a.o", "-arch=sm_80")
    assert made.counters and made.counters.bypass_reasons == {"host_side_output": 1}
    assert len(made.files) > 1


@pytest.mark.by_default("-g -Xcompiler -gsplit-dwarf")
@pytest.mark.parametrize("options", BESIDE_OBJECT)
def test_files_beside_the_object_are_those_of_this_compile(light: Workspace, options: str) -> None:
    """Those with unknown names are written each time; results of device code are cached."""
    (light.directory / "out").mkdir()
    argv = (*options.split(), "-c", "a.cu", "-o", "out/a.b.o", "-arch=sm_80")
    for text in (SOURCE, ABOVE + SOURCE):
        light.write("a.cu", text)
        before = set(light.directory.rglob("*"))
        result, counters = light.since(lambda: light.cached(*argv, *HOST_OPTIONS))
        output, made = result, _take_readable(light, before)
        assert counters.outcome in ("miss", "stage_hit", "partial_hit", "direct_hit")
        plain = light.plain(*argv, *HOST_OPTIONS)
        assert (output.status, readable(output.stderr, Path("/"))) == (
            plain.status,
            readable(plain.stderr, Path("/")),
        )
        assert made == _take_readable(light, before)
        assert len(made) > 1
    assert counters.ran().get("ptxas", 0) == 0


def _take_readable(light: Workspace, before: set[Path]) -> dict[str, bytes]:
    """The reproducible content of new files, which are then removed."""
    found = {}
    for path in sorted(set(light.directory.rglob("*")) - before):
        dump = ["readelf", "-sW", "--debug-dump=decodedline"]
        if path.suffix == ".gcno":
            dump = ["gcov-dump", "-l"]
        elif path.suffix == ".su":
            dump = ["cat"]
        if not shutil.which(dump[0]):
            pytest.skip(f"there is no {dump[0]}")
        output = light.run([*dump, path], cwd=path.parent).stdout
        found[str(path)] = _NEVER_THE_SAME.sub(b"#", b"\n".join(_OF_SOURCES.findall(output)))
        path.unlink()
    return found


def test_a_changed_date_of_a_source_that_ptx_names_is_noticed(light: Workspace) -> None:
    """Up to 13.2 ptxas looks at the files that `.file` names, which nothing else reads."""
    assert light.plain("-lineinfo", "-ptx", "a.cu", "-o", "k.ptx", "-arch=sm_80").status == 0
    made = []
    for date in (1_000_000_000, 1_000_000_000, 1_100_000_000, 1_100_000_000):
        os.utime(light.directory / "a.cu", (date, date))
        files = both_ways(light, "-cubin", "k.ptx", "-o", "k.out", "-arch=sm_80")
        made.append(files["k.out"])
    assert made[0] == made[1] and made[2] == made[3]
    assert (made[1] != made[2]) == (cuda_release(light) <= (13, 2))

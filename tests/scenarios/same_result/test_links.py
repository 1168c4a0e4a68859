"""Objects that plain nvcc can link with each other can be linked when they come from the cache.

The hard cases are units whose device code has no external definition: nvcc distinguishes their
internal entities by a process id, so stored results must be distinguished by something else. The objects are
linked when all are cold, all from records of calls, all from stages, and half from the cache.

    NVCCACHE_TEST_NVCC=/path/to/nvcc pytest tests/scenarios/same_result/test_links.py    another toolkit
    NVCCACHE_TEST_CCBIN=/path/to/g++                                         and host compiler
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from scenarios.support.toolkits import HOST_OPTIONS, cuda_release, toolkit_of
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

MODES = [("-c",), ("-dc",)]
# Nothing here has external linkage, in device code or in host code.
INTERNAL = """
#ifndef VALUE
#define VALUE 1
#endif
namespace {
__device__ int counter = VALUE;
__global__ void kernel(int *out) { *out = counter + VALUE; }
template <typename T> __global__ void typed(T *out) { *out = T(counter); }
struct AtStart {
  AtStart() {
    kernel<<<1, 1>>>((int *)0);
    typed<int><<<1, 1>>>((int *)0);
    typed<float><<<1, 1>>>((float *)0);
  }
} at_start;
}
"""
MAIN = "int main() { return 0; }\n"
STATES = ("cold", "warm", "stages", "half")


def compile_cached(
    workspace: Workspace, *argv: str | Path, cwd: Path | None = None, **variables: str
) -> None:
    result = workspace.cached(*argv, *HOST_OPTIONS, cwd=cwd, **variables)
    assert result.status == 0, result.stderr
    assert b"multiple" not in result.stderr


def prepare(workspace: Workspace, state: str) -> bool:
    """Bring the cache into a state; whether half of the objects are to be made before all are."""
    if state == "stages":
        workspace.forget_calls()
    elif state == "half":
        shutil.rmtree(workspace.cache)
    return state == "half"


def check_hits(workspace: Workspace, *argv: str) -> None:
    """By the record of the call, and by all stages without it."""
    for outcome in ("direct_hit", "stage_hit"):
        _, counters = workspace.since(lambda: workspace.cached(*argv, *HOST_OPTIONS))
        assert counters.outcome == outcome
        workspace.forget_calls()


def link(workspace: Workspace, objects: Sequence[str], mode: Sequence[str]) -> None:
    """Device link and executable; then each object's kernels must be in there and be registered."""
    workspace.write("main.cpp", MAIN)
    toolkit = toolkit_of(workspace)
    libraries = [f"-L{toolkit}/{name}" for name in ("lib64", "lib")]
    options = [*HOST_OPTIONS, "-cudart=shared", *libraries]
    if not any(
        (toolkit / name).glob("libcudart.so*") for name in ("lib64", "lib", "targets/x86_64-linux/lib")
    ):
        pytest.skip(f"no libcudart in {toolkit}")
    if mode != ("-c",):
        result = workspace.plain("-dlink", *objects, "-o", "dlink.o", *options)
        assert result.status == 0, result.stderr
    result = workspace.plain("main.cpp", *objects, "-o", "program", *options)
    assert result.status == 0, result.stderr
    names = [identities(workspace, name) for name in objects]
    assert all(names)
    for one in range(len(names)):
        for other in range(one):
            assert names[one].isdisjoint(names[other]), "two objects call their kernels the same"


def identities(workspace: Workspace, name: str) -> set[str]:
    """The module ids that an object's symbols and its device code hold."""
    text = (workspace.directory / name).read_bytes()
    registered = set(
        re.findall(rb"__device_stub__ZN\d+_GLOBAL__N__([0-9a-f]{8}_\w+?)(?:6kernel|5typed)", text)
    )
    registered |= set(re.findall(rb"__fatbinwrap__([0-9a-f]{8}_\w+)", text))
    registered |= set(re.findall(rb"_GLOBAL__N__([0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}(?:_\d+)?)[1-9]", text))
    return {found.decode() for found in registered}


# The directory, the source and the object of each of two compiles.
PAIRS = {
    "two files": ((".", "one.cu", "one.o"), (".", "two.cu", "two.o")),
    "one file to two outputs": ((".", "a.cu", "first.o"), (".", "a.cu", "second.o")),
    # As a recursive make does it: the same words, in two working directories.
    "one name in two directories": (("one", "a.cu", "a.o"), ("two", "a.cu", "a.o")),
    "one file from two directories": (("one", "../a.cu", "a.o"), ("two", "../a.cu", "a.o")),
}


@pytest.mark.by_default(*(f"-dc-{pair}" for pair in PAIRS))
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("mode", [*MODES, ("-rdc=true", "-c", "-lineinfo")], ids=" ".join)
def test_two_objects(workspace: Workspace, mode: tuple[str, ...], pair: str) -> None:
    def compile_one(directory: str, source: str, made: str) -> None:
        compile_cached(workspace, *mode, source, "-o", made, cwd=workspace.directory / directory)

    for directory, source, _ in PAIRS[pair]:
        workspace.write(f"{directory}/{source}", INTERNAL)
    for state in STATES:
        if prepare(workspace, state):
            compile_one(*PAIRS[pair][1])
        for one in PAIRS[pair]:
            compile_one(*one)
        link(workspace, [f"{directory}/{made}" for directory, _, made in PAIRS[pair]], mode)


@pytest.mark.by_default("-dc")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_one_file_in_two_configurations_moved_away_from_one_output(
    workspace: Workspace, mode: tuple[str, ...]
) -> None:
    """By macros, by an included file, and by what an include directory holds, of the environment's, too.

    Two of the same text would have the same id (module_id.py).
    """
    used = "static const int values[] __attribute__((used)) = {CONFIG, SETTING + 0};\n"
    workspace.write("a.cu", "#include <config.h>\n" + used + INTERNAL)
    for number in (1, 2):
        workspace.write(f"config{number}/config.h", f"#define CONFIG {number}\n")
        workspace.write(f"forced{number}.h", f"static const int forced = {number};\n")
    configurations: list[tuple[str, ...]] = [
        ("-Iconfig1", "-DSETTING"),
        ("-Iconfig2", "-DSETTING"),
        ("-Iconfig1", "-DSETTING=2"),
        ("-Iconfig1", "-DSETTING", "-include", "forced1.h"),
        ("-Iconfig1", "-DSETTING", "-include", "forced2.h"),
    ]
    environments: list[dict[str, str]] = [{}] * len(configurations)
    for name in ("CPATH", "CPLUS_INCLUDE_PATH"):
        for number in (1, 2):
            configurations.append((f"-DSETTING={len(name)}",))
            environments.append({name: f"config{number}"})
    for state in STATES[:-1]:
        prepare(workspace, state)
        objects = []
        for number, (options, variables) in enumerate(zip(configurations, environments, strict=True)):
            compile_cached(workspace, *mode, "a.cu", *options, "-o", "a.o", **variables)
            objects.append(f"{state}-{number}.o")
            (workspace.directory / "a.o").rename(workspace.directory / objects[-1])
        link(workspace, objects, mode)


# What may change between two compiles to one name: the text of a file, or options.
EDITS = {
    "host code": ("a.cu", "static int unused_by_any() { return 1; }\n"),
    "device code": ("a.cu", "#ifdef __CUDA_ARCH__\nstatic __device__ int more() { return 1; }\n#endif\n"),
    "an included header": ("own.h", "static const int other = 2;\n"),
    "a header of one architecture": ("own.h", "#if __CUDA_ARCH__ == 900\nstruct Newer {};\n#endif\n"),
}
OPTIONS = {
    "the standard": ["-std=c++20"],
    "an option of ptxas": ["-maxrregcount=32"],
    "an option of cicc": ["-use_fast_math"],
    "an option of the host compiler": ["-Xcompiler=-O3"],
    "a macro": ["-DVALUE=7"],
    "the architectures": ["-gencode=arch=compute_100,code=sm_100"],
}
# What leaves the text of the first pass as it is: both objects have one id, and cannot be linked together.
SAME_ID = (
    *("device code", "a header of one architecture"),
    *("an option of ptxas", "an option of cicc", "the architectures"),
)


@pytest.mark.by_default("an included header--dc", "the standard--c")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
@pytest.mark.parametrize("change", [*EDITS, *OPTIONS])
def test_one_file_changed_and_compiled_to_the_same_name(
    workspace: Workspace, request: pytest.FixtureRequest, mode: tuple[str, ...], change: str
) -> None:
    """The first object is moved away; below a base directory, where an id may be relative."""
    if change in SAME_ID:
        request.applymarker(pytest.mark.xfail(strict=True, reason="see how-it-works.md, Module ids"))
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory.parent)
    name, more = EDITS.get(change, ("", ""))
    both = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"]
    texts = {"a.cu": '#include "own.h"\n' + INTERNAL, "own.h": ""}
    for state in STATES[:-1]:
        prepare(workspace, state)
        for number in (1, 2):
            for file, text in texts.items():
                workspace.write(file, text + (more if file == name and number == 2 else ""))
            options = OPTIONS.get(change, []) if number == 2 else []
            compile_cached(workspace, *mode, "a.cu", "-o", "a.o", *both, *options)
            (workspace.directory / "a.o").rename(workspace.directory / f"{number}.o")
        link(workspace, ["1.o", "2.o"], mode)


@pytest.mark.by_default("-c")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_one_more_architecture(workspace: Workspace, mode: tuple[str, ...]) -> None:
    """The stub registers names that all architectures' code must have, though one was cached before."""
    workspace.write("a.cu", INTERNAL)
    old = ("-gencode=arch=compute_80,code=sm_80",)
    both = (*old, "-gencode=arch=compute_90,code=sm_90")
    for options in (old, both):
        compile_cached(workspace, *mode, "a.cu", "-o", "a.o", *options)
    assert len(identities(workspace, "a.o")) == 1
    compile_cached(workspace, *mode, "a.cu", "-o", "b.o", *both)
    link(workspace, ["a.o", "b.o"], mode)


@pytest.mark.by_default("-dc")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_stub_and_device_code_agree(workspace: Workspace, mode: tuple[str, ...]) -> None:
    """What the host registers is what the device code holds, cold and warm."""
    workspace.write("a.cu", INTERNAL)
    for state in STATES[:-1]:
        prepare(workspace, state)
        compile_cached(workspace, *mode, "a.cu", "-o", "a.o")
        text = (workspace.directory / "a.o").read_bytes()
        found = set(re.findall(rb"_GLOBAL__N__([0-9a-f]{8}_4_a_cu_[0-9a-f]{8}(?:_\d+)?)(?=6kernel)", text))
        assert len(found) == 1, found


def test_whole_and_relocatable_objects_share_nothing_that_differs(workspace: Workspace) -> None:
    """In one cache, in both orders: each is the same as when compiled alone."""
    workspace.write("a.cu", "__device__ int twice(int x) { return 2 * x; }\n" + INTERNAL)
    alone = {}
    for mode in ("-c", "-dc"):
        shutil.rmtree(workspace.cache, ignore_errors=True)
        compile_cached(workspace, mode, "a.cu", "-o", "a.o")
        alone[mode] = (workspace.directory / "a.o").read_bytes()
    assert alone["-c"] != alone["-dc"]
    for mode in ("-c", "-dc", "-c"):
        compile_cached(workspace, mode, "a.cu", "-o", "a.o")
        assert (workspace.directory / "a.o").read_bytes() == alone[mode]


@pytest.mark.by_default("-dc")
@pytest.mark.parametrize("mode", [*MODES, ("-ptx",), ("-cubin",)], ids=" ".join)
def test_a_unit_without_external_definition_is_the_same_on_every_run(
    workspace: Workspace, mode: tuple[str, ...]
) -> None:
    if mode == ("-ptx",) and cuda_release(workspace) < (13, 0):
        pytest.skip("before CUDA 13, PTX made alone is named after a process, and is not cached")
    workspace.write("a.cu", INTERNAL)
    products = set()
    for _ in range(2):
        shutil.rmtree(workspace.cache, ignore_errors=True)
        compile_cached(workspace, *mode, "a.cu", "-o", "a.o")
        products.add((workspace.directory / "a.o").read_bytes())
    check_hits(workspace, *mode, "a.cu", "-o", "a.o")
    assert len(products | {(workspace.directory / "a.o").read_bytes()}) == 1

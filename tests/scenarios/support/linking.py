"""Objects with device code that calls across them, and programs of them, made both ways."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from scenarios.support.toolkits import HOST_OPTIONS, toolkit_of
from scenarios.support.written_ids import compile_with_ids
from workspaces import Counters, Workspace

CALLER = "extern __device__ int f(int);\n__global__ void kernel(int *x) { x[0] = f(x[1]); }\n"
CALLED = "__device__ int f(int x) { return @FACTOR@ * x; }\nint host() { return @HOST@; }\n"
MAIN = "extern __global__ void kernel(int *);\nint main() { kernel<<<1, 1>>>(nullptr); }\n"
ONE = ("-arch=sm_80",)
TWO = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90")
LTO = ("-dlto", "-arch=sm_80")
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

_objects: dict[tuple[object, ...], bytes] = {}


def called(factor: int = 2, host: int = 1) -> str:
    return CALLED.replace("@FACTOR@", str(factor)).replace("@HOST@", str(host))


def make_objects(place: Workspace, options: tuple[str, ...], names: tuple[str, ...] = ("one", "two")) -> None:
    """By plain nvcc, once for each text: no link depends on what an object has of its path or date."""
    for name in names:
        made = place.directory / f"{name}.o"
        state = (place.nvcc, options, name, (place.directory / f"{name}.cu").read_text())
        if state not in _objects:
            result = place.plain("-dc", *options, f"{name}.cu", "-o", made.name, *HOST_OPTIONS)
            assert result.status == 0, result.stderr
            _objects[state] = made.read_bytes()
        made.write_bytes(_objects[state])


def skip_without_lto(place: Workspace) -> None:
    make_objects(place, LTO)
    result = place.plain("-dlink", *LTO, "one.o", "two.o", *HOST_OPTIONS, "-o", "probe.o")
    if result.status:
        pytest.skip("this toolkit cannot link with -dlto")


def run_program(place: Workspace, argv: tuple[str, ...]) -> Counters:
    """Link a program both ways; they hold the same device code."""
    result, counters = place.since(lambda: place.cached(*argv, *HOST_OPTIONS, "-o", "ours"))
    assert result.status == 0, result.stderr
    plain = place.plain(*argv, *HOST_OPTIONS, "-o", "plain")
    assert (result.status, result.stdout, result.stderr) == (plain.status, plain.stdout, plain.stderr)
    keep = place.directory.parent / "link"
    keep.mkdir(exist_ok=True)
    compile_with_ids(place, [*argv, *HOST_OPTIONS, "-o", "plain"], keep, None, {})  # if it compiles
    images = [device_sections(place.directory / name) for name in ("ours", "plain")]
    assert images[0] == images[1] != b""
    return counters


def device_sections(program: Path) -> bytes:
    found = b""
    for section in (".nv_fatbin", "__nv_relfatbin", "__nv_module_id"):
        dumped = program.with_name(program.name + section)
        command = ["objcopy", "-O", "binary", "--only-section", section, str(program), str(dumped)]
        subprocess.run(command, check=True)
        found += dumped.read_bytes()
    return found


def where_libraries_are(place: Workspace) -> tuple[str, ...]:
    """13.0's profile does not say where wheels put libcudart_static.a."""
    toolkit = toolkit_of(place)
    return (f"-L{toolkit}/lib",) if (toolkit / "lib" / "libcudart_static.a").exists() else ("-cudart=shared",)


def compile_cached(
    workspace: Workspace, *argv: str | Path, cwd: Path | None = None, **variables: str
) -> None:
    result = workspace.cached(*argv, *HOST_OPTIONS, cwd=cwd, **variables)
    assert result.status == 0, result.stderr
    assert b"multiple" not in result.stderr


def link(workspace: Workspace, objects: Sequence[str], mode: Sequence[str]) -> None:
    """Device link and executable; then each object's kernels must be in there and be registered."""
    workspace.write("main.cpp", "int main() { return 0; }\n")
    toolkit = toolkit_of(workspace)
    options = [*HOST_OPTIONS, *where_libraries_are(workspace)]
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
    assert {len(ids) for ids in names} == {1}, "the host registers other kernels than the device code has"
    assert len(set.union(*names)) == len(objects), "two objects call their kernels the same"


def identities(workspace: Workspace, name: str) -> set[str]:
    """The module ids that an object's symbols and its device code hold."""
    text = (workspace.directory / name).read_bytes()
    registered = set(
        re.findall(rb"__device_stub__ZN\d+_GLOBAL__N__([0-9a-f]{8}_\w+?)(?:6kernel|5typed)", text)
    )
    registered |= set(re.findall(rb"__fatbinwrap__([0-9a-f]{8}_\w+)", text))
    registered |= set(re.findall(rb"_GLOBAL__N__([0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}(?:_\d+)?)[1-9]", text))
    return {found.decode() for found in registered}

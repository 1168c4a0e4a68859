"""Objects with device code that calls across them, and programs of them, made both ways."""

from __future__ import annotations

import subprocess
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


def called(factor: int = 2, host: int = 1) -> str:
    return CALLED.replace("@FACTOR@", str(factor)).replace("@HOST@", str(host))


def make_objects(place: Workspace, options: tuple[str, ...], names: tuple[str, ...] = ("one", "two")) -> None:
    for name in names:
        result = place.plain("-dc", *options, f"{name}.cu", "-o", f"{name}.o", *HOST_OPTIONS)
        assert result.status == 0, result.stderr


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

"""cicc, ptxas and nvlink fold device mathematics through the host's libm: it and the processor are inputs.

Each case compiles, changes what the tools compute with, compiles again, and goes back: every object is plain
nvcc's of that moment, whether calls are answered from their records or stages from the store.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from scenarios.support.both_ways import by_cache, rebuild
from scenarios.support.cases import OLD_ENOUGH
from workspaces import Workspace, make_workspace

# Arguments for which glibc's variants with and without FMA (2.28 to 2.42) give another last bit.
FOLDED = """\
extern "C" __device__ __device_builtin__ double sin(double);
extern "C" __device__ __device_builtin__ double exp(double);
extern "C" __device__ __device_builtin__ double pow(double, double);
__global__ void kernel(double *x) {
  x[0] = sin(13.148656845092773);
  x[1] = exp(12.428836822509766);
  x[2] = pow(0.9825279116630554, 1.37);
}
"""
LIKE_AN_OLDER_PROCESSOR = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"}
# fatbinary and the host compiler only pass on what is new; neither would run for the same cubin.
AFFECTED = {"cicc", "ptxas", "fatbinary", "host_compile"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Workspace:
    """A source, compiled unchanged; tests only add to the cache."""
    workspace = make_workspace(tmp_path_factory.mktemp("machine"), nvcc)
    workspace.write("a.cu", FOLDED)
    time.sleep(OLD_ENOUGH)
    same_as_plain(workspace, "-c a.cu")
    return workspace


def same_as_plain(workspace: Workspace, argv: str, **variables: str) -> tuple[bytes, str, set[str]]:
    """Compile by nvcc and through the cache, with the same object; the outcome, and the stages that ran."""
    made = rebuild(workspace, "-arch=sm_80", *argv.split(), product="made", **variables)
    return made["made"], made.outcome, set(made.compiled())


def again(workspace: Workspace, argv: str, **variables: str) -> tuple[bytes, str, set[str]]:
    """The same, by the cache alone."""
    made = by_cache(workspace, "-arch=sm_80", *argv.split(), "-o", "made", **variables)
    assert made.status == 0, made.stderr.decode()
    return made["made"], made.outcome, set(made.compiled())


def own_libm(directory: Path, tail: bytes = b"") -> Path:
    """A copy of libm, which differs only in parts that are never loaded."""
    import ctypes.util

    directory.mkdir(exist_ok=True)
    found = next(line for line in Path("/proc/self/maps").read_text().splitlines() if "/libc" in line)
    original = Path(found.split()[-1]).with_name(str(ctypes.util.find_library("m")))
    copy = directory / "libm.so.6"
    shutil.copyfile(original, copy)
    with copy.open("ab") as stream:
        stream.write(tail)
    time.sleep(OLD_ENOUGH)
    return copy


def test_another_processor_reruns_only_the_tools_that_compute_with_libm(built: Workspace) -> None:
    """At both levels, changed and restored."""
    plain, outcome, _ = again(built, "-c a.cu")
    assert outcome == "direct_hit"
    older, outcome, ran = same_as_plain(built, "-c a.cu", **LIKE_AN_OLDER_PROCESSOR)
    if older == plain:
        pytest.skip("this processor has none of what is switched off")
    assert outcome == "partial_hit"
    assert ran == AFFECTED, "cudafe++ has nothing to do with it, nor has the host's preprocessor"
    assert "the environment variable `GLIBC_TUNABLES` was set" in built.explain("made")
    both = (({}, plain), (LIKE_AN_OLDER_PROCESSOR, older))
    for variables, expected in both:
        assert again(built, "-c a.cu", **variables)[:2] == (expected, "direct_hit")
    for variables, expected in both:
        built.forget_calls()
        assert again(built, "-c a.cu", **variables) == (expected, "stage_hit", set())


def test_another_libm_reruns_only_the_tools_that_compute_with_it(built: Workspace) -> None:
    """Even if it computes the same. The library search path is a variable that the host compiler reads."""
    plain, _, _ = again(built, "-c a.cu")
    directory = built.directory / "libraries"
    searched = {"LD_LIBRARY_PATH": str(directory)}
    affected = {"cicc", "ptxas", "host_compile"}
    own_libm(directory)
    found = again(built, "-c a.cu", **searched)
    assert found[::2] == (plain, affected | {"cudafe", "fatbinary"}), "the directory is in all their keys"
    copy = own_libm(directory, b"another")
    assert same_as_plain(built, "-c a.cu", **searched)[::2] == (plain, affected)
    assert f"the library `{copy.relative_to(built.directory)}` changed" in built.explain("made")

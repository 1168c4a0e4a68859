"""A small project for misses.py to build repeatedly, of units whose objects tend to vary."""

from __future__ import annotations

from dataclasses import dataclass

_TWO = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[compute_90,sm_90]")
_ONE = ("-gencode", "arch=compute_80,code=sm_80")

_KERNEL = """\
__global__ void add(float *to, const float *from, int count) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count)
    to[index] += from[index];
}

void launch(float *to, const float *from, int count) { add<<<count / 64 + 1, 64>>>(to, from, count); }
"""
_RELOCATABLE = """\
extern __device__ float weight(int index);
__device__ float total;

__global__ void weigh(float *values) { values[threadIdx.x] *= weight(threadIdx.x) + total; }
"""
_INTERNAL = """\
namespace {
__constant__ int factor = 3;
__device__ int last;

template <int Step>
__global__ void scale(int *values) {
  last = values[threadIdx.x * Step] *= factor;
}

struct Launcher {
  Launcher() { scale<2><<<1, 32>>>(nullptr); }
};
Launcher launcher;
}  // namespace
"""


@dataclass(frozen=True)
class Member:
    """A unit of the project; without an external definition nvcc's own object differs from run to run."""

    name: str
    text: str
    argv: tuple[str, ...]
    has_external_definition: bool = True


MEMBERS = (
    Member("plain", _KERNEL, (*_ONE, "-c")),
    Member("two_architectures", _KERNEL, (*_TWO, "-c")),
    Member("line_info", _KERNEL, (*_ONE, "-lineinfo", "-c")),
    Member("relocatable", _RELOCATABLE, (*_TWO, "-dc")),
    Member("internal", _INTERNAL, (*_TWO, "-c"), False),
    Member("internal_relocatable", _INTERNAL, (*_ONE, "-dc"), False),
)

"""The units that misses.py compiles: their texts and edits.

    a   small templates, almost no headers: the time is spent in cicc and ptxas
    b   Thrust and CUB: about 1600 headers, and names that contain the list of architectures
    c   a GEMM of CUTLASS, with headers from the wheel
    s   a kernel and `main`: the time is mostly nvcc's and nvccache's own work

Every unit has an external definition: without one, nvcc's own objects differ from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_GEMM = """\
// Tiled products of matrices, unrolled for 36 shapes.
@COMMENTS@
template <int Rows, int Columns, int Depth>
__device__ void load(const float *from, float *to, int stride) {
#pragma unroll
  for (int index = threadIdx.x; index < Rows * Depth; index += Columns)
    to[index] = from[index / Depth * stride + index % Depth];
}

template <int Rows, int Columns, int Depth>
__global__ void product(const float *left, const float *right, float *result, int size) {
  __shared__ float lefts[Rows * Depth];
  __shared__ float rights[Columns * Depth];
  float sums[Rows][Columns / 4] = {};
  int own = threadIdx.x % 4;
  for (int depth = 0; depth < size; depth += Depth) {
    load<Rows, Columns, Depth>(left + depth, lefts, size);
    load<Columns, Columns, Depth>(right + depth, rights, size);
    __syncthreads();
#pragma unroll
    for (int row = 0; row < Rows; ++row)
#pragma unroll
      for (int column = 0; column < Columns / 4; ++column)
#pragma unroll
        for (int step = 0; step < Depth; ++step)
          sums[row][column] += lefts[row * Depth + step] * rights[(column * 4 + own) * Depth + step];
    __syncthreads();
  }
#pragma unroll
  for (int row = 0; row < Rows; ++row)
#pragma unroll
    for (int column = 0; column < Columns / 4; ++column)
      result[(blockIdx.x * Rows + row) * size + column * 4 + own] = sums[row][column];
}

template <int Rows, int Columns, int Depth>
void launch(const float *left, const float *right, float *result, int size) {
  product<Rows, Columns, Depth><<<size / Rows, Columns>>>(left, right, result, size);
}

template <int Rows, int Columns>
void launch_depths(const float *left, const float *right, float *result, int size) {
  launch<Rows, Columns, 2>(left, right, result, size);
  launch<Rows, Columns, 4>(left, right, result, size);
  launch<Rows, Columns, 6>(left, right, result, size);
  launch<Rows, Columns, 8>(left, right, result, size);
}

template <int Rows>
void launch_columns(const float *left, const float *right, float *result, int size) {
  launch_depths<Rows, 8>(left, right, result, size);
  launch_depths<Rows, 16>(left, right, result, size);
  launch_depths<Rows, 32>(left, right, result, size);
}

void launch_all(const float *left, const float *right, float *result, int size) {
  launch_columns<4>(left, right, result, size);
  launch_columns<6>(left, right, result, size);
  launch_columns<8>(left, right, result, size);
}
"""
_THRUST = """\
#include <cub/device/device_scan.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
@COMMENTS@
__global__ void scale(int *values, int factor) { values[threadIdx.x] *= factor; }

int sort_and_scan(thrust::device_vector<int> &values, thrust::device_vector<int> &sums) {
  int *from = values.data().get(), *to = sums.data().get(), count = values.size();
  std::size_t bytes = 0;
  cub::DeviceScan::InclusiveSum(nullptr, bytes, from, to, count);
  thrust::device_vector<char> scratch(bytes);
  cub::DeviceScan::InclusiveSum(scratch.data().get(), bytes, from, to, count);
  scale<<<1, 32>>>(to, 3);
  thrust::sort(values.begin(), values.end());
  return thrust::reduce(values.begin(), values.end());
}
"""
_CUTLASS = """\
#include <cutlass/gemm/device/gemm.h>
@COMMENTS@
using cutlass::half_t;
using cutlass::gemm::GemmShape;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Gemm = cutlass::gemm::device::Gemm<
    half_t, Row, half_t, Column, float, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    GemmShape<128, 128, 32>, GemmShape<64, 64, 32>, GemmShape<16, 8, 16>>;

cutlass::Status multiply(const half_t *left, const half_t *right, float *result, int size) {
  Gemm gemm;
  return gemm({{size, size, size}, {left, size}, {right, size}, {result, size}, {result, size}, {1, 0}});
}
"""
_SMALL = """\
#include <cstdio>
@COMMENTS@
__global__ void kernel(int *p) { *p = 1; }

int main() {
  kernel<<<1, 1>>>(nullptr);
  return std::puts("done") < 0;
}
"""
# The end of every unit: code for the edits, and device code that makes copies differ.
_ENDING = """\

__global__ void mark(int *copy) { *copy = @COPY@; }

#ifndef __CUDA_ARCH__
int host_only() { return @HOST_ONLY@; }
#endif

int host_body(int value) { return value + @HOST_BODY@; }
"""


@dataclass(frozen=True)
class Unit:
    """A translation unit: its letter, description, text with placeholders for edits, and arguments."""

    letter: str
    title: str
    template: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Version:
    """A state of a unit's text: lines of comment above the kernels, and what the functions return."""

    comments: int = 0
    host_only: int = 0
    host_body: int = 0
    copy: int = 0


def units(cutlass: Path | None) -> dict[str, Unit]:
    """All units by letter; that of CUTLASS only if its headers are available."""
    present = [
        Unit("a", "36 templates of our own", _GEMM),
        Unit("b", "Thrust and CUB", _THRUST, ("-std=c++17",)),
        Unit("s", "a small one", _SMALL),
    ]
    if cutlass:
        arguments = ("-std=c++17", "--expt-relaxed-constexpr", f"-I{cutlass}")
        present.append(Unit("c", "a GEMM of CUTLASS", _CUTLASS, arguments))
    return {unit.letter: unit for unit in present}


def text_of(unit: Unit, version: Version) -> str:
    comments = "".join(f"// Remark {number}.\n" for number in range(version.comments))
    text = unit.template.replace("@COMMENTS@\n", comments) + _ENDING
    text = text.replace("@COPY@", str(version.copy))
    text = text.replace("@HOST_ONLY@", str(version.host_only))
    return text.replace("@HOST_BODY@", str(version.host_body))

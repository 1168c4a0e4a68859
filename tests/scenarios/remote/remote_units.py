"""A source and a toolkit shared by machines, and the comparison with plain nvcc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scenarios.remote.machines import Machine, machine
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import architectures
from workspaces import Counters

HEADER = "#define STEP 1\n"
SOURCE = """\
// What a step is.
#include "step.h"
__global__ void kernel(float *values) { values[threadIdx.x] = values[threadIdx.x] * 2.5f + STEP; }
int launch(float *values) { kernel<<<1, 32>>>(values); return STEP; }
"""
TWO = architectures(80, 90)
LINE = ("-c", "a.cu", "-Iinclude", "-o", "a.o")
NewMachine = Callable[..., Machine]


def with_sources(directory: Path, nvcc: str, url: str, **variables: str) -> Machine:
    made = machine(directory, nvcc, url, **variables)
    made.write("a.cu", SOURCE)
    made.write("include/step.h", HEADER)
    return made


def compile_like_plain(on: Machine, *options: str) -> Counters:
    """Compile as plain nvcc does there, and send what is queued."""
    counters = both_ways(on, *LINE, *options).counters
    on.deliver()
    return counters

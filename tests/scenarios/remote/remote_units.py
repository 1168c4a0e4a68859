"""A source that machines share, the toolkit they have, and how it is compared with plain nvcc's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.remote.machines import Machine, machine
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import architectures
from support import fault_server
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


@pytest.fixture
def new_machine(tmp_path: Path, light_nvcc: str) -> NewMachine:
    """Makes a machine with the sources checked out."""

    def make(name: str, url: str, **variables: str) -> Machine:
        return with_sources(tmp_path / name, light_nvcc, url, **variables)

    return make


@pytest.fixture
def files() -> Iterator[fault_server.Store]:
    """A server in the test's own process."""
    with fault_server.store() as made:
        yield made


@pytest.fixture(scope="module")
def filled(light_nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a server when a machine has compiled the source for one architecture and for two."""
    with fault_server.store() as store:
        one = with_sources(tmp_path_factory.mktemp("filled") / "one", light_nvcc, f"{store.url()},rw")
        for options in ((), TWO):
            assert one.cached(*LINE, *options).status == 0
            one.deliver()
        return dict(store.files)


def with_sources(directory: Path, nvcc: str, url: str, **variables: str) -> Machine:
    made = machine(directory, nvcc, url, **variables)
    made.write("a.cu", SOURCE)
    made.write("include/step.h", HEADER)
    return made


def compile_like_plain(on: Machine, *options: str) -> Counters:
    """What comes out is what plain nvcc makes there; what was to be sent is sent then."""
    counters = both_ways(on, *LINE, *options).counters
    on.deliver()
    return counters

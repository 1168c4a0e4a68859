"""Machines, and what a server has of one that has compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scenarios.remote.machines import LINE, ONE, TWO, Machine, NewMachine, machine
from scenarios.support.both_ways import both_ways
from support import fault_server


@pytest.fixture
def new_machine(tmp_path: Path, light_nvcc: str) -> Iterator[NewMachine]:
    """Makes a machine with the sources checked out; its outages end with the test."""
    made: list[Machine] = []

    def make(name: str, url: str, **variables: str) -> Machine:
        made.append(machine(tmp_path / name, light_nvcc, url, **variables))
        return made[-1]

    yield make
    for each in made:
        each.let_outages_end()


@pytest.fixture
def server() -> Iterator[fault_server.Store]:
    """An empty server in the test's own process."""
    with fault_server.store() as made:
        yield made


@dataclass(frozen=True)
class Filled:
    """The files of a server, and the objects of one machine, by the options: plain nvcc makes the same."""

    files: dict[str, bytes]
    objects: dict[tuple[str, ...], bytes]


@pytest.fixture(scope="session")
def filled(light_nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """When a machine has compiled the source for one architecture and for two."""
    with fault_server.store() as store:
        one = machine(tmp_path_factory.mktemp("filled") / "one", light_nvcc, f"{store.url()},rw")
        objects = {options: both_ways(one, *LINE, *options)["a.o"] for options in (ONE, TWO)}
        one.wait_for_uploader()
        assert not one.has_queued()
        return Filled(dict(store.files), objects)

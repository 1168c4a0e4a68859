"""Machines with the sources checked out, and what a server has of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.remote.machines import Machine
from scenarios.remote.remote_units import LINE, TWO, NewMachine, with_sources
from support import fault_server


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

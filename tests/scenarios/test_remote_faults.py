"""A remote that fails in any way costs a compile next to nothing, once a machine and minute, and never its result.

A call waits for all remotes together as long as NVCCACHE_REMOTE_TIMEOUT says; the calls after it leave the
remote alone. That is told by the connections that the server has seen, since clocks tell little on a busy
machine: where a server that never answers was waited for, a call would end by the test's own limit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from scenarios.remote_units import HEADER, LINE, SOURCE

from scenarios.both_ways import both_ways
from scenarios.machines import Machine, machine
from support import fault_server, servers
from support.proxy import proxy

TIMEOUT = "1"
MOST_SECONDS = 30.0  # for a compile that takes one: busy machines, and no server that is waited for in vain
LEFT_ALONE = (
    "hang", "drip", "drip headers", "reset", "reset mid-body", "truncate", "endless",
    "401", "429", "500", "502", "503", "507", "not http", "redirect", "other bytes", "wrong bytes",
)  # fmt: skip
ANSWERED = ("404",)  # which is what a cache without the entry says


@pytest.fixture(scope="module")
def filled(light_nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """What a remote has when a machine has compiled the sources."""
    with fault_server.store() as store:
        one = machine(tmp_path_factory.mktemp("filled") / "one", light_nvcc, f"{store.url()},rw")
        _check_out(one)
        assert one.compile(*LINE[1:]).status == 0
        one.deliver()
        return dict(store.files)


@pytest.fixture
def two(tmp_path: Path, light_nvcc: str) -> Machine:
    made = machine(tmp_path / "two", light_nvcc, "", NVCCACHE_REMOTE_TIMEOUT=TIMEOUT)
    _check_out(made)
    return made


def _check_out(on: Machine) -> None:
    on.write("a.cu", SOURCE)
    on.write("include/step.h", HEADER)


def compile_without_cache(on: Machine) -> float:
    """As plain nvcc does, with nothing in the machine's own cache; the seconds."""
    on.forget_all()
    begun = time.monotonic()
    both_ways(on, *LINE)
    return time.monotonic() - begun


@pytest.mark.by_default("hang", "drip", "truncate", "wrong bytes", "401", "429", "500", "not http")
@pytest.mark.parametrize("fault", LEFT_ALONE)
def test_a_fault_is_met_once(filled: Mapping[str, bytes], two: Machine, fault: str) -> None:
    with fault_server.store() as store:
        store.files.update(filled)
        store.fault = fault
        two.environ["NVCCACHE_REMOTE"] = store.url()
        assert compile_without_cache(two) < MOST_SECONDS
        met = store.connections
        assert met
        for _ in range(2):
            compile_without_cache(two)
        assert store.connections == met


@pytest.mark.parametrize("fault", ANSWERED)
def test_what_is_not_there_is_no_fault(filled: Mapping[str, bytes], two: Machine, fault: str) -> None:
    with fault_server.store() as store:
        store.files.update(filled)
        store.fault = fault
        two.environ["NVCCACHE_REMOTE"] = store.url()
        compile_without_cache(two)
        store.fault = fault_server.GOOD
        two.forget_all()
        assert both_ways(two, *LINE)[2].outcome == "direct_hit"


@pytest.mark.by_default("silent", "full_backlog")
@pytest.mark.parametrize("scheme", ["http", "redis", "s3"])
@pytest.mark.parametrize("place", ["closed", "silent", "full_backlog"])
def test_a_place_without_a_server(two: Machine, place: str, scheme: str) -> None:
    with getattr(fault_server, place)() as end, proxy(end.port) as line:
        port = line.port if place == "silent" else end.port
        two.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        two.environ["NVCCACHE_REMOTE"] = {
            "http": f"http://{servers.HOST}:{port}/cache",
            "redis": f"redis://{servers.HOST}:{port}/0",
            "s3": f"s3://cache/nv?endpoint=http://{servers.HOST}:{port}&region=us-east-1",
        }[scheme]
        assert compile_without_cache(two) < MOST_SECONDS
        met = line.counts.connections
        assert met or place != "silent"
        for _ in range(2):
            assert compile_without_cache(two) < MOST_SECONDS
        assert line.counts.connections == met
        assert outages(two)

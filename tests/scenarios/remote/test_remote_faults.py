"""A failing remote costs a compile little, once a minute on each machine, and never affects its result.

A call waits for all remotes together for two seconds; the calls after it leave the
remote alone. The tests count the connections that the server has seen, since times mean little on a busy
machine: a call that waited for a server that never answers would run into the test's own limit.
"""

from __future__ import annotations

import re
import time

import pytest

from scenarios.remote.remote_units import LINE
from scenarios.support.both_ways import both_ways
from support import certificates, fault_server, servers, servers_redis

MOST_SECONDS = 30.0  # for a compile of one second on a busy machine
# What the server does -> the word for it; "" if it is not a fault.
FAULTS = {
    "hang": "timeout",
    "drip": "timeout",
    "drip headers": "timeout",
    "reset": "unreachable",
    "reset mid-body": "broken",
    "truncate": "broken",
    "endless": "",
    "401": "bad_credentials",
    "403": "",
    "404": "",
    "429": "throttled",
    "500": "broken",
    "502": "unreachable",
    "503": "throttled",
    "507": "full",
    "not http": "unreachable",
    "redirect": "unreachable",
    "other bytes": "",
    "wrong bytes": "",
}
assert FAULTS.keys() == set(fault_server.FAULTS)


def compile_with_empty_cache(on):
    """Compile with an empty local cache and compare with plain nvcc; the outcome."""
    on.forget_all()
    begun = time.monotonic()
    outcome = both_ways(on, *LINE).outcome
    assert time.monotonic() - begun < MOST_SECONDS
    return outcome


@pytest.mark.by_default("hang", "404", "wrong bytes")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_with_a_fault_is_met_once(filled, new_machine, fault):
    with fault_server.store() as store:
        store.files |= filled
        store.fault = fault
        two = new_machine("two", store.url())
        assert compile_with_empty_cache(two) == "miss"
        met = store.connections
        assert met
        assert two.outages() == [FAULTS[fault]][: len(FAULTS[fault])]
        if two.outages():
            for _ in range(2):
                assert compile_with_empty_cache(two) == "miss"
            assert store.connections == met
        else:
            store.fault = fault_server.GOOD
            assert compile_with_empty_cache(two) == "direct_hit"


def _url(scheme, port):
    return {
        "http": f"http://{servers.HOST}:{port}/cache",
        "redis": f"redis://{servers.HOST}:{port}/0",
        "s3": f"s3://cache/nv?endpoint=http://{servers.HOST}:{port}&region=us-east-1",
    }[scheme]


@pytest.mark.by_default("silent-redis")
@pytest.mark.parametrize("scheme", ["http", "redis", "s3"])
@pytest.mark.parametrize("place", ["closed", "silent", "full_backlog"])
def test_a_place_without_a_server(new_machine, place, scheme):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with getattr(fault_server, place)() as end:
        two = new_machine("two", _url(scheme, end.port), **keys)
        assert compile_with_empty_cache(two) == "miss"
        met = end.connections
        assert two.outages() == ["unreachable" if place == "closed" else "timeout"]
        for _ in range(2):
            assert compile_with_empty_cache(two) == "miss"
        assert end.connections == met


@pytest.mark.parametrize("trust", ["known", "unknown", "expired"])
def test_a_private_authority_is_trusted_if_it_is_named(tmp_path, filled, new_machine, trust):
    authority = certificates.authority(tmp_path / "ca")
    with fault_server.store(authority.sign("server", is_expired=trust == "expired")) as store:
        store.files |= filled
        named = {} if trust == "unknown" else {"SSL_CERT_FILE": str(authority.certificate)}
        two = new_machine("two", store.url(), **named)
        assert compile_with_empty_cache(two) == ("direct_hit" if trust == "known" else "miss")
        assert two.outages() == ([] if trust == "known" else ["tls"])
        assert trust == "known" or not store.requests


def test_a_full_redis_is_read_and_not_written_to_again(tmp_path, new_machine):
    options = ["--maxmemory", "1mb", "--maxmemory-policy", "noeviction"]
    with servers_redis.redis(tmp_path / "redis", *options) as redis:
        redis.command("SET", "filler", bytes(1 << 20))

        def refused():
            return re.findall(
                rb"cmdstat_set:calls=\d+.*rejected_calls=(\d+)", redis.command("INFO", "commandstats")
            )

        one = new_machine("one", f"{redis.url()},rw")
        assert both_ways(one, *LINE).outcome == "miss"
        one.wait_for_uploader()
        before = refused()
        one.write("a.cu", "int nothing() { return 0; }\n")
        assert both_ways(one, *LINE).outcome == "miss"
        one.wait_for_uploader()
        assert refused() == before != []
        assert one.outages() == ["full"]


def test_a_remote_that_recovers_is_used_again(filled, new_machine):
    """After its minute, by whichever call comes first."""
    with fault_server.store() as store:
        store.files |= filled
        store.fault = "500"
        two = new_machine("two", store.url())
        assert compile_with_empty_cache(two) == "miss"
        store.fault = fault_server.GOOD
        assert compile_with_empty_cache(two) == "miss"
        two.let_outages_end()
        assert compile_with_empty_cache(two) == "direct_hit"
        assert two.outages() == []


def test_a_directory_that_is_not_mounted_is_named_and_used_once_it_is(tmp_path, new_machine):
    """It may be mounted at any moment, so that compiles do not skip it."""
    shared = tmp_path / "shared"
    two = new_machine("two", f"file://{shared}")
    assert compile_with_empty_cache(two) == "miss"
    shown = two.command("explain", "a.o").stdout.decode()
    assert "the remote's directory is missing or unusable: see `nvccache remote status`" in shown
    assert two.outages() == []
    shared.mkdir()
    one = new_machine("one", f"file://{shared},rw")
    assert both_ways(one, *LINE).outcome == "miss"
    one.deliver()
    assert compile_with_empty_cache(two) == "direct_hit"

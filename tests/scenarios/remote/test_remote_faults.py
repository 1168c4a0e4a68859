"""A failing remote costs a compile little, once a minute on each machine, and never affects its result.

A call waits for all remotes together for two seconds; the calls after it leave the remote alone. The tests
count the connections that the server has seen, since times mean little on a busy machine. For what each kind
of answer means see unit/remote/test_backend.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from scenarios.remote.machines import ONE
from support import certificates, fault_server


def test_a_hanging_server_is_skipped_after_one_timeout_until_it_recovers(server, filled, new_machine):
    server.files |= filled.files
    server.fault = "hang"
    two = new_machine("two", server.url())
    made = two.compile()
    assert (made.outcome, made["a.o"]) == ("miss", filled.objects[ONE])
    connections = server.connections
    assert connections and two.outages() == ["timeout"]
    assert two.compile_with_empty_cache().outcome == "miss"
    assert server.connections == connections
    server.fault = ""
    two.let_outages_end()  # after its minute, by whichever call comes first
    assert two.compile_with_empty_cache().outcome == "direct_hit"
    assert two.outages() == []


@pytest.mark.parametrize("trust", ["known", "expired"])
def test_a_private_certificate_authority_is_trusted_through_ssl_cert_file(
    tmp_path, filled, new_machine, trust
):
    authority = certificates.authority(tmp_path / "ca")
    with fault_server.store(authority.sign("server", is_expired=trust == "expired")) as store:
        store.files |= filled.files
        two = new_machine("two", store.url(), SSL_CERT_FILE=str(authority.certificate))
        assert two.compile().outcome == ("direct_hit" if trust == "known" else "miss")
        assert two.outages() == ([] if trust == "known" else ["tls"])
        assert trust == "known" or not store.requests


def test_an_unmounted_shared_directory_is_reported_and_used_once_mounted(tmp_path, new_machine):
    """It may be mounted at any moment, so that compiles do not skip it."""
    shared = tmp_path / "shared"
    two = new_machine("two", f"file://{shared}")
    assert two.compile().outcome == "miss"
    shown = two.command("explain", "a.o").stdout.decode()
    assert "the remote's directory is missing or unusable (see `nvccache remote status`)" in shown
    assert two.outages() == []
    shared.mkdir()
    new_machine("one", f"file://{shared},rw").fill()
    assert two.compile_with_empty_cache().outcome == "direct_hit"


def test_calls_do_not_wait_for_uploads_and_a_killed_uploader_loses_nothing(server, new_machine):
    """Pipes are closed, and the call is over, while the uploader still waits for its server."""
    server.fault, server.faulty_methods = "hang", {"PUT"}
    one = new_machine("one", f"{server.url()},rw")
    assert one.compile().outcome == "miss"
    os.kill(_uploader_of(one), signal.SIGKILL)
    one.wait_for_uploader()
    assert one.has_queued()
    server.fault = ""
    assert one.command("remote", "push").status == 0
    assert new_machine("two", server.url()).compile().outcome == "direct_hit"


def _uploader_of(machine):
    """The process that sends from this machine's cache."""
    mark = f"send_queued\0{machine.cache}\0".encode()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for found in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if mark in found.read_bytes():
                    return int(found.parent.name)
    raise AssertionError("no process sends")

"""A call's results are uploaded by a background process, or by a command that waits."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nvccache import remote_url
from nvccache.remote import uploads
from nvccache.store.directory import Directory
from scenarios.remote.machines import has_queued
from support import servers_redis

pytestmark = pytest.mark.light_by_default

LINE = ("-arch=sm_80", "-c", "a.cu", "-o", "a.o")
SOURCE = "__global__ void k(int *p) { *p = 1; }\n"


class _TakesNothing(socketserver.BaseRequestHandler):
    """An empty redis that never answers to uploads."""

    def handle(self):
        while asked := self.request.recv(1 << 16):
            if b"SET" in asked:
                time.sleep(600)
            self.request.sendall(b"$-1\r\n" if b"GET" in asked else b":0\r\n")


@pytest.fixture
def silent():
    """The port of such a server."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _TakesNothing) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(autouse=True)
def no_outages():
    """A test's outages do not affect the next test."""
    yield
    from nvccache.machine import slots

    folder = slots.pool_directory()
    for name in os.listdir(folder):
        if name.startswith("outage-"):
            os.unlink(f"{folder}/{name}")


def command(workspace, *words, **variables):
    environ = {**workspace.environ, **variables}
    argv = [sys.executable, "-m", "nvccache", *words]
    return subprocess.run(argv, cwd=workspace.directory, env=environ, capture_output=True, check=False)


def wait_for_uploads(workspace):
    until = time.monotonic() + 60
    while has_queued(workspace.cache) and time.monotonic() < until:
        time.sleep(0.1)
    assert not has_queued(workspace.cache)


def test_what_a_build_has_made_gets_there_by_itself(workspace, tmp_path):
    remote = f"file://{tmp_path}/far,rw"
    (tmp_path / "far").mkdir()
    for name in ("a", "b"):
        workspace.write(f"{name}.cu", SOURCE.replace("1", str(ord(name))))
        line = ("-arch=sm_80", "-c", f"{name}.cu", "-o", f"{name}.o")
        assert workspace.cached(*line, NVCCACHE_REMOTE=remote).status == 0
    wait_for_uploads(workspace)
    (workspace.directory / "a.o").unlink()
    elsewhere = str(tmp_path / "another-cache")
    done = workspace.cached(*LINE, NVCCACHE_REMOTE=remote, NVCCACHE_DIR=elsewhere)
    assert done.status == 0
    statistics = json.loads(command(workspace, "stats", "--json", NVCCACHE_DIR=elsewhere).stdout)
    assert statistics["calls"]["direct_hit"] == 1


def uploader_of(workspace):
    """The process that sends from this cache."""
    mark = f"send_queued\0{workspace.cache}\0".encode()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for found in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if mark in found.read_bytes():
                    return int(found.parent.name)
    raise AssertionError("no process sends")


def test_calls_do_not_wait_for_uploads_and_a_killed_uploader_loses_nothing(workspace, silent):
    """Pipes are closed, and the call is over, while the uploader still waits for its server."""
    workspace.write("a.cu", SOURCE)
    remote = f"redis://127.0.0.1:{silent}?prefix=p{silent},rw"
    done = workspace.cached(*LINE, NVCCACHE_REMOTE=remote)
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    (parsed,) = remote_url.parse(remote)
    root = Directory(str(workspace.cache))
    items = uploads.queued(root, parsed.identity)
    os.kill(uploader_of(workspace), signal.SIGKILL)
    assert uploads.queued(root, parsed.identity) == items != []
    lock = uploads.take_lock(root, 60.0)
    assert lock is not None
    os.close(lock)


def test_push_to_redis_waits(workspace, tmp_path):
    workspace.write("a.cu", SOURCE)
    with servers_redis.redis(tmp_path / "redis") as redis:
        right, wrong = f"{redis.url()},rw", f"{redis.url(password='sesame')},rw"
        assert workspace.cached(*LINE, NVCCACHE_REMOTE=wrong).status == 0
        done = command(workspace, "remote", "status", NVCCACHE_REMOTE=wrong)
        assert (done.returncode, b"credentials" in done.stdout) == (1, True)
        assert b"sesame" not in done.stdout + done.stderr
        read_only = f"{redis.url(servers_redis.READER)},rw"
        assert command(workspace, "remote", "status", NVCCACHE_REMOTE=read_only).returncode == 1
        assert command(workspace, "remote", "status", NVCCACHE_REMOTE=right).returncode == 0
        done = command(workspace, "remote", "push", "--json", NVCCACHE_REMOTE=right)
        assert done.returncode == 0, done
        assert len(redis.keys()) >= json.loads(done.stdout)["remotes"][0]["objects"]
        elsewhere = str(tmp_path / "another-cache")
        (workspace.directory / "a.o").unlink()
        assert workspace.cached(*LINE, NVCCACHE_DIR=elsewhere, NVCCACHE_REMOTE=right).status == 0
        statistics = json.loads(command(workspace, "stats", "--json", NVCCACHE_DIR=elsewhere).stdout)
        assert statistics["calls"]["direct_hit"] == 1

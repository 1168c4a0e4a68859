"""Servers that tests start for themselves: each on a free port, with its files in a temporary directory.

Owns how a program is started, waited for and stopped; there is a module for each kind of server. If it is
not installed, the test that uses it is skipped with the reason. A server does not outlive the process that
started it, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

HOST = "127.0.0.1"
PATIENCE = 60  # seconds for a server to come up, on a busy machine
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def program(name: str, package: str) -> str:
    """Its path, on PATH or in a directory that NVCCACHE_TEST_SERVERS lists; skips the test without it."""
    more = os.environ.get("NVCCACHE_TEST_SERVERS", "")
    found = shutil.which(name, path=":".join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin", more]))
    if not found:
        pytest.skip(f"`{name}` is not installed ({package})")
    return found


@contextlib.contextmanager
def running(
    argv: Sequence[str | Path], directory: Path, port: int, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers at its port until the block ends; its output is in `directory/log`."""
    words = [str(word) for word in argv]
    prefix = _DIES_WITH_US if shutil.which(_DIES_WITH_US[0]) else ()
    with open(directory / "log", "wb") as log:
        server = subprocess.Popen(
            [*prefix, *words],
            cwd=directory,
            env={**os.environ, "LC_ALL": "C", **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(server, port, directory / "log")
        yield server
    finally:
        stop(server)


def stop(server: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and end it where it does not."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
    server.wait()


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not accepts(port):
        words = log.read_text(errors="replace")[-2000:]
        assert server.poll() is None, f"{server.args} ended by itself: {words}"
        assert time.monotonic() < deadline, f"{server.args} does not answer: {words}"
        time.sleep(0.02)


def accepts(port: int) -> bool:
    """Whether a process accepts connections at a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0

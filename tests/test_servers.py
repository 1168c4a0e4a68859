"""The slow line and the faults that other tests rely on; whoever uses another server sees that it works."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time

import pytest

from support import fault_server, servers
from support.proxy import FIFTY_MEGABIT, proxy

CONTENT = b"content " * 512


def status(port: int, method: str, path: str, body: bytes = b"") -> int:
    with contextlib.closing(http.client.HTTPConnection(servers.HOST, port, timeout=3)) as line:
        line.request(method, path, body=body, headers={"Content-Length": str(len(body))})
        return line.getresponse().status


def content(port: int, path: str) -> bytes:
    with contextlib.closing(http.client.HTTPConnection(servers.HOST, port, timeout=3)) as line:
        line.request("GET", path)
        return line.getresponse().read()


def test_a_long_line_delays_and_counts() -> None:
    with fault_server.store() as store, proxy(store.port, round_trip=0.2) as line:
        store.files["/a"] = CONTENT
        begun = time.monotonic()
        assert content(line.port, "/a") == CONTENT
        assert time.monotonic() - begun >= 0.4  # the connection's round trip and the request's
        assert line.counts.requests == ["GET /a"]
        assert (line.counts.connections, store.connections) == (1, 1)
        assert line.counts.received > len(CONTENT) > line.counts.sent > 0


def test_a_narrow_line_is_shared() -> None:
    size = FIFTY_MEGABIT // 4
    with fault_server.store() as store, proxy(store.port, bytes_a_second=FIFTY_MEGABIT) as line:
        begun = time.monotonic()
        for name in ("/a", "/b"):
            assert status(line.port, "PUT", name, bytes(size)) == 201
        assert time.monotonic() - begun >= 0.5
        assert store.files["/b"] == bytes(size)
        assert line.counts.requests == ["PUT /a", "PUT /b"]


@pytest.mark.parametrize("fault", fault_server.FAULTS)
def test_a_fault_is_what_its_name_says(fault: str) -> None:
    with fault_server.store() as store:
        store.files["/a"] = CONTENT
        store.fault = fault
        expected = {
            **fault_server.STATUSES,
            **dict.fromkeys(("hang", "drip headers", "drip"), "late"),
            "truncate": "too little",
            "wrong bytes": "another content",
            "other bytes": "another content",
            "endless": "too much",
            "reset": "ConnectionResetError",
            "reset mid-body": "ConnectionResetError",
            "redirect": 302,
            "not http": "BadStatusLine",
        }
        assert _outcome(store.port) == expected[fault]


def _outcome(port: int) -> str | int:
    """What a client finds that gives the whole of it a second and a half."""
    line = http.client.HTTPConnection(servers.HOST, port)
    line.connect()
    end = line.sock
    is_late = threading.Event()
    watch = threading.Timer(1.5, lambda: (is_late.set(), end.shutdown(socket.SHUT_RDWR)))
    watch.start()
    try:
        line.request("GET", "/a")
        reply = line.getresponse()
        if reply.status != 200:
            return reply.status
        found = reply.read(1 << 20)
        if len(found) == 1 << 20:
            return "too much"
        if len(found) < min(int(reply.headers["Content-Length"]), 1 << 20):
            return "late" if is_late.is_set() else "too little"
        return "right" if found == CONTENT else "another content"
    except Exception as error:
        return "late" if is_late.is_set() else type(error).__name__
    finally:
        watch.cancel()
        line.close()


def test_places_that_do_not_answer() -> None:
    with fault_server.closed() as end, pytest.raises(ConnectionRefusedError):
        socket.create_connection((servers.HOST, end.port), timeout=1)
    with fault_server.silent() as end, socket.create_connection((servers.HOST, end.port)) as line:
        line.settimeout(0.2)
        with pytest.raises(TimeoutError):
            line.recv(1)
        assert end.connections == 1
    with fault_server.full_backlog() as end, pytest.raises(TimeoutError):
        socket.create_connection((servers.HOST, end.port), timeout=0.5)

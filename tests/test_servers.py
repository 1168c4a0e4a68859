"""The servers, the line and the faults that other tests rely on do what they are there for."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import (
    certificates,
    fault_server,
    servers,
    servers_clouds,
    servers_nginx,
    servers_redis,
    servers_s3,
)
from support import sigv4 as s3
from support.proxy import FIFTY_MEGABIT, proxy
from support.requests_seen import RequestReader

CONTENT = b"content " * 512


@contextlib.contextmanager
def asked(
    port: int,
    method: str,
    path: str,
    body: bytes = b"",
    context: ssl.SSLContext | None = None,
    **headers: str,
) -> Iterator[http.client.HTTPResponse]:
    line = (
        http.client.HTTPSConnection(servers.HOST, port, timeout=3, context=context)
        if context
        else http.client.HTTPConnection(servers.HOST, port, timeout=3)
    )
    with contextlib.closing(line):
        line.request(method, path, body=body, headers={**headers, "Content-Length": str(len(body))})
        yield line.getresponse()


def status(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> int:
    with asked(port, method, path, body, None, **headers) as reply:
        reply.read()
        return reply.status


def content(port: int, path: str) -> bytes:
    with asked(port, "GET", path) as reply:
        return reply.read()


def test_redis_has_a_writer_and_a_reader(tmp_path: Path) -> None:
    with servers_redis.redis(tmp_path / "redis") as server:
        assert server.command("SET", "nv/a", CONTENT) == b"+OK\r\n"
        assert server.command("GET", "nv/a") == b"$4096\r\n" + CONTENT + b"\r\n"
        assert server.keys() == [b"nv/a"]
        for user, password, expected in [
            (servers_redis.READER, servers_redis.PASSWORD, b"-NOPERM"),
            (servers_redis.WRITER, "wrong", b"-WRONGPASS"),
        ]:
            with socket.create_connection((servers.HOST, server.port), timeout=3) as line:
                line.sendall(f"AUTH {user} {password}\r\nSET a b\r\n".encode())
                time.sleep(0.2)
                assert expected in line.recv(4096)


def test_redis_can_be_full(tmp_path: Path) -> None:
    options = ["--maxmemory", "2mb", "--maxmemory-policy", "noeviction"]
    with servers_redis.redis(tmp_path / "redis", *options) as server:
        replies = [server.command("SET", f"nv/{number}", bytes(1 << 19)) for number in range(8)]
        assert replies[-1].startswith(b"-OOM")


def test_nginx_has_a_half_to_write_and_one_to_read(tmp_path: Path) -> None:
    with servers_nginx.nginx(tmp_path / "nginx") as server:
        import base64

        words = f"{servers_nginx.USER}:{servers_nginx.PASSWORD}"
        right = {"Authorization": "Basic " + base64.b64encode(words.encode()).decode()}
        assert status(server.port, "PUT", "/rw/cache/1/ab/x", CONTENT, **right) == 201
        assert status(server.port, "PUT", "/rw/cache/1/ab/x", CONTENT) == 401
        assert content(server.port, "/ro/cache/1/ab/x") == CONTENT
        assert status(server.port, "PUT", "/ro/cache/1/ab/y", CONTENT) == 403
        assert status(server.port, "GET", "/auth/cache/1/ab/x") == 401
        assert status(server.port, "GET", "/auth/cache/1/ab/x", **right) == 200
        assert status(server.port, "GET", "/ro/cache/1/ab/z") == 404
        assert "PUT /ro/cache/1/ab/y HTTP/1.1 403" in server.requests()


@pytest.mark.parametrize("kind", ["rgw", "moto"])
def test_s3_stores_and_lists(tmp_path: Path, kind: str) -> None:
    with getattr(servers_s3, kind)(tmp_path / kind) as service:
        service.ask("PUT", "/cache/nv/a", body=CONTENT)
        assert service.ask("GET", "/cache/nv/a") == CONTENT
        assert service.names() == ["nv/a"]


def test_rgw_checks_signatures_and_policies(tmp_path: Path) -> None:
    with servers_s3.rgw(tmp_path / "rgw") as service:
        service.ask("PUT", "/cache/nv/a", body=CONTENT)

        def get(keys: s3.Keys, name: str = "a") -> tuple[int, bytes]:
            return s3.request(service.port, keys, "GET", f"/cache/nv/{name}")

        assert b"SignatureDoesNotMatch" in get(servers_s3.WRONG)[1]
        assert b"InvalidAccessKeyId" in get(servers_s3.UNKNOWN)[1]
        assert get(servers_s3.READER)[0] == 403
        service.allow(servers_s3.READER_PRINCIPAL, "s3:GetObject")
        assert get(servers_s3.READER) == (200, CONTENT)
        assert get(servers_s3.READER, "absent")[0] == 403
        assert s3.request(service.port, servers_s3.READER, "PUT", "/cache/nv/b", body=b"x")[0] == 403
        assert status(service.port, "GET", "/cache/nv/a") == 403
        service.allow(servers_s3.EVERYBODY, "s3:GetObject")
        assert content(service.port, "/cache/nv/a") == CONTENT


@pytest.mark.parametrize("kind", ["azurite", "fake_gcs"])
def test_the_other_clouds_come_up(tmp_path: Path, kind: str) -> None:
    with getattr(servers_clouds, kind)(tmp_path / kind) as service:
        assert servers.accepts(service.port)
        port = service.port
    assert not servers.accepts(port)


def test_a_certificate_of_a_private_authority(tmp_path: Path) -> None:
    """Trusted by who knows the authority, unless it has expired; by nobody else."""
    authority = certificates.authority(tmp_path / "ca")
    knowing = ssl.create_default_context(cafile=authority.certificate)
    unknowing = ssl.create_default_context()
    with fault_server.store(authority.sign("server")) as good:
        good.files["/cache/a"] = CONTENT
        with asked(good.port, "GET", "/cache/a", context=knowing) as reply:
            assert reply.read() == CONTENT
        with pytest.raises(ssl.SSLCertVerificationError), asked(good.port, "GET", "/", context=unknowing):
            pass
    with (
        fault_server.store(authority.sign("old", is_expired=True)) as expired,
        pytest.raises(ssl.SSLCertVerificationError, match="expired"),
        asked(expired.port, "GET", "/", context=knowing),
    ):
        pass


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


def test_requests_are_read_from_pieces() -> None:
    for sent, expected in [
        (b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nGETGET /b HTTP/1.1\r\n\r\n", ["PUT /a", "GET /b"]),
        (b"PUT /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", ["PUT /a"]),
        (b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n", ["GET k", "SET k"]),
        (b"\x16\x03\x01\x02\x00" * 100, []),
    ]:
        for size in (1, 7, 1000):
            reader = RequestReader()
            for start in range(0, len(sent), size):
                reader.feed(sent[start : start + size])
            assert reader.requests == expected


def test_the_store_of_files_is_a_webdav_server() -> None:
    with fault_server.store() as store:
        assert status(store.port, "PUT", "/cache/1/ab/x", CONTENT) == 201
        assert content(store.port, "/cache/1/ab/x") == CONTENT
        assert status(store.port, "GET", "/cache/1/ab/y") == 404
        with asked(store.port, "PROPFIND", "/cache/1", Depth="1") as reply:
            listing = reply.read()
        assert b"<D:href>/cache/1/ab/</D:href>" in listing
        store.is_read_only = True
        assert status(store.port, "PUT", "/cache/1/ab/z", CONTENT) == 403
        assert store.connections == 5


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

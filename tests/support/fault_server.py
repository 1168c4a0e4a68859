"""An HTTP file server (the part of WebDAV that caches use) that can fail in every way a server can.

It runs in the test's own process, counts what reaches it, and becomes another server between two compiles:
`store.fault = "drip"`. Servers that do not even speak HTTP are at the end.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from support.servers import HOST

GOOD = ""
STATUSES = {"401": 401, "403": 403, "404": 404, "429": 429, "500": 500, "502": 502, "503": 503, "507": 507}
# Name -> what the server does instead of answering; what is not there is answered as if it were.
FAULTS = (*STATUSES, "hang", "drip", "drip headers", "truncate", "wrong bytes", "other bytes", "endless",
          "reset", "reset mid-body", "redirect", "not http")  # fmt: skip
_READING = ("GET ", "HEAD ", "PROPFIND ", "OPTIONS ")
_FILLER = b"this is not what was stored here. " * 121


class Store(ThreadingHTTPServer):
    """Path -> content, and how it is served."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.fault = GOOD
        self.faulty_methods: frozenset[str] = frozenset()  # all, without one
        self.is_read_only = False
        self.requests: list[str] = []
        self.connections = 0
        self.is_over = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str = "cache") -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://{HOST}:{self.port}/{path}"

    def forget(self) -> None:
        """Count from here on."""
        self.requests.clear()
        self.connections = 0

    def written(self) -> list[str]:
        """The requests that wanted to change something."""
        return [request for request in self.requests if not request.startswith(_READING)]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is what these tests are about."""

    def fault_of(self, method: str) -> str:
        return self.fault if not self.faulty_methods or method in self.faulty_methods else GOOD


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_PUT = do_DELETE = do_PROPFIND = do_MKCOL = do_OPTIONS = do_GET  # noqa: N815

    def _serve(self) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault_of(self.command)
        if fault in STATUSES:
            self._answer(STATUSES[fault], b"no")
        elif fault:
            self._go_wrong(fault, self.server.files.get(path, _FILLER))
        elif self.server.is_read_only and f"{self.command} " not in _READING:
            self._answer(403, b"read only")
        else:
            getattr(self, f"_{self.command.lower()}")(path, body)

    def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _get(self, path: str, _: bytes) -> None:
        content = self.server.files.get(path)
        self._answer(404, b"none") if content is None else self._answer(200, content)

    _head = _get

    def _put(self, path: str, body: bytes) -> None:
        self.server.files[path] = body
        self._answer(201)

    def _delete(self, path: str, _: bytes) -> None:
        self._answer(204 if self.server.files.pop(path, None) is not None else 404)

    def _mkcol(self, *_: object) -> None:
        self._answer(201)

    def _options(self, *_: object) -> None:
        self._answer(200, DAV="1", Allow="GET, HEAD, PUT, DELETE, PROPFIND, MKCOL, OPTIONS")

    def _propfind(self, path: str, _: bytes) -> None:
        folder = path.rstrip("/") + "/"
        below = [name[len(folder) :] for name in list(self.server.files) if name.startswith(folder)]
        if path not in self.server.files and not below:
            self._answer(404, b"none")
            return
        found = [_property(path, self.server.files.get(path))]
        if self.headers.get("Depth") == "1":
            folders = sorted({name.partition("/")[0] for name in below if "/" in name})
            found += [_property(f"{folder}{name}/", None) for name in folders]
            files = [name for name in below if "/" not in name]
            found += [_property(f"{folder}{name}", self.server.files[f"{folder}{name}"]) for name in files]
        text = f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{"".join(found)}</D:multistatus>'
        self._answer(207, text.encode(), Content_Type="application/xml")

    def _go_wrong(self, fault: str, content: bytes) -> None:
        # An answer that looks right keeps its connection: closing it would be a fault of another kind.
        self.close_connection = fault not in ("wrong bytes", "other bytes")
        if fault == "hang":
            self.server.is_over.wait()
        elif fault == "drip headers":
            self._drip(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        elif fault == "drip":
            self._begin(len(content))
            self._drip(content)
        elif fault == "truncate":
            self._begin(len(content))
            self.wfile.write(content[: len(content) // 2])
        elif fault == "wrong bytes":
            changed = bytearray(content)
            changed[len(changed) // 2] ^= 1
            self._answer(200, bytes(changed))
        elif fault == "other bytes":
            self._answer(200, _FILLER)
        elif fault == "endless":
            self._begin(1 << 44)
            while not self.server.is_over.is_set():
                self.wfile.write(bytes(_FILLER))
        elif fault == "reset mid-body":
            self._begin(len(content))
            self.wfile.write(content[: len(content) // 2])
            self._reset()
        elif fault == "reset":
            self._reset()
        elif fault == "redirect":
            self._answer(302, Location=self.path)
        elif fault == "not http":
            self.wfile.write(b"\x00\x01" + _FILLER)

    def _begin(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _drip(self, content: bytes) -> None:
        for position in range(len(content)):
            self.wfile.write(content[position : position + 1])
            self.wfile.flush()
            if self.server.is_over.wait(1.0):
                return

    def _reset(self) -> None:
        self.wfile.flush()
        time.sleep(0.05)  # what was sent before has to arrive
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _property(path: str, content: bytes | None) -> str:
    kind = "<D:resourcetype><D:collection/></D:resourcetype>" if content is None else "<D:resourcetype/>"
    size = "" if content is None else f"<D:getcontentlength>{len(content)}</D:getcontentlength>"
    date = "<D:getlastmodified>Sat, 21 Nov 2026 10:00:00 GMT</D:getlastmodified>"
    status = "<D:status>HTTP/1.1 200 OK</D:status>"
    properties = f"<D:propstat><D:prop>{kind}{size}{date}</D:prop>{status}</D:propstat>"
    return f"<D:response><D:href>{escape(path)}</D:href>{properties}</D:response>"


@contextlib.contextmanager
def store(certificate: tuple[Path, Path] | None = None) -> Iterator[Store]:
    """An empty server that is up; with a certificate and its key it speaks TLS."""
    made = Store()
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        # The handshake is made by the thread of the connection, so that one that fails stops no other.
        made.socket = context.wrap_socket(made.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.is_over.set()
        made.shutdown()
        made.server_close()
        thread.join()


class DeadEnd:
    """A port behind which there is no server, and how many connections came."""

    def __init__(self, port: int, count: Callable[[], int]) -> None:
        self.port = port
        self._count = count

    @property
    def connections(self) -> int:
        return self._count()


@contextlib.contextmanager
def closed() -> Iterator[DeadEnd]:
    """Connections are refused; no other process gets the port meanwhile."""
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        yield DeadEnd(holder.getsockname()[1], lambda: 0)


@contextlib.contextmanager
def silent() -> Iterator[DeadEnd]:
    """Connections are accepted and never answered."""
    accepted: list[socket.socket] = []
    listener = socket.create_server((HOST, 0), backlog=512)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted.append(listener.accept()[0])

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield DeadEnd(listener.getsockname()[1], lambda: len(accepted))
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        for end in (listener, *accepted):
            end.close()


@contextlib.contextmanager
def full_backlog() -> Iterator[DeadEnd]:
    """So many wait to be accepted that the kernel leaves further ones without an answer."""
    waiting: list[socket.socket] = []
    with socket.create_server((HOST, 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        for _ in range(8):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex((HOST, port))
            waiting.append(one)
        try:
            yield DeadEnd(port, lambda: 0)
        finally:
            for one in waiting:
                one.close()

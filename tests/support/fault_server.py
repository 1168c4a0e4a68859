"""An HTTP file server that can fail, in the test's own process.

It counts what reaches it, and becomes another server between two compiles: `store.fault = "hang"`. Answers
that are wrong in other ways: tests/unit/remote/faulty_server.py.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Collection, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.servers import HOST

HANG, WRONG_BYTES = "hang", "wrong bytes"  # faults; others are HTTP statuses


class Store(ThreadingHTTPServer):
    """Path -> content, and how it is served."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, handler: type[BaseHTTPRequestHandler] | None = None) -> None:
        super().__init__((HOST, 0), handler or Handler)
        self.files: dict[str, bytes] = {}
        self.fault = ""
        self.faulty_methods: Collection[str] = ("GET", "HEAD", "PUT")
        self.requests: list[str] = []
        self.connections = 0
        self.is_over = threading.Event()

    def url(self, path: str = "cache") -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://{HOST}:{self.server_address[1]}/{path}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault if self.command in self.server.faulty_methods else ""
        content = self.server.files.get(path)
        if fault == HANG:
            self.server.is_over.wait()
        elif fault.isdecimal():
            self.answer(int(fault))
        elif self.command == "PUT":
            self.server.files[path] = body
            self.answer(201)
        elif content is None:
            self.answer(404)
        elif fault == WRONG_BYTES:
            middle = len(content) // 2
            self.answer(200, content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        else:
            self.answer(200, content)

    do_HEAD = do_PUT = do_GET  # noqa: N815

    def answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextlib.contextmanager
def store(certificate: tuple[Path, Path] | None = None) -> Iterator[Store]:
    """An empty server that is up; with a certificate and its key it speaks TLS."""
    made = Store()
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        # The handshake is made by the thread of the connection, so that one that fails stops no other.
        made.socket = context.wrap_socket(made.socket, server_side=True, do_handshake_on_connect=False)
    with serving(made):
        yield made


@contextlib.contextmanager
def serving(server: Store) -> Iterator[None]:
    """The server is up until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()

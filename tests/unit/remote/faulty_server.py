"""A server on this machine that answers HTTP as a test says: wrongly, slowly, for ever or not at all."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

Answer = Callable[[socket.socket], None]


class FaultyServer:
    """`requests` has the head of each request. Ends with the block."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections = []
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for connection in [self._listener, *self._connections]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError):
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    part = connection.recv(65536)
                    if not part:
                        return
                    head += part
                self.requests.append(head.partition(b"\r\n\r\n")[0].decode())
                self.answer(connection)


def says(status, body=b""):
    head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + body)


def leads_to(url):
    head = f"HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode()
    return lambda connection: connection.sendall(head)


def is_silent(connection):
    """Takes a request and says nothing."""


def closes(connection):
    connection.shutdown(socket.SHUT_RDWR)


def writes_garbage(connection):
    connection.sendall(b"\0\xff no HTTP at all\r\n\r\n" * 10)


def drips(connection):
    """A byte every tenth of a second, for ever."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.1)


def never_ends(connection):
    """As much as is taken, without saying how much there is."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


def truncates(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500)
    connection.shutdown(socket.SHUT_RDWR)

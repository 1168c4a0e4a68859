"""A local server that answers as a test says: wrongly, slowly, endlessly or not at all."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

Answer = Callable[[socket.socket], None]


class FaultyServer:
    """`requests` has the head of each request, up to what `ends` it; nothing does: what comes at a time."""

    def __init__(self, answer, ends=b"\r\n\r\n"):
        self.answer = answer
        self.requests = []
        self.connections = []
        self._ends = ends
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for connection in [self._listener, *self.connections]:
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
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        # One that is accepted while the server stops is not among those that it closes.
        with contextlib.suppress(OSError), connection:
            while True:
                head = b""
                while not head or self._ends not in head:
                    part = connection.recv(65536)
                    if not part:
                        return
                    head += part
                request = head.partition(self._ends)[0] if self._ends else head
                self.requests.append(request.decode(errors="replace"))
                self.answer(connection)


def says(status, body=b""):
    head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    def answers(connection):
        connection.sendall(head + body)

    answers.__name__ = f"{status} {body.decode('latin-1')}".strip()  # as the id of a case
    return answers


def leads_to(url):
    head = f"HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode()
    return lambda connection: connection.sendall(head)


def is_silent(connection):
    """Accepts a request and never answers."""


def closes(connection):
    connection.shutdown(socket.SHUT_RDWR)


def writes_garbage(connection):
    connection.sendall(b"\0\xff no HTTP at all\r\n\r\n" * 10)


def drips(connection):
    """A byte every tenth of a second, without end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.1)


def never_ends(connection):
    """An endless body without a length."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


def truncates(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500)
    connection.shutdown(socket.SHUT_RDWR)

"""A line between a client and a server, as long and as narrow as a test wants it, and all on it is counted.

Bytes arrive half a round trip after they were sent, and no faster than the line carries them, all connections
together. A new connection costs a round trip more, as TCP's handshake does.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from support.servers import HOST

_PIECE = 1 << 16


@dataclass
class Counts:
    """What went over a line: connections, and bytes there and back."""

    connections: int = 0
    sent: int = 0
    received: int = 0


class _Lane:
    """One direction of the line, shared by all connections: says when bytes handed in now have arrived."""

    def __init__(self, delay: float, bytes_a_second: float) -> None:
        self._delay = delay
        self._rate = bytes_a_second
        self._is_free_at = 0.0
        self._lock = threading.Lock()

    def arrival(self, size: int, more_delay: float = 0.0) -> float:
        now = time.monotonic()
        with self._lock:
            begins = max(now, self._is_free_at)
            self._is_free_at = begins + (size / self._rate if self._rate else 0.0)
            return self._is_free_at + self._delay + more_delay


class Proxy:
    """Listens at `port` and forwards everything to a port of this machine."""

    def __init__(self, target: int, round_trip: float, bytes_a_second: float) -> None:
        self.counts = Counts()
        self._target = target
        self._round_trip = round_trip
        self._to_server = _Lane(round_trip / 2, bytes_a_second)
        self._to_client = _Lane(round_trip / 2, bytes_a_second)
        self._listener = socket.create_server((HOST, 0), backlog=512)
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self) -> None:
        """Count from here on."""
        self.counts = Counts()

    def close(self) -> None:
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._target), timeout=30)
            except OSError:
                return
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends += [client, server]
            self.counts.connections += 1
            self._join(client, server, self._to_server, self._round_trip)
            self._join(server, client, self._to_client, 0.0)

    def _join(self, source: socket.socket, target: socket.socket, lane: _Lane, first_delay: float) -> None:
        """Carry what comes from one end to the other, each piece when it is due."""
        pieces: queue.Queue[tuple[float, bytes]] = queue.Queue()
        opened = time.monotonic() + first_delay

        def take() -> None:
            while True:
                try:
                    piece = source.recv(_PIECE)
                except OSError:
                    piece = b""
                if lane is self._to_server:
                    self.counts.sent += len(piece)
                else:
                    self.counts.received += len(piece)
                pieces.put((lane.arrival(len(piece), max(opened - time.monotonic(), 0.0)), piece))
                if not piece:
                    return

        def give() -> None:
            with contextlib.suppress(OSError):
                while True:
                    due, piece = pieces.get()
                    time.sleep(max(due - time.monotonic(), 0.0))
                    if not piece:
                        target.shutdown(socket.SHUT_WR)
                        return
                    target.sendall(piece)

        for work in (take, give):
            threading.Thread(target=work, daemon=True).start()


@contextlib.contextmanager
def proxy(target: int, round_trip: float = 0.0, bytes_a_second: float = 0.0) -> Iterator[Proxy]:
    """Before the server at a port; seconds for a round trip, and 0 bytes a second for no limit."""
    made = Proxy(target, round_trip, bytes_a_second)
    try:
        yield made
    finally:
        made.close()

"""Redis, or any server with its protocol (RESP 2), as a remote: `redis://`, and `rediss://` with TLS.

AUTH, SELECT and the first command go in one write, so a reply takes two round trips on a new connection and
one later. A value's size precedes it, so oversized values are not received; slow transfers are cut off.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
import threading
import time
from collections.abc import Mapping

from nvccache.remote.service import MIN_RATE, OwnLimitError, Service, ServiceError, error_of
from nvccache.remote_url import Remote

TYPE_CHECKING = False  # `ssl` takes long to load
if TYPE_CHECKING:
    import ssl

Command = tuple[bytes, ...]
Reply = object  # bytes, int, ServiceError for an error reply, or None

_CHUNK = 1 << 18  # bytes per send or receive
_LONGEST = 1 << 12  # bytes of a line, and of a reply to the greeting
_OWN_LIMITS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


class RedisServer(Service):
    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._remote = remote
        self._environ = environ
        self._timeout = timeout
        prefix = remote.options.get("prefix", "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def get(self, name: str, most: int) -> bytes | None:
        found = self._request(most, (b"GET", self._key(name)))
        return found if isinstance(found, bytes) else None

    def put(self, name: str, content: bytes) -> None:
        ttl = self._remote.options.get("ttl")
        lifetime = (b"EX", ttl.encode()) if ttl else ()
        self._request(0, (b"SET", self._key(name), content, *lifetime))

    def _key(self, name: str) -> bytes:
        return (self._prefix + name).encode()

    def _request(self, most: int, command: Command) -> Reply:
        """The reply to a command; raises an error reply."""
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            connection = idle or Connection(self._remote, self._environ, self._timeout)
            try:
                reply = connection.request(command, most)
            except BaseException as error:
                connection.close()
                # The server may have closed an idle connection, which shows only now.
                if idle and isinstance(error, ServiceError) and error.word == "unreachable":
                    continue
                raise
            if connection.is_usable:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()
            if isinstance(reply, ServiceError):
                raise reply
            return reply


class Connection:
    """For one thread at a time. Raises ServiceError, after which it cannot be used."""

    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._timeout = timeout
        self._buffer = b""
        self._began = 0.0
        self._transferred = 0  # bytes since then
        self.is_usable = True
        self._greeting = _greeting(remote, environ)
        try:
            self._socket = _connected(remote, environ, timeout)
        except (OSError, UnicodeError) as error:
            raise _connect_error(error) from None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # `__init__` may have failed
            self._socket.close()

    def request(self, command: Command, most: int) -> Reply:
        """The reply; None if absent, or larger than `most` bytes, which makes the connection unusable."""
        self._began, self._transferred = time.monotonic(), 0
        greeting, self._greeting = self._greeting, []
        try:
            self._send(b"".join(map(_encoded, [*greeting, command])))
            for _ in greeting:
                reply = self._reply(_LONGEST)
                if isinstance(reply, ServiceError):
                    raise reply
            return self._reply(most)
        except TimeoutError:
            raise ServiceError("timeout") from None
        except OSError:
            raise ServiceError("unreachable") from None

    def _send(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            sent = self._socket.send(rest[:_CHUNK])
            self._check_rate(sent)
            rest = rest[sent:]

    def _reply(self, most: int) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return _error_of_reply(rest.decode(errors="replace"))
        if kind not in (b":", b"$") or not rest.removeprefix(b"-").isdigit():
            raise _not_redis()
        number = int(rest)
        if kind == b":":
            return number
        if number < 0:
            return None
        if number > most:
            self.is_usable = False
            return None
        return self._exactly(number + 2)[:number]

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > _LONGEST:
                raise _not_redis()
            self._buffer += self._received(_CHUNK)
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> bytes:
        parts, self._buffer = [self._buffer[:size]], self._buffer[size:]
        left = size - len(parts[0])
        while left:
            parts.append(self._received(min(left, _CHUNK)))
            left -= len(parts[-1])
        return b"".join(parts)

    def _received(self, most: int) -> bytes:
        part = self._socket.recv(most)
        if not part:
            raise ConnectionResetError
        self._check_rate(len(part))
        return part

    def _check_rate(self, size: int) -> None:
        """Count transferred bytes; raises ServiceError if the transfer is too slow."""
        self._transferred += size
        over = time.monotonic() - self._began - self._timeout
        if over > 0 and self._transferred < over * MIN_RATE:
            raise ServiceError("timeout", "the transfer is too slow")


def _greeting(remote: Remote, environ: Mapping[str, str]) -> list[Command]:
    """The first commands on a connection: user and password, and the database."""
    password = remote.password or environ.get("REDISCLI_AUTH", "")
    credentials = [text.encode() for text in (remote.user, password) if text]
    return [
        *([(b"AUTH", *credentials)] if password else []),
        *([(b"SELECT", remote.path.encode())] if remote.path != "0" else []),
    ]


def _connected(remote: Remote, environ: Mapping[str, str], timeout: float) -> socket.socket:
    host = remote.host.strip("[]")
    plain = socket.create_connection((host, remote.port), timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if remote.scheme == "redis":
            return plain
        context = _context(environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None)
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


@functools.lru_cache(maxsize=1)  # reading the system's certificates takes longer than a handshake
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context(cafile=file, capath=folder)


def _encoded(command: Command) -> bytes:
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        parts += [b"$%d\r\n" % len(argument), argument, b"\r\n"]
    return b"".join(parts)


def _not_redis() -> ServiceError:
    return ServiceError("broken", "it is not redis")


def _error_of_reply(message: str) -> ServiceError:
    if message.startswith("ERR max number of clients"):
        return ServiceError("throttled")
    return error_of(message)


def _connect_error(error: OSError | UnicodeError) -> ServiceError:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, TimeoutError):
        return ServiceError("timeout")
    if number in _OWN_LIMITS:
        return OwnLimitError("unreachable", f"this process: {os.strerror(number)}")
    # By name, since `isinstance` would need `ssl` loaded.
    if type(error).__module__ == "ssl":
        return ServiceError("tls")
    if isinstance(error, FileNotFoundError):
        return ServiceError("tls", text=f"`SSL_CERT_FILE` cannot be read: {os.strerror(number or 0)}")
    return ServiceError("unreachable")

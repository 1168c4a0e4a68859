"""Redis, or any server with its protocol (RESP 2), as a remote: `redis://`, and `rediss://` with TLS.

AUTH, SELECT and the first command go in one write, so a reply takes two round trips on a new connection and
one later. A value's size precedes it, so oversized values are not received.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Mapping

from nvccache.remote.service import Service, ServiceError, error_of
from nvccache.remote_url import Remote

TYPE_CHECKING = False  # `ssl` takes long to load
if TYPE_CHECKING:
    import ssl

Command = tuple[bytes, ...]

_CHUNK = 1 << 18  # bytes to send within a timeout
_LONGEST = 1 << 12  # bytes of a line


class RedisServer(Service):
    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._connect = functools.partial(Connection, remote, environ, timeout)
        self._prefix = f"{remote.options['prefix']}/" if "prefix" in remote.options else ""
        self._ttl = remote.options.get("ttl", "")
        self._idle: list[Connection] = []

    def get(self, name: str, most: int) -> bytes | None:
        return self._request(most, (b"GET", self._key(name)))

    def put(self, name: str, content: bytes) -> None:
        lifetime = (b"EX", self._ttl.encode()) if self._ttl else ()
        self._request(0, (b"SET", self._key(name), content, *lifetime))

    def _key(self, name: str) -> bytes:
        return (self._prefix + name).encode()

    def _request(self, most: int, command: Command) -> bytes | None:
        """The reply to a command."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            reply = connection.request(command, most)
        except BaseException:
            connection.close()
            raise
        if connection.is_usable:
            self._idle.append(connection)
        else:
            connection.close()
        return reply


class Connection:
    """For one thread at a time. Raises ServiceError, after which it cannot be used."""

    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self.is_usable = True
        self._greeting = _greeting(remote, environ)
        try:
            self._socket = _connected(remote, environ, timeout)
        except (OSError, UnicodeError) as error:
            # By name, since `isinstance` would need `ssl` loaded; FileNotFoundError is of SSL_CERT_FILE.
            is_tls = type(error).__module__ == "ssl" or isinstance(error, FileNotFoundError)
            word = "timeout" if isinstance(error, TimeoutError) else "tls" if is_tls else "unreachable"
            raise ServiceError(word) from None
        self._stream = self._socket.makefile("rb")

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # `__init__` may have failed
            self._socket.close()
            self._stream.close()

    def request(self, command: Command, most: int) -> bytes | None:
        """The reply; None if absent, or larger than `most` bytes, which makes the connection unusable."""
        greeting, self._greeting = self._greeting, []
        content = memoryview(b"".join(map(_encoded, [*greeting, command])))
        try:
            for start in range(0, len(content), _CHUNK):
                self._socket.sendall(content[start : start + _CHUNK])
            for _ in greeting:
                self._reply(0)
            return self._reply(most)
        except TimeoutError:
            raise ServiceError("timeout") from None
        except OSError:
            raise ServiceError("unreachable") from None

    def _reply(self, most: int) -> bytes | None:
        """Raises an error reply as a ServiceError."""
        line = self._stream.readline(_LONGEST)
        if not line:
            raise ConnectionResetError
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            message = rest.decode(errors="replace")
            is_full = message.startswith("ERR max number of clients")
            raise ServiceError("throttled") if is_full else error_of(message)
        if kind != b"$" or not rest.removeprefix(b"-").isdigit():
            raise ServiceError("broken", "it is not redis")
        size = int(rest)
        if size < 0:
            return None
        if size > most:
            self.is_usable = False
            return None
        content = self._stream.read(size + 2)
        if len(content) < size + 2:
            raise ConnectionResetError
        return content[:size]


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

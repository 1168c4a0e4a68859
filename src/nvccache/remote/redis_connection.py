"""One connection to a redis, in the second version of its protocol (RESP 2).

Greeting, database and question go in one write, so that an answer takes two round trips on a new connection
and one later. How large a value is comes before it, so that nothing is taken that is larger than what may
come; and nothing that drips.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
import time

from nvccache.remote import service_error
from nvccache.remote.service_error import SLOWEST, OwnLimitError, ServiceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from nvccache.remote_url import Remote

    Command = tuple[bytes, ...]
    Reply = object  # bytes, int, a list of these, Refusal, or None

_CHUNK = 1 << 18  # bytes that are sent or received at a time
LONGEST = 1 << 12  # bytes of a line, and of what a list has
_MOST_LISTED = 1 << 14  # names in a part of a list
_OWN_LIMITS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
_LISTS = {0: 2, 1: _MOST_LISTED}  # what SCAN answers, a cursor and names: most elements by depth


class Refusal:
    """What the server says no with."""

    def __init__(self, text: str) -> None:
        self.text = text


class Connection:
    """For one thread at a time. Raises ServiceError, after which it is of no use."""

    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._timeout = timeout
        self._buffer = b""
        self._began = 0.0
        self._moved = 0  # bytes since then
        self.is_usable = True
        self._greeting = _greeting(remote, environ)
        try:
            self._socket = _connected(remote, environ, timeout)
        except (OSError, UnicodeError) as error:
            raise _of_connecting(error) from None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # there may have been no connection
            self._socket.close()

    def ask(self, commands: Sequence[Command], most: int) -> Sequence[Reply]:
        """The answers; None for what is absent, or larger than `most` bytes, which ends the connection."""
        self._began, self._moved = time.monotonic(), 0
        try:
            return self._ask(commands, most)
        except TimeoutError:
            raise ServiceError("timeout") from None
        except OSError:
            raise ServiceError("unreachable") from None

    def _ask(self, commands: Sequence[Command], most: int) -> Sequence[Reply]:
        greeting, self._greeting = self._greeting, []
        self._send(b"".join(map(_encoded, greeting)), commands)
        for _ in greeting:
            refusal = self._reply(LONGEST, {})
            if isinstance(refusal, Refusal):
                raise fault_of(refusal)
        replies: list[Reply] = []
        for command in commands:
            # Nothing else is answered by a list, whose parts together nobody would count.
            replies.append(self._reply(most, _LISTS if command[0] == b"SCAN" else {}))
            if not self.is_usable:
                break
        if len(replies) < len(commands):
            raise no_redis()
        return replies

    def _send(self, content: bytes, commands: Sequence[Command]) -> None:
        for command in commands:
            content += _encoded(command)
            if len(content) > _CHUNK:
                self._send_now(content)
                content = b""
        self._send_now(content)

    def _send_now(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            sent = self._socket.send(rest[:_CHUNK])
            self._note(sent)
            rest = rest[sent:]

    def _reply(self, most: int, lists: Mapping[int, int], depth: int = 0) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Refusal(rest.decode(errors="replace"))
        if kind not in (b":", b"$", b"*") or not rest.removeprefix(b"-").isdigit():
            raise no_redis()
        number = int(rest)
        if kind == b":":
            return number
        if number < 0:
            return None
        if kind == b"*":
            if number > lists.get(depth, -1):
                raise no_redis()
            return [self._reply(LONGEST, lists, depth + 1) for _ in range(number)]
        if number > most:
            self.is_usable = False
            return None
        return self._exactly(number + 2)[:number]

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > LONGEST:
                raise no_redis()
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
        self._note(len(part))
        return part

    def _note(self, size: int) -> None:
        """Count what has been moved; raises ServiceError if it is too slow."""
        self._moved += size
        over = time.monotonic() - self._began - self._timeout
        if over > 0 and self._moved < over * SLOWEST:
            raise ServiceError("timeout", "it moves too slowly")


def _greeting(remote: Remote, environ: Mapping[str, str]) -> list[Command]:
    """What is said first on a connection: who we are, and the database."""
    password = remote.password or environ.get("REDISCLI_AUTH", "")
    words = [word.encode() for word in (remote.user, password) if word]
    return [
        *([(b"AUTH", *words)] if password else []),
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


@functools.lru_cache(maxsize=1)  # reading the certificates of the system takes longer than a handshake
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context(cafile=file, capath=folder)


def _encoded(command: Command) -> bytes:
    parts = [b"*%d\r\n" % len(command)]
    for word in command:
        parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
    return b"".join(parts)


def no_redis() -> ServiceError:
    return ServiceError("broken", "it is no redis")


def fault_of(refusal: Refusal) -> ServiceError:
    said = refusal.text
    if said.startswith("ERR max number of clients"):
        return ServiceError("throttled")
    return service_error.of(said)


def _of_connecting(error: OSError | UnicodeError) -> ServiceError:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, TimeoutError):
        return ServiceError("timeout")
    if number in _OWN_LIMITS:
        return OwnLimitError("unreachable", f"this process: {os.strerror(number)}")
    # Not by its type, for which `ssl` would have to be loaded.
    if type(error).__module__ == "ssl":
        return ServiceError("tls")
    if isinstance(error, FileNotFoundError):
        return ServiceError("tls", text=f"`SSL_CERT_FILE` cannot be read: {os.strerror(number or 0)}")
    return ServiceError("unreachable")

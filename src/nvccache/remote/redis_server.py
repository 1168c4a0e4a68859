"""A redis, or what speaks its protocol (RESP 2), as a remote: `redis://`, and `rediss://` with TLS.

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
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from nvccache.remote.service import SLOWEST, OwnLimitError, Service, ServiceError, error_of
from nvccache.remote_url import Remote

TYPE_CHECKING = False  # `ssl` takes long to load
if TYPE_CHECKING:
    import ssl

Command = tuple[bytes, ...]
Reply = object  # bytes, int, a list of these, ServiceError for a refusal, or None

_CHUNK = 1 << 18  # bytes that are sent or received at a time
_LONGEST = 1 << 12  # bytes of a line, and of a name in a list
_LISTED_AT_ONCE = b"1000"  # names that are asked for as a part of a list
_MOST_LISTED = 1 << 14  # that may come
_LISTS = {0: 2, 1: _MOST_LISTED}  # what SCAN answers, a cursor and names: most elements by depth
_LONGEST_IDLE = 1 << 32  # seconds
_SPECIAL = frozenset("*?[]^-\\")  # in what SCAN matches
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
        found = self._ask(most, (b"GET", self._key(name)))
        return found if isinstance(found, bytes) else None

    def has(self, name: str, size: int | None = None) -> bool:
        its_size = self._ask(0, (b"STRLEN", self._key(name)))
        return bool(its_size) and size in (None, its_size)

    def put(self, name: str, content: bytes) -> None:
        ttl = self._remote.options.get("ttl")
        lifetime = (b"EX", ttl.encode()) if ttl else ()
        self._ask(0, (b"SET", self._key(name), content, *lifetime))

    def delete(self, name: str) -> None:
        self._ask(0, (b"DEL", self._key(name)))

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        wanted = "".join(f"\\{each}" if each in _SPECIAL else each for each in self._prefix + prefix)
        cursor = b"0"
        listed: set[bytes] = set()  # SCAN may list a name twice
        while True:
            command = (b"SCAN", cursor, b"MATCH", wanted.encode() + b"*", b"COUNT", _LISTED_AT_ONCE)
            cursor, keys = _part_of_list(self._ask(_LONGEST, command))
            new = [key for key in keys if key not in listed]
            listed.update(new)
            yield from self._sizes_and_times(new)
            if cursor == b"0":
                return

    def _sizes_and_times(self, keys: Sequence[bytes]) -> Iterator[tuple[str, int, float]]:
        # In this order: asking for the size counts as a use.
        idle = self._ask_all(0, [(b"OBJECT", b"IDLETIME", key) for key in keys])
        sizes = self._ask_all(0, [(b"STRLEN", key) for key in keys])
        for key, seconds, size in zip(keys, idle, sizes, strict=True):
            name = key.decode(errors="replace").removeprefix(self._prefix)
            if isinstance(size, int) and size:
                used = 0.0
                if isinstance(seconds, int) and 0 <= seconds < _LONGEST_IDLE:
                    used = time.time() - seconds
                yield name, size, used

    def _key(self, name: str) -> bytes:
        return (self._prefix + name).encode()

    def _ask(self, most: int, command: Command) -> Reply:
        """The answer to a command; a refusal is raised."""
        (reply,) = self._ask_all(most, [command])
        if isinstance(reply, ServiceError):
            raise reply
        return reply

    def _ask_all(self, most: int, commands: Sequence[Command]) -> Sequence[Reply]:
        while commands:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            connection = idle or Connection(self._remote, self._environ, self._timeout)
            try:
                replies = connection.ask(commands, most)
            except BaseException as error:
                connection.close()
                # A server ends connections that nobody uses, which is noticed too late.
                if idle and isinstance(error, ServiceError) and error.word == "unreachable":
                    continue
                raise
            if connection.is_usable:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()
            return replies
        return []


def _part_of_list(reply: Reply) -> tuple[bytes, list[bytes]]:
    if isinstance(reply, list) and len(reply) == 2:
        cursor, keys = reply
        if isinstance(cursor, bytes) and isinstance(keys, list):
            return cursor, [key for key in keys if isinstance(key, bytes)]
    raise _no_redis()


class Connection:
    """For one thread at a time. Raises ServiceError, after which it cannot be used."""

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
        greeting, self._greeting = self._greeting, []
        replies: list[Reply] = []
        try:
            self._send(b"".join(map(_encoded, [*greeting, *commands])))
            for _ in greeting:
                refusal = self._reply(_LONGEST, {})
                if isinstance(refusal, ServiceError):
                    raise refusal
            for command in commands:
                # Nothing else is answered by a list, whose parts together nobody would count.
                replies.append(self._reply(most, _LISTS if command[0] == b"SCAN" else {}))
                if not self.is_usable:
                    break
        except TimeoutError:
            raise ServiceError("timeout") from None
        except OSError:
            raise ServiceError("unreachable") from None
        if len(replies) < len(commands):
            raise _no_redis()
        return replies

    def _send(self, content: bytes) -> None:
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
            return _refusal(rest.decode(errors="replace"))
        if kind not in (b":", b"$", b"*") or not rest.removeprefix(b"-").isdigit():
            raise _no_redis()
        number = int(rest)
        if kind == b":":
            return number
        if number < 0:
            return None
        if kind == b"*":
            if number > lists.get(depth, -1):
                raise _no_redis()
            return [self._reply(_LONGEST, lists, depth + 1) for _ in range(number)]
        if number > most:
            self.is_usable = False
            return None
        return self._exactly(number + 2)[:number]

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > _LONGEST:
                raise _no_redis()
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


@functools.lru_cache(maxsize=1)  # reading the certificates of the system takes longer than a handshake
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context(cafile=file, capath=folder)


def _encoded(command: Command) -> bytes:
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        parts += [b"$%d\r\n" % len(argument), argument, b"\r\n"]
    return b"".join(parts)


def _no_redis() -> ServiceError:
    return ServiceError("broken", "it is no redis")


def _refusal(message: str) -> ServiceError:
    if message.startswith("ERR max number of clients"):
        return ServiceError("throttled")
    return error_of(message)


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

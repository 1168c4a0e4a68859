"""A redis, or what speaks its protocol, as a remote: `redis://`, and `rediss://` with TLS."""

from __future__ import annotations

import threading
import time

from nvccache.remote.redis_connection import LONGEST, Connection, Refusal, fault_of, no_redis
from nvccache.remote.service_error import ServiceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nvccache.remote.redis_connection import Command, Reply
    from nvccache.remote_url import Remote

_AT_ONCE = 1000  # names of a part of a list
_LONGEST_IDLE = 1 << 32  # seconds
_SPECIAL = frozenset("*?[]^-\\")  # in what SCAN matches


class RedisServer:
    """Thread-safe. Raises ServiceError; `timeout` is how long an answer, or a part of one, may take."""

    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._remote = remote
        self._environ = environ
        self._timeout = timeout
        prefix = remote.options.get("prefix", "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def get(self, name: str, most: int) -> bytes | None:
        """None where there is no such name, or more than `most` bytes under it."""
        found = self._ask(most, (b"GET", self._key(name)))[0]
        return found if isinstance(found, bytes) else None

    def has(self, name: str, size: int | None = None) -> bool:
        its_size = self._ask(0, (b"STRLEN", self._key(name)))[0]
        return bool(its_size) and size in (None, its_size)

    def put(self, name: str, content: bytes) -> None:
        ttl = self._remote.options.get("ttl")
        lifetime = (b"EX", ttl.encode()) if ttl else ()
        self._ask(0, (b"SET", self._key(name), content, *lifetime))

    def delete(self, name: str) -> None:
        """Also of what is not there."""
        self._ask(0, (b"DEL", self._key(name)))

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        """The names that begin with `prefix`; sizes; when they were last used, as far as the server tells."""
        wanted = "".join(f"\\{each}" if each in _SPECIAL else each for each in self._prefix + prefix)
        cursor = b"0"
        seen: set[bytes] = set()  # SCAN may tell of a name twice
        while True:
            words = (b"SCAN", cursor, b"MATCH", wanted.encode() + b"*", b"COUNT", str(_AT_ONCE).encode())
            cursor, keys = _part_of_list(self._ask(LONGEST, words)[0])
            new = [key for key in keys if key not in seen]
            seen.update(new)
            yield from self._told_of(new)
            if cursor == b"0":
                return

    def _told_of(self, keys: Sequence[bytes]) -> Iterator[tuple[str, int, float]]:
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

    def _ask(self, most: int, *commands: Command) -> Sequence[Reply]:
        """The answers to commands; a refusal is raised."""
        replies = self._ask_all(most, list(commands))
        for reply in replies:
            if isinstance(reply, Refusal):
                raise fault_of(reply)
        return replies

    def _ask_all(self, most: int, commands: Sequence[Command]) -> Sequence[Reply]:
        if not commands:
            return []
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection:
            # A server ends connections that nobody uses, which is found out too late.
            try:
                return self._ask_by(connection, most, commands)
            except ServiceError as error:
                if error.word != "unreachable":
                    raise
        return self._ask_by(None, most, commands)

    def _ask_by(
        self, connection: Connection | None, most: int, commands: Sequence[Command]
    ) -> Sequence[Reply]:
        if connection is None:
            connection = Connection(self._remote, self._environ, self._timeout)
        try:
            replies = connection.ask(commands, most)
        except BaseException:
            connection.close()
            raise
        if connection.is_usable:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()
        return replies


def _part_of_list(reply: Reply) -> tuple[bytes, list[bytes]]:
    if isinstance(reply, list) and len(reply) == 2:
        cursor, keys = reply
        if isinstance(cursor, bytes) and isinstance(keys, list):
            return cursor, [key for key in keys if isinstance(key, bytes)]
    raise no_redis()

"""redis-server (Debian: redis-server) with a writer and a reader, and as small as asked for."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import servers

WRITER, READER, PASSWORD = "writer", "reader", "s3cret-of-redis"
_READS = "+@read +@connection -@dangerous"


@dataclass(frozen=True)
class Redis:
    """A server that is up, and how to reach it."""

    port: int

    def url(self, user: str = WRITER, password: str = PASSWORD, prefix: str = "nv", port: int = 0) -> str:
        """The URL that a user of nvccache sets; with the port of a proxy, if any."""
        return f"redis://{user}:{password}@{servers.HOST}:{port or self.port}/0?prefix={prefix}"

    def command(self, *words: str | bytes) -> bytes:
        """One command as the writer; the raw reply."""
        with socket.create_connection((servers.HOST, self.port), timeout=10) as line:
            line.sendall(_encoded("AUTH", "default", PASSWORD))
            _reply(line)
            line.sendall(_encoded(*words))
            return _reply(line)

    def keys(self) -> list[bytes]:
        return self.command("KEYS", "*").split(b"\r\n")[2::2]


@contextlib.contextmanager
def redis(directory: Path, *options: str) -> Iterator[Redis]:
    """`options` are redis-server's own, such as `--maxmemory 2mb --maxmemory-policy noeviction`."""
    argv = [servers.program("redis-server", "apt install redis-server")]
    directory.mkdir()
    port = servers.free_port()
    users = directory / "users.acl"
    users.write_text(
        f"user default on >{PASSWORD} ~* &* +@all\n"
        f"user {WRITER} on >{PASSWORD} ~* +@read +@write +@connection +info\n"
        f"user {READER} on >{PASSWORD} ~* {_READS}\n"
    )
    argv += ["--port", str(port), "--bind", servers.HOST, "--save", "", "--aclfile", str(users), *options]
    with servers.running(argv, directory, port):
        yield Redis(port)


def _encoded(*words: str | bytes) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _reply(line: socket.socket) -> bytes:
    """All of a reply, which is known to be whole when its count of lines is there."""
    content = line.recv(1 << 16)
    while not _is_whole(content):
        more = line.recv(1 << 16)
        if not more:
            break
        content += more
    return content


def _is_whole(content: bytes) -> bool:
    head, found, rest = content.partition(b"\r\n")
    if not found:
        return False
    if head.startswith(b"$"):
        return head == b"$-1" or len(rest) >= int(head[1:]) + 2
    if head.startswith(b"*"):
        return rest.count(b"\r\n") >= 2 * int(head[1:])  # of keys, which hold no line ends
    return True

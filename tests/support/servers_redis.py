"""redis-server (Debian: redis-server) with a writer and a reader, and as small as asked for."""

from __future__ import annotations

import contextlib
import subprocess
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

    def command(self, *words: str) -> str:
        """The reply to one command of the writer, by the server's own client."""
        argv = ["redis-cli", "-p", str(self.port), "-a", PASSWORD, "--no-auth-warning", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


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

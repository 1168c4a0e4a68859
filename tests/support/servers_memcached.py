"""memcached (Debian: memcached)."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Iterator
from pathlib import Path

from support import servers


@contextlib.contextmanager
def memcached(directory: Path, *options: str) -> Iterator[str]:
    """The URL of an empty one; `options` are its own, such as `-I 4m`."""
    argv = [servers.program("memcached", "apt install memcached")]
    directory.mkdir()
    port = servers.free_port()
    argv += ["-l", servers.HOST, "-p", str(port), "-u", getpass.getuser(), *options]
    with servers.running(argv, directory, port):
        yield f"memcached://{servers.HOST}:{port}?prefix=nv"

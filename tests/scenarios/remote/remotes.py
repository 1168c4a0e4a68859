"""Remotes of each kind, by name, for tests of machines that share one; skipped with a reason if absent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support import (
    fault_server,
    servers_clouds,
    servers_github,
    servers_memcached,
    servers_nginx,
    servers_redis,
    servers_s3,
)

BY_DEFAULT = ("directory", "files", "github", "redis", "memcached", "nginx")  # these need no installation
KINDS = (*BY_DEFAULT, "moto", "azurite", "gcs")


@dataclass(frozen=True)
class Shared:
    """A remote: its URL, and the variables that it needs."""

    url: str
    environ: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def remote(kind: str, directory: Path) -> Iterator[Shared]:
    """An empty one that is writable with its URL and its environment."""
    if kind == "directory":
        directory.mkdir(exist_ok=True)
        yield Shared(f"file://{directory}")
    elif kind == "files":
        with fault_server.store() as files:
            yield Shared(files.url())
    elif kind == "github":
        with servers_github.actions_cache() as github:
            yield Shared("ghac:///pr-1", github.environ())
    elif kind == "memcached":
        with servers_memcached.memcached(directory) as url:
            yield Shared(url)
    elif kind == "redis":
        with servers_redis.redis(directory) as redis:
            yield Shared(redis.url())
    elif kind == "nginx":
        with servers_nginx.nginx(directory) as nginx:
            yield Shared(nginx.url())
    elif kind == "moto":
        with servers_s3.moto(directory) as s3:
            yield Shared(s3.url(), servers_s3.ENVIRON)
    else:
        with {"azurite": servers_clouds.azurite, "gcs": servers_clouds.fake_gcs}[kind](directory) as cloud:
            yield Shared(cloud.url, cloud.environ)

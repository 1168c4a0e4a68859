"""Chooses the client for a remote's URL. To add one: docs/development/extending.md."""

from __future__ import annotations

from collections.abc import Mapping

from nvccache.remote.service import Service
from nvccache.remote_url import Remote


def connect(remote: Remote, environ: Mapping[str, str], timeout: float = 10.0) -> Service:
    """`timeout` is for each read or write, not for a whole request. Raises ServiceError."""
    if remote.scheme == "file":
        from nvccache.remote.shared_directory import SharedDirectory

        return SharedDirectory(remote.path)
    if remote.scheme in ("redis", "rediss"):
        from nvccache.remote.redis_server import RedisServer

        return RedisServer(remote, environ, timeout)
    from nvccache.remote.object_store import ObjectStore

    return ObjectStore(remote, environ, timeout)

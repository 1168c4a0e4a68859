"""One remote as a place to get from and put to, of whatever kind it is.

Blocks: who must not wait asks on a thread (tier.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from nvccache.remote_url import Remote


class Service(ABC):
    """Thread-safe. All methods raise ServiceError."""

    @abstractmethod
    def get(self, name: str, most: int) -> bytes | None:
        """What has this name; None where there is no such name, or more than `most` bytes under it."""

    @abstractmethod
    def has(self, name: str, size: int | None = None) -> bool:
        """Whether something has this name and, where a size is given and the server has one, this size."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def delete(self, name: str) -> None:
        """Also of what is not there."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        """The names that begin with `prefix`, which ends with `/` or is empty; sizes; when they were changed.

        Times are Unix times, 0 where the server has none; with redis, when a name was last used.
        """

    def sweep(self) -> None:
        """Remove what killed processes have left half written; only a directory has that."""
        return


def connect(remote: Remote, environ: Mapping[str, str], timeout: float = 10.0) -> Service:
    """A client of a remote; `timeout` is how long a part of an answer may take. Raises ServiceError."""
    if remote.scheme == "file":
        from nvccache.remote.shared_directory import SharedDirectory

        return SharedDirectory(remote.path)
    if remote.scheme in ("redis", "rediss"):
        from nvccache.remote.redis_server import RedisServer

        return RedisServer(remote, environ, timeout)
    from nvccache.remote.object_store import ObjectStore

    return ObjectStore(remote, environ, timeout)

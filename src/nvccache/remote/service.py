"""One remote as a place to get from and put to: the one importer of opendal.

A directory and a redis are spoken to without it.

Blocks: whoever must not wait asks on a thread (tier.py). opendal itself waits for ever unless told
otherwise, and for each piece of an answer anew: what limits all of it is a rate, below which a server counts
as one that does not answer.
"""

from __future__ import annotations

import time

from nvccache.remote import client_limits, service_error, service_options
from nvccache.remote.redis_server import RedisServer
from nvccache.remote.service_error import SLOWEST, ServiceError
from nvccache.remote.shared_directory import SharedDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    from nvccache.remote_url import Remote

    Result = TypeVar("Result")

__all__ = ["Service", "ServiceError"]

_CHUNK = 1 << 18  # bytes that are read at a time


class Service:
    """Raises ServiceError. `timeout` is how long an answer, or a part of one, may take."""

    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float = 10.0) -> None:
        self.remote = remote
        self._timeout = timeout
        self._environ = environ
        self._writer_made: Any = None
        if remote.scheme == "file":
            self._own: SharedDirectory | RedisServer | None = SharedDirectory(remote.path)
            return
        if remote.scheme in ("redis", "rediss"):
            self._own = RedisServer(remote, environ, timeout)
            return
        self._own = None
        service, options = service_options.of_reader(remote, environ)
        # Of a bucket, those who may not list it are refused what is missing, whoever they are.
        is_bucket = remote.scheme in ("s3", "gs", "azblob")
        self._denies_what_is_missing = is_bucket or service_options.is_anonymous(options)
        self._reader = self._operator(service, options)

    def get(self, name: str, most: int) -> bytes | None:
        """What has this name; None where there is no such name, or more than `most` bytes under it."""
        if self._own:
            return self._own.get(name, most)
        return self._asked(lambda: self._read(name, most), None)

    def has(self, name: str, size: int | None = None) -> bool:
        """Whether something has this name and, where a size is given and the server tells one, this size."""
        if self._own:
            return self._own.has(name, size)
        # A web server need not tell the size of what it has; that looks like nothing.
        is_telling = self.remote.scheme not in ("http", "https")

        def ask() -> bool:
            its_size = self._reader.stat(name).content_length
            return size is None or its_size == size or not (its_size or is_telling)

        return self._asked(ask, False)

    def put(self, name: str, content: bytes) -> None:
        if self._own:
            self._own.put(name, content)
            return
        try:
            self._told(lambda: self._writer().write(name, content))
        except ServiceError as error:
            if error.status != "409" or self.remote.scheme not in ("http", "https"):
                raise
            # Of the WebDAV servers some make the folders of what is put, others want to be told.
            service, options = service_options.of_writer(self.remote, self._environ)
            self._writer_made = self._operator(service, {**options, "disable_create_dir": "false"})
            self._told(lambda: self._writer().write(name, content))

    def delete(self, name: str) -> None:
        """Also of what is not there."""
        if self._own:
            self._own.delete(name)
        else:
            self._told(lambda: self._writer().delete(name))

    def sweep(self) -> None:
        """Remove what killed processes have left half written; only a directory has that."""
        if isinstance(self._own, SharedDirectory):
            self._own.sweep()

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        """The names that begin with `prefix`, which ends with `/` or is empty; sizes; times of change."""
        if self._own:
            yield from self._own.list(prefix)
            return
        entries = self._told(lambda: iter(self._writer().list(prefix, recursive=True)))
        while (entry := self._told(lambda: next(entries, None))) is not None:
            name = entry.path
            if not name.endswith("/"):
                found = self._told(lambda: self._with_metadata(entry))
                if found:
                    yield name, found.content_length, _seconds(found.last_modified)

    def _with_metadata(self, entry: Any) -> Any:
        metadata = getattr(entry, "metadata", None)
        if metadata is not None and metadata.content_length is not None and metadata.last_modified:
            return metadata
        return self._writer().stat(entry.path)

    def _operator(self, service: str, options: Mapping[str, str]) -> Any:
        client_limits.prepare()
        try:
            import opendal
            from opendal.layers import TimeoutLayer
        except ImportError:
            raise ServiceError("not_installed") from None
        try:
            operator = opendal.Operator(service, **options)
            return operator.layer(TimeoutLayer(self._timeout, self._timeout))
        except Exception as error:
            raise service_error.of(str(error)) from None

    def _writer(self) -> Any:
        if self._writer_made is None:
            self._writer_made = self._operator(*service_options.of_writer(self.remote, self._environ))
        return self._writer_made

    def _read(self, name: str, most: int) -> bytes | None:
        """In one request: a size that is asked for first, or a range, would be one more, or an error."""
        began = time.monotonic()
        parts: list[bytes] = []
        size = 0
        with self._reader.open(name, "rb") as stream:
            while part := stream.read(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > most:
                    return None
                seconds = time.monotonic() - began
                if seconds > self._timeout and size < (seconds - self._timeout) * SLOWEST:
                    raise ServiceError("timeout", "it sends too slowly")
        return b"".join(parts)

    def _asked(self, operation: Callable[[], Result], absent: Result) -> Result:
        """The result of an operation, `absent` where the remote says that there is no such name."""
        try:
            return operation()
        except ServiceError:
            raise
        except Exception as error:
            said = str(error)
            if service_error.is_absence(said):
                return absent
            said = self._reason() if service_error.is_vague(said) else said
            fault = service_error.of(said)
            is_of_name = self._denies_what_is_missing and service_error.is_of_one_name(said)
            if fault.word == "denied" and is_of_name:
                return absent
            raise fault from None

    def _reason(self) -> str:
        """What opendal says of a request of another kind, since what it said of a stream had no reason."""
        try:
            self._reader.stat("1")
        except Exception as error:
            return str(error)
        return "connection lost"

    def _told(self, operation: Callable[[], Result]) -> Result:
        try:
            return operation()
        except ServiceError:
            raise
        except Exception as error:
            raise service_error.of(str(error)) from None


def _seconds(moment: Any) -> float:
    """A time of change in seconds since 1970, 0 where the server does not say."""
    return moment.timestamp() if moment is not None else 0.0

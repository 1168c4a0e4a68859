"""One remote as a place to get from and put to: the one importer of opendal.

Blocks: whoever must not wait asks on a thread (deadline.py). opendal itself waits for ever unless told
otherwise, and for each piece of an answer anew: what limits all of it is `rate`, below which a server counts
as one that does not answer.
"""

from __future__ import annotations

import time

from nvccache.remote import service_error, service_options
from nvccache.remote.service_error import ServiceError
from nvccache.remote.shared_directory import SharedDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    from nvccache.remote.url import Remote

    Result = TypeVar("Result")

__all__ = ["Service", "ServiceError"]

_CHUNK = 1 << 18  # bytes that are read at a time
SLOWEST = 32 * 1024  # bytes a second, once a second has gone by


class Service:
    """Raises ServiceError. `timeout` is how long an answer, or a part of one, may take."""

    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float = 10.0) -> None:
        self.remote = remote
        self._timeout = timeout
        self._environ = environ
        self._writer_made: Any = None
        if remote.scheme == "file":
            self._directory: SharedDirectory | None = SharedDirectory(remote.path)
            return
        self._directory = None
        self._is_signed = service_options.has_credentials(remote, environ)
        self._reader = self._operator(*service_options.of_reader(remote, environ))

    def get(self, name: str, most: int) -> bytes | None:
        """What has this name; None where there is no such name, or more than `most` bytes under it."""
        if self._directory:
            return self._directory.get(name, most)
        return self._asked(lambda: self._read(name, most), None)

    def has(self, name: str) -> bool:
        if self._directory:
            return self._directory.has(name)
        return self._asked(lambda: bool(self._reader.stat(name)), False)

    def put(self, name: str, content: bytes) -> None:
        if self._directory:
            self._directory.put(name, content)
        else:
            self._told(lambda: self._writer().write(name, content))

    def delete(self, name: str) -> None:
        """Also of what is not there."""
        if self._directory:
            self._directory.delete(name)
        else:
            self._told(lambda: self._writer().delete(name))

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        """The names that begin with `prefix`, which ends with `/` or is empty; sizes; times of change."""
        if self._directory:
            yield from self._directory.list(prefix)
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
            if service_error.is_absence(str(error)):
                return absent
            fault = service_error.of(str(error))
            if fault.word == "denied" and self._denies_what_is_missing():
                return absent
            raise fault from None

    def _denies_what_is_missing(self) -> bool:
        """Whether a refusal can mean that there is no such name: to whoever may not list, it often does."""
        return self.remote.scheme in ("s3", "gs", "azblob") or not self._is_signed

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

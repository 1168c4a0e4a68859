"""Remotes on servers and cloud services, through opendal, which no other module imports.

opendal's timeout is for each read or write, not for a whole request, so callers limit the total time. If a
connection fails, opendal's redis client tries again until the timeout.

Cloud services use the credentials of their own tools, from variables or files; servers use those in the URL.
The metadata service of cloud machines is queried only if the URL says so, since on other machines it takes
seconds until the connection fails.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from nvccache.remote.backend import Backend, BackendError, error_of
from nvccache.remote_url import Remote

TYPE_CHECKING = False  # loading typing would make hits from remotes slower
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 1 << 18  # bytes per read
_EXISTS = "create cache entry returns non-ok"  # in opendal's message if GitHub's cache already has the entry


class ObjectStore(Backend):
    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._remote = remote
        self._environ = environ
        self._timeout = timeout
        self._operators: dict[bool, Any] = {}  # opendal's clients for reading (False) and for writing (True)
        service, options = options_of(remote, environ)
        # Without permission to list a bucket, the answer for a missing object is "denied", not "not found".
        self._may_deny_missing = service != "http" or "password" not in options
        self._operator()

    def get(self, name: str, most: int) -> bytes | None:
        """Sends one request. It neither queries the size first nor requests a range, which may fail."""
        try:
            return self._read(name, most)
        except BackendError:
            raise
        except Exception as error:
            message = str(error)
            if message.startswith("NotFound "):  # the exception's type does not always say so
                return None
            fault = error_of(self._cause() if message.endswith("error sending request") else message)
            if fault.word == "denied" and fault.status == "403" and self._may_deny_missing:
                return None
            raise fault from None

    def put(self, name: str, content: bytes) -> None:
        operator = self._operator(for_writing=True)
        try:
            operator.write(name, content)
        except Exception as error:
            fault = error_of(str(error))
            if self._remote.scheme == "ghac" and (fault.status == "409" or _EXISTS in str(error)):
                return  # GitHub never replaces an entry
            service, options = options_of(self._remote, self._environ, for_writing=True)
            if fault.status != "409" or service != "webdav":
                raise fault from None
            # 409 Conflict: this WebDAV server does not create parent collections on PUT, so opendal must.
            operator = self._connect(service, {**options, "disable_create_dir": "false"})
            self._operators[True] = operator
            with _faults():
                operator.write(name, content)

    def _operator(self, for_writing: bool = False) -> Any:
        operator = self._operators.get(for_writing)
        # memcached gets a new connection for each request. On a used one, a request takes 88 ms, because
        # small packets wait for delayed acknowledgements.
        if operator is None or self._remote.scheme == "memcached":
            operator = self._connect(*options_of(self._remote, self._environ, for_writing))
            self._operators[for_writing] = operator
        return operator

    def _connect(self, service: str, options: Mapping[str, str]) -> Any:
        if "TOKIO_WORKER_THREADS" not in os.environ:
            # Otherwise, opendal starts a thread per core. Not set in os.environ, which the tools of a compile
            # inherit.
            os.putenv("TOKIO_WORKER_THREADS", "2")
        try:
            import opendal
            from opendal.layers import TimeoutLayer
        except ImportError:
            raise BackendError("not_installed") from None
        with _faults():
            return opendal.Operator(service, **options).layer(TimeoutLayer(self._timeout, self._timeout))

    def _read(self, name: str, most: int) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        with self._operator().open(name, "rb") as stream:
            while part := stream.read(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > most:
                    return None
        return b"".join(parts)

    def _cause(self) -> str:
        """Why the last read failed: the error of a second request, since errors of streams lack a cause."""
        try:
            self._operator().stat("1")
        except Exception as error:
            return str(error)
        return "connection lost"


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Converts exceptions of opendal to BackendError."""
    try:
        yield
    except Exception as error:
        raise error_of(str(error)) from None


def options_of(
    remote: Remote, environ: Mapping[str, str], for_writing: bool = False
) -> tuple[str, dict[str, str]]:
    """opendal's service and its options, for reading or for writing."""
    given, options = remote.options, {"root": f"/{remote.path}"}
    if remote.scheme in ("http", "https"):
        options["endpoint"] = f"{remote.scheme}://{remote.host}:{remote.port}"
        if remote.user or remote.password:
            options |= {"username": remote.user, "password": remote.password}
        # Servers such as nginx create parent collections on PUT. opendal would need PROPFIND to create them,
        # which some servers lack.
        return ("webdav", {**options, "disable_create_dir": "true"}) if for_writing else ("http", options)
    if remote.scheme in ("redis", "memcached"):
        transport = "redis" if remote.scheme == "redis" else "tcp"
        password = remote.password or (environ.get("REDISCLI_AUTH", "") if remote.scheme == "redis" else "")
        options = {
            "root": f"/{given.get('prefix', '')}",
            "endpoint": f"{transport}://{remote.host}:{remote.port}",
        }
        options |= {"username": remote.user, "password": password, "db": remote.path}
        options["default_ttl"] = f"{given['ttl']}s" if "ttl" in given else ""
        return remote.scheme, {name: value for name, value in options.items() if value}
    if remote.scheme == "ghac":  # opendal reads the rest from the variables of GitHub's runner
        return "ghac", {**options, "version": "nvccache"}
    if given.get("anonymous"):
        options["skip_signature"] = "true"
    if remote.scheme == "azblob":
        account = given.get("account") or environ.get("AZURE_STORAGE_ACCOUNT", "")
        options["container"] = remote.host
        options["endpoint"] = given.get("endpoint") or f"https://{account}.blob.core.windows.net"
        options["account_name"] = account
        # opendal itself does not read these variables.
        options["account_key"] = environ.get("AZURE_STORAGE_ACCOUNT_KEY", "")
        options["sas_token"] = environ.get("AZURE_STORAGE_SAS_TOKEN", "").lstrip("?")
        return "azblob", {name: value for name, value in options.items() if value}
    options["bucket"] = remote.host
    if remote.scheme == "gs":
        options["endpoint"] = given.get("endpoint", "")
        options["disable_vm_metadata"] = "" if given.get("metadata") else "true"
        return "gcs", {name: value for name, value in options.items() if value}
    options["endpoint"] = given.get("endpoint") or environ.get("AWS_ENDPOINT_URL", "")
    # Most services other than AWS accept any region. AWS answers with the right region.
    regions = (given.get("region"), environ.get("AWS_REGION"), environ.get("AWS_DEFAULT_REGION"), "us-east-1")
    options["region"] = next(filter(None, regions))
    options["profile"] = given.get("profile", "")
    options["enable_virtual_host_style"] = "true" if given.get("virtual_host") else ""
    options["disable_ec2_metadata"] = "" if given.get("ec2") else "true"
    return "s3", {name: value for name, value in options.items() if value}

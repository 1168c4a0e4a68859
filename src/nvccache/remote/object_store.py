"""S3, Google Cloud Storage, Azure Blob Storage and web servers as remotes: the one importer of opendal.

opendal has no timeout by default, and only one per read, not per request. A minimum rate (MIN_RATE) limits
the whole: a slower server counts as one that does not answer.

Credentials are those of the service's own tools: from variables, from their files, and for HTTP also from the
URL. Without credentials, requests are unsigned, since a bucket may be public. The metadata service of cloud
machines is queried only if the URL says so: anywhere else it takes seconds until the connection fails.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping

from nvccache import config
from nvccache.remote.service import (
    MIN_RATE,
    OwnLimitError,
    Service,
    ServiceError,
    error_of,
    is_not_found,
    lacks_cause,
    may_concern_one_name,
)
from nvccache.remote_url import Remote

TYPE_CHECKING = False  # a hit from a remote has no time to load typing
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 1 << 18  # bytes per read
# By default opendal's runtime starts one thread per core, in each process of a build.
_WORKERS_VARIABLE, _WORKERS = "TOKIO_WORKER_THREADS", "2"
_THREADS = 4  # the workers, one for DNS, and one that another process may start meanwhile
_DESCRIPTORS = 16  # 6 of the runtime, and connections
_AWS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_AZURE = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN")


class ObjectStore(Service):
    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._remote = remote
        self._timeout = timeout
        self._environ = environ
        self._is_web = remote.scheme in ("http", "https")
        service, options = options_of(remote, environ)
        # Without permission to list a bucket, a missing object is denied instead of not found.
        is_anonymous = "skip_signature" in options or not {"password", "username"} & options.keys()
        self._may_deny_missing = is_anonymous or not self._is_web
        self._reader = self._operator(service, options)
        self._writer_made: Any = None

    def get(self, name: str, most: int) -> bytes | None:
        """In one request: querying the size first would be a second one, and a range can be an error."""
        try:
            return self._read(name, most)
        except ServiceError:
            raise
        except Exception as error:
            message = str(error)
            if is_not_found(message):
                return None
            message = self._cause() if lacks_cause(message) else message
            fault = error_of(message)
            if fault.word == "denied" and self._may_deny_missing and may_concern_one_name(message):
                return None
            raise fault from None

    def put(self, name: str, content: bytes) -> None:
        try:
            with _faults():
                self._writer().write(name, content)
        except ServiceError as error:
            if error.status != "409" or not self._is_web:
                raise
            # 409 Conflict: this WebDAV server does not create parent collections on PUT.
            with _faults():
                self._writer(disable_create_dir="false").write(name, content)

    def _operator(self, service: str, options: Mapping[str, str]) -> Any:
        check_limits()
        try:
            import opendal
            from opendal.layers import TimeoutLayer
        except ImportError:
            raise ServiceError("not_installed") from None
        with _faults():
            return opendal.Operator(service, **options).layer(TimeoutLayer(self._timeout, self._timeout))

    def _writer(self, **further: str) -> Any:
        """The operator that writes; `further` options apply to later calls, too."""
        if self._writer_made is None or further:
            service, options = options_of(self._remote, self._environ, for_writing=True)
            self._writer_made = self._operator(service, {**options, **further})
        return self._writer_made

    def _read(self, name: str, most: int) -> bytes | None:
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
                if seconds > self._timeout and size < (seconds - self._timeout) * MIN_RATE:
                    raise ServiceError("timeout", "the transfer is too slow")
        return b"".join(parts)

    def _cause(self) -> str:
        """The message of another kind of request, since errors of streams lack a cause."""
        try:
            self._reader.stat("1")
        except Exception as error:
            return str(error)
        return "connection lost"


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Converts exceptions of opendal to ServiceError."""
    try:
        yield
    except ServiceError:
        raise
    except Exception as error:
        raise error_of(str(error)) from None


def check_limits() -> None:
    """Call this before importing opendal; raises OwnLimitError if opendal would panic.

    It panics if it gets no thread or descriptor, and prints that to stderr even if the exception is caught.
    """
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        raise OwnLimitError("unreachable", f"this process: {error.strerror}") from None
    if most != resource.RLIM_INFINITY and used + _DESCRIPTORS > most:
        raise OwnLimitError("unreachable", f"this process may open {most} files")
    # Whether the user may start more threads can only be found out by starting them.
    end = threading.Event()
    try:
        for _ in range(_THREADS):
            threading.Thread(target=end.wait, daemon=True).start()
    except RuntimeError:
        raise OwnLimitError("unreachable", "this process cannot start another thread") from None
    finally:
        end.set()
    if _WORKERS_VARIABLE not in os.environ:
        # Not in os.environ, which the tools of a compile inherit.
        os.putenv(_WORKERS_VARIABLE, _WORKERS)


def options_of(
    remote: Remote, environ: Mapping[str, str], for_writing: bool = False
) -> tuple[str, dict[str, str]]:
    """opendal's service and its options, for reading or for writing."""
    make = {"s3": _of_s3, "gs": _of_gs, "azblob": _of_azblob}.get(remote.scheme)
    if make:
        return make(remote, environ)
    options = _of_http(remote, environ)
    # nginx and others create parent collections on PUT; some lack PROPFIND, which creating them needs.
    return ("webdav", {**options, "disable_create_dir": "true"}) if for_writing else ("http", options)


def _of_s3(remote: Remote, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    options = {"bucket": remote.host, "root": f"/{remote.path}"}
    endpoint = remote.options.get("endpoint") or environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        options["endpoint"] = endpoint
    region = remote.options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    # Most other services accept any region; AWS responds with the right one.
    options["region"] = region or "us-east-1"
    if remote.options.get("profile"):
        options["profile"] = remote.options["profile"]
    if remote.options.get("virtual_host"):
        options["enable_virtual_host_style"] = "true"
    uses_metadata = bool(remote.options.get("ec2"))
    if not uses_metadata:
        options["disable_ec2_metadata"] = "true"
    has_credentials = (
        uses_metadata or "profile" in options or any(map(environ.get, _AWS)) or _has_aws_file(environ)
    )
    if remote.options.get("anonymous") or not has_credentials:
        options["skip_signature"] = "true"
    return "s3", options


def _has_aws_file(environ: Mapping[str, str]) -> bool:
    home = config.home_of(environ)
    named = environ.get("AWS_SHARED_CREDENTIALS_FILE", ""), environ.get("AWS_CONFIG_FILE", "")
    usual = (f"{home}/.aws/credentials", f"{home}/.aws/config") if home else ("", "")
    return any(os.path.isfile(one or other) for one, other in zip(named, usual, strict=True))


def _of_gs(remote: Remote, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    options = {"bucket": remote.host, "root": f"/{remote.path}"}
    if remote.options.get("endpoint"):
        options["endpoint"] = remote.options["endpoint"]
    uses_metadata = bool(remote.options.get("metadata"))
    if not uses_metadata:
        options["disable_vm_metadata"] = "true"
    home = config.home_of(environ)
    usual = f"{home}/.config/gcloud/application_default_credentials.json"
    has_credentials = uses_metadata or environ.get("GOOGLE_APPLICATION_CREDENTIALS") or os.path.isfile(usual)
    if remote.options.get("anonymous") or not has_credentials:
        options["skip_signature"] = "true"
    return "gcs", options


def _of_azblob(remote: Remote, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    account = remote.options.get("account") or environ.get("AZURE_STORAGE_ACCOUNT", "")
    endpoint = remote.options.get("endpoint") or f"https://{account}.blob.core.windows.net"
    options = {"container": remote.host, "root": f"/{remote.path}", "endpoint": endpoint}
    if account:
        options["account_name"] = account
    key = environ.get("AZURE_STORAGE_ACCOUNT_KEY") or environ.get("AZURE_STORAGE_KEY", "")
    token = environ.get("AZURE_STORAGE_SAS_TOKEN", "")
    if remote.options.get("anonymous") or not (key or token):
        options["skip_signature"] = "true"
    elif key:
        options["account_key"] = key
    else:
        options["sas_token"] = token.lstrip("?")
    return "azblob", options


def _of_http(remote: Remote, environ: Mapping[str, str]) -> dict[str, str]:
    options = {"endpoint": f"{remote.scheme}://{remote.host}:{remote.port}", "root": f"/{remote.path}"}
    user, password = remote.user, remote.password
    if not user and not password:
        user, password = _of_netrc(remote.host, environ)
    if user or password:
        options["username"], options["password"] = user, password
    return options


def _of_netrc(host: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """User and password for a host from $NETRC or ~/.netrc."""
    path = environ.get("NETRC") or os.path.join(config.home_of(environ) or "/", ".netrc")
    if not os.path.isfile(path):
        return "", ""
    import netrc

    try:
        found = netrc.netrc(path).authenticators(host)
    except (OSError, ValueError, netrc.NetrcParseError):
        return "", ""
    return (found[0] or "", found[2] or "") if found else ("", "")

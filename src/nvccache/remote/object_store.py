"""S3, Google Cloud Storage, Azure Blob Storage and web servers as remotes: the one importer of opendal.

opendal has no timeout by default, and only one per read, not per request: callers bound the whole.

Credentials are those of the service's own tools: from variables, from their files, and for HTTP also from the
URL. Without credentials, requests are unsigned, since a bucket may be public. The metadata service of cloud
machines is queried only if the URL says so: anywhere else it takes seconds until the connection fails.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from nvccache import config
from nvccache.remote.service import Service, ServiceError, error_of
from nvccache.remote_url import Remote

TYPE_CHECKING = False  # a hit from a remote has no time to load typing
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 1 << 18  # bytes per read
_AWS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


class ObjectStore(Service):
    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        self._remote = remote
        self._environ = environ
        self._timeout = timeout
        service, options = options_of(remote, environ)
        # Without permission to list a bucket, a missing object is denied instead of not found.
        self._may_deny_missing = service != "http" or "password" not in options
        self._reader = self._operator(service, options)
        self._writer: Any = None

    def get(self, name: str, most: int) -> bytes | None:
        """In one request: querying the size first would be a second one, and a range can be an error."""
        try:
            return self._read(name, most)
        except ServiceError:
            raise
        except Exception as error:
            message = str(error)
            if message.startswith("NotFound "):  # its type does not always show it
                return None
            fault = error_of(self._cause() if message.endswith("error sending request") else message)
            if fault.word == "denied" and fault.status == "403" and self._may_deny_missing:
                return None
            raise fault from None

    def put(self, name: str, content: bytes) -> None:
        service, options = options_of(self._remote, self._environ, for_writing=True)
        self._writer = self._writer or self._operator(service, options)
        try:
            with _faults():
                self._writer.write(name, content)
        except ServiceError as error:
            if error.status != "409" or service != "webdav":
                raise
            # 409 Conflict: this WebDAV server does not create parent collections on PUT.
            self._writer = self._operator(service, {**options, "disable_create_dir": "false"})
            with _faults():
                self._writer.write(name, content)

    def _operator(self, service: str, options: Mapping[str, str]) -> Any:
        if "TOKIO_WORKER_THREADS" not in os.environ:
            # Not one thread per core. Not in os.environ, which the tools of a compile inherit.
            os.putenv("TOKIO_WORKER_THREADS", "2")
        try:
            import opendal
            from opendal.layers import TimeoutLayer
        except ImportError:
            raise ServiceError("not_installed") from None
        with _faults():
            return opendal.Operator(service, **options).layer(TimeoutLayer(self._timeout, self._timeout))

    def _read(self, name: str, most: int) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        with self._reader.open(name, "rb") as stream:
            while part := stream.read(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > most:
                    return None
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
    except Exception as error:
        raise error_of(str(error)) from None


def options_of(
    remote: Remote, environ: Mapping[str, str], for_writing: bool = False
) -> tuple[str, dict[str, str]]:
    """opendal's service and its options, for reading or for writing."""
    if remote.scheme in ("http", "https"):
        options = _of_http(remote, environ)
        # nginx and others create parent collections on PUT; some lack PROPFIND, which creating them needs.
        return ("webdav", {**options, "disable_create_dir": "true"}) if for_writing else ("http", options)
    options = {"root": f"/{remote.path}"}
    endpoint = remote.options.get("endpoint")
    if endpoint:
        options["endpoint"] = endpoint
    if remote.scheme == "azblob":
        return "azblob", {**options, "container": remote.host, **_of_azblob(remote, environ)}
    options["bucket"] = remote.host
    if remote.scheme == "s3":
        is_signed = _add_s3(options, remote, environ)
    else:
        is_signed = _add_gs(options, remote, environ)
    if remote.options.get("anonymous") or not is_signed:
        options["skip_signature"] = "true"
    return ("s3" if remote.scheme == "s3" else "gcs"), options


def _add_s3(options: dict[str, str], remote: Remote, environ: Mapping[str, str]) -> bool:
    """Adds options; returns whether there are credentials."""
    if environ.get("AWS_ENDPOINT_URL"):
        options.setdefault("endpoint", environ["AWS_ENDPOINT_URL"])
    region = remote.options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    # Most other services accept any region; AWS responds with the right one.
    options["region"] = region or "us-east-1"
    if remote.options.get("profile"):
        options["profile"] = remote.options["profile"]
    if remote.options.get("virtual_host"):
        options["enable_virtual_host_style"] = "true"
    if remote.options.get("ec2"):
        return True
    options["disable_ec2_metadata"] = "true"
    home = config.home_of(environ)
    files = (
        environ.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/.aws/credentials",
        environ.get("AWS_CONFIG_FILE") or f"{home}/.aws/config",
    )
    return "profile" in options or any(map(environ.get, _AWS)) or any(map(os.path.isfile, files))


def _add_gs(options: dict[str, str], remote: Remote, environ: Mapping[str, str]) -> bool:
    """Adds options; returns whether there are credentials."""
    if remote.options.get("metadata"):
        return True
    options["disable_vm_metadata"] = "true"
    usual = f"{config.home_of(environ)}/.config/gcloud/application_default_credentials.json"
    return bool(environ.get("GOOGLE_APPLICATION_CREDENTIALS")) or os.path.isfile(usual)


def _of_azblob(remote: Remote, environ: Mapping[str, str]) -> dict[str, str]:
    account = remote.options.get("account") or environ.get("AZURE_STORAGE_ACCOUNT", "")
    options = {"endpoint": remote.options.get("endpoint") or f"https://{account}.blob.core.windows.net"}
    if account:
        options["account_name"] = account
    key = environ.get("AZURE_STORAGE_ACCOUNT_KEY") or environ.get("AZURE_STORAGE_KEY", "")
    token = environ.get("AZURE_STORAGE_SAS_TOKEN", "")
    if remote.options.get("anonymous") or not (key or token):
        return {**options, "skip_signature": "true"}
    return {**options, "account_key": key} if key else {**options, "sas_token": token.lstrip("?")}


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

"""S3, Google Cloud Storage, Azure Blob Storage and web servers as remotes: the one importer of opendal.

opendal waits for ever by default, and for each piece of an answer anew: what limits all of it is a
rate, below which a server counts as one that does not answer.

Credentials are those of the service's own tools: in variables, in the files of those tools, and for HTTP also
in the URL. Where there are none, a bucket is asked without a signature, as a public one may be. The metadata
service of a cloud's machine is asked only on demand: elsewhere it takes seconds until its address turns out
to answer nobody.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from nvccache import config
from nvccache.remote.service import (
    SLOWEST,
    OwnLimitError,
    Service,
    ServiceError,
    error_of,
    is_absence,
    is_of_one_name,
    is_vague,
)
from nvccache.remote_url import Remote

TYPE_CHECKING = False  # a hit from a remote has no time to load typing
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Result = TypeVar("Result")

_CHUNK = 1 << 18  # bytes that are read at a time
# opendal's runtime starts one thread for each core of the machine in every one of a build's processes by
# default.
_WORKERS_VARIABLE, _WORKERS = "TOKIO_WORKER_THREADS", "2"
_THREADS = 4  # its workers, one that looks up names, and one that somebody else starts meanwhile
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
        # A user who may not list a bucket is refused what is missing there, with or without credentials.
        is_anonymous = "skip_signature" in options or not {"password", "username"} & options.keys()
        self._denies_what_is_missing = is_anonymous or not self._is_web
        self._reader = self._operator(service, options)
        self._writer_made: Any = None

    def get(self, name: str, most: int) -> bytes | None:
        return self._if_there(lambda: self._read(name, most), None)

    def has(self, name: str, size: int | None = None) -> bool:
        def ask() -> bool:
            its_size = self._reader.stat(name).content_length
            # A web server need not give the size of what it has; that looks like 0.
            return size is None or its_size == size or (self._is_web and not its_size)

        return self._if_there(ask, False)

    def put(self, name: str, content: bytes) -> None:
        try:
            with _faults():
                self._writer().write(name, content)
        except ServiceError as error:
            if error.status != "409" or not self._is_web:
                raise
            # Of the WebDAV servers some make the folders of what is put, others have to be asked.
            with _faults():
                self._writer(disable_create_dir="false").write(name, content)

    def delete(self, name: str) -> None:
        with _faults():
            self._writer().delete(name)

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        with _faults():
            for entry in self._writer().list(prefix, recursive=True):
                if not entry.path.endswith("/"):
                    found = self._metadata_of(entry)
                    changed = found.last_modified  # None where the server gives none
                    yield entry.path, found.content_length, changed.timestamp() if changed else 0.0

    def _metadata_of(self, entry: Any) -> Any:
        metadata = getattr(entry, "metadata", None)
        if metadata is not None and metadata.content_length is not None and metadata.last_modified:
            return metadata
        return self._writer().stat(entry.path)

    def _operator(self, service: str, options: Mapping[str, str]) -> Any:
        make_room()
        try:
            import opendal
            from opendal.layers import TimeoutLayer
        except ImportError:
            raise ServiceError("not_installed") from None
        with _faults():
            return opendal.Operator(service, **options).layer(TimeoutLayer(self._timeout, self._timeout))

    def _writer(self, **further: str) -> Any:
        """What writes and lists, with these options from now on as well."""
        if self._writer_made is None or further:
            service, options = options_of(self._remote, self._environ, for_writing=True)
            self._writer_made = self._operator(service, {**options, **further})
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

    def _if_there(self, operation: Callable[[], Result], absent: Result) -> Result:
        """The result of an operation, `absent` where the remote answers that there is no such name."""
        try:
            return operation()
        except ServiceError:
            raise
        except Exception as error:
            message = str(error)
            if is_absence(message):
                return absent
            message = self._reason() if is_vague(message) else message
            fault = error_of(message)
            if fault.word == "denied" and self._denies_what_is_missing and is_of_one_name(message):
                return absent
            raise fault from None

    def _reason(self) -> str:
        """The message for a request of another kind, since that for a stream had no reason."""
        try:
            self._reader.stat("1")
        except Exception as error:
            return str(error)
        return "connection lost"


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Raises ServiceError for what opendal raises."""
    try:
        yield
    except ServiceError:
        raise
    except Exception as error:
        raise error_of(str(error)) from None


def make_room() -> None:
    """To be called before opendal is imported; raises OwnLimitError where it would panic.

    It panics where it gets no thread or descriptor, which writes to standard error whatever its caller makes
    of the exception.
    """
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        raise OwnLimitError("unreachable", f"this process: {error.strerror}") from None
    if most != resource.RLIM_INFINITY and used + _DESCRIPTORS > most:
        raise OwnLimitError("unreachable", f"this process may open {most} files")
    # How many threads the user may have besides is known by trying only.
    end = threading.Event()
    try:
        for _ in range(_THREADS):
            threading.Thread(target=end.wait, daemon=True).start()
    except RuntimeError:
        raise OwnLimitError("unreachable", "this process may start no further thread") from None
    finally:
        end.set()
    if _WORKERS_VARIABLE not in os.environ:
        # Not in os.environ, which is what the tools of a compile are given.
        os.putenv(_WORKERS_VARIABLE, _WORKERS)


def options_of(
    remote: Remote, environ: Mapping[str, str], for_writing: bool = False
) -> tuple[str, dict[str, str]]:
    """The service of opendal that reads, or writes and lists; and its options."""
    make = {"s3": _of_s3, "gs": _of_gs, "azblob": _of_azblob}.get(remote.scheme)
    if make:
        return make(remote, environ)
    options = _of_http(remote, environ)
    # nginx and others make the folders of what is put, and some do not know PROPFIND.
    return ("webdav", {**options, "disable_create_dir": "true"}) if for_writing else ("http", options)


def _of_s3(remote: Remote, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    options = {"bucket": remote.host, "root": f"/{remote.path}"}
    endpoint = remote.options.get("endpoint") or environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        options["endpoint"] = endpoint
    region = remote.options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    # A service that is not AWS mostly takes any region; AWS answers which one is right.
    options["region"] = region or "us-east-1"
    if remote.options.get("profile"):
        options["profile"] = remote.options["profile"]
    if remote.options.get("virtual_host"):
        options["enable_virtual_host_style"] = "true"
    asks_machine = bool(remote.options.get("ec2"))
    if not asks_machine:
        options["disable_ec2_metadata"] = "true"
    has_some = asks_machine or "profile" in options or any(map(environ.get, _AWS)) or _has_aws_file(environ)
    if remote.options.get("anonymous") or not has_some:
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
    asks_machine = bool(remote.options.get("metadata"))
    if not asks_machine:
        options["disable_vm_metadata"] = "true"
    home = config.home_of(environ)
    usual = f"{home}/.config/gcloud/application_default_credentials.json"
    has_some = asks_machine or environ.get("GOOGLE_APPLICATION_CREDENTIALS") or os.path.isfile(usual)
    if remote.options.get("anonymous") or not has_some:
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
    """User and password that ~/.netrc, or the file that NETRC names, has for a host."""
    path = environ.get("NETRC") or os.path.join(config.home_of(environ) or "/", ".netrc")
    if not os.path.isfile(path):
        return "", ""
    import netrc

    try:
        found = netrc.netrc(path).authenticators(host)
    except (OSError, ValueError, netrc.NetrcParseError):
        return "", ""
    return (found[0] or "", found[2] or "") if found else ("", "")

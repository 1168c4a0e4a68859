"""The messages of the Remote Execution API as Python classes, and a gRPC connection to an engine.

The classes are built from descriptors (reapi.binpb) in a separate descriptor pool, so that their names cannot
collide with those of another package. Unlike generated code, they work with any version of protobuf. Each
gRPC call has a deadline, and raises ExecutorError if it fails.

Importing this takes 60 to 120 ms, and raises ExecutorError if grpcio or protobuf is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from nvccache.endpoint import Endpoint
from nvccache.files import untrusted
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import ExecutorError, NotInstalledError

_DESCRIPTORS = os.path.join(os.path.dirname(__file__), "reapi.binpb")
# These variables keep grpcio from writing to stderr and from installing fork handlers.
_QUIET = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}
_FAULTS = {
    **dict.fromkeys(("UNAVAILABLE", "DEADLINE_EXCEEDED"), faults.UNREACHABLE),
    **dict.fromkeys(("UNAUTHENTICATED", "PERMISSION_DENIED"), faults.DENIED),
    "RESOURCE_EXHAUSTED": faults.NO_WORKERS,
    "CANCELLED": faults.CANCELLED,
}
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", 10_000),  # detects a dead host
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
]
_LONGEST_TEXT = 200
_LARGEST_FILE = 1 << 20  # maximum size in bytes of a file with certificates or a token

Digest = tuple[str, int]  # SHA-256 in hexadecimal, and size in bytes


def _load_grpc() -> Any:
    before = {name: os.environ[name] for name in _QUIET if name in os.environ}
    os.environ.update(_QUIET)
    try:
        import grpc
    finally:  # tools must not inherit these variables
        for name in _QUIET:
            del os.environ[name]
        os.environ.update(before)
    return grpc


def _load_messages() -> Any:
    """The message classes of reapi.proto, as attributes."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    with open(_DESCRIPTORS, "rb") as stream:
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(stream.read()).file
    pool.Add(file)
    classes = message_factory.GetMessageClassesForFiles([file.name], pool)
    return SimpleNamespace(**{name.rpartition(".")[2]: kind for name, kind in classes.items()})


try:
    _grpc, messages = _load_grpc(), _load_messages()
except ImportError as error:
    raise NotInstalledError(faults.BROKEN, f"{error.name or 'a package'} is not installed") from None


_NAMES = {code.value[0]: code.name for code in _grpc.StatusCode}  # the names of numbers in `Status.code`


def digest_of(content: bytes) -> Digest:
    """The digest by which the API names this content."""
    return sha256(content).hexdigest(), len(content)


def digest_message(digest: Digest) -> Any:
    return messages.Digest(hash=digest[0], size_bytes=digest[1])


def serialized(message: Any) -> bytes:
    """The canonical encoding of a message; the message is named by the digest of these bytes."""
    return bytes(message.SerializeToString(deterministic=True))


class Connection:
    """A gRPC connection, created and used by one thread. Another thread may call `cancel`."""

    def __init__(self, endpoint: Endpoint) -> None:
        files = {name: _content_of(name, path) for name, path in endpoint.files.items()}
        if endpoint.scheme == "grpc":
            self._channel = _grpc.insecure_channel(endpoint.target, _OPTIONS)
        else:
            credentials = _grpc.ssl_channel_credentials(files.get("ca"), files.get("key"), files.get("cert"))
            self._channel = _grpc.secure_channel(endpoint.target, credentials, _OPTIONS)
        tool = serialized(messages.RequestMetadata(tool_details={"tool_name": "nvccache"}))
        self._metadata: list[Any] = [("build.bazel.remote.execution.v2.requestmetadata-bin", tool)]
        self._token = files.get("token_file", b"").strip().decode(errors="replace")
        if self._token:
            self._metadata.append(("authorization", f"Bearer {self._token}"))
        self._call: Any = None
        self._is_cancelled = False

    def close(self) -> None:
        self._channel.close()

    def cancel(self) -> None:
        """End the current gRPC call, and any later one."""
        self._is_cancelled = True
        call = self._call
        if call is not None:
            call.cancel()

    def request(self, path: str, request: Any, response: Any, seconds: float) -> Any:
        """The single message of class `response` that answers a request, or an iterator of requests."""
        (answer,) = self.read(path, request, response, seconds)
        return answer

    def read(self, path: str, request: Any, response: Any, seconds: float) -> Iterator[Any]:
        """The messages of class `response` that answer a request, or an iterator of requests."""
        # On the wire, a call with a single response is a stream, too.
        is_stream = isinstance(request, Iterator)
        kind = self._channel.stream_stream if is_stream else self._channel.unary_stream
        call = kind(path, serialized, response.FromString)(request, timeout=seconds, metadata=self._metadata)
        self._call = call
        if self._is_cancelled:
            call.cancel()
        try:
            yield from call
        except _grpc.RpcError as error:
            raise self._error(error.code().name, str(error.details() or "")) from None
        finally:
            self._call = None

    def error_of_status(self, status: Any) -> ExecutorError:
        """The error for a message of class `Status`."""
        return self._error(_NAMES.get(status.code, f"code {status.code}"), status.message)

    def _error(self, name: str, details: str) -> ExecutorError:
        if self._token:  # some servers quote a rejected token
            details = details.replace(self._token, "(token)")
        return ExecutorError(_FAULTS.get(name, faults.BROKEN), f"{name}: {details[:_LONGEST_TEXT]}")


def _content_of(name: str, path: str) -> bytes:
    try:
        return untrusted.read_named(path, _LARGEST_FILE)
    except OSError as error:
        raise ExecutorError(
            faults.DENIED, f"cannot read the file of the option `{name}`: {error.strerror}"
        ) from None

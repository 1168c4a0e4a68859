"""The Remote Execution API on the wire: its messages as Python classes, and a connection by gRPC.

The classes come from the committed descriptors (reapi.binpb) and are loaded into a pool of their own: the
names of this package cannot meet those of another one in this process, and no generated code ties a release
of protobuf to the one that generated it. Each call has a deadline; whatever goes wrong is an ExecutorError.
Knows nothing of what is asked.

To import it takes 60 to 120 ms, and raises ExecutorError where grpcio or protobuf are missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from nvccache.endpoint import Endpoint
from nvccache.files import untrusted
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import ExecutorError

_DESCRIPTORS = os.path.join(os.path.dirname(__file__), "reapi.binpb")
_PREFIX = "/build.bazel.remote.execution.v2."
# grpcio is to write nothing to our streams, and to leave forks alone.
_QUIET = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}
_WORDS = {
    "UNAVAILABLE": faults.UNREACHABLE,
    "DEADLINE_EXCEEDED": faults.TIMEOUT,
    "UNAUTHENTICATED": faults.BAD_CREDENTIALS,
    "PERMISSION_DENIED": faults.DENIED,
    "RESOURCE_EXHAUSTED": faults.FULL,
    "UNIMPLEMENTED": faults.OTHER_VERSION,
    "CANCELLED": faults.OVERTAKEN,
}
_LONGEST_TEXT = 200
_LARGEST_FILE = 1 << 20  # of certificates, or of a token

Digest = tuple[str, int]  # SHA-256 and size


def _load_grpc() -> Any:
    before = {name: os.environ[name] for name in _QUIET if name in os.environ}
    os.environ.update(_QUIET)
    try:
        import grpc
    finally:  # the environment is the user's
        for name in _QUIET:
            del os.environ[name]
        os.environ.update(before)
    return grpc


def _load_messages() -> Any:
    """The classes of reapi.proto by their names in it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    with open(_DESCRIPTORS, "rb") as stream:
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(stream.read()).file
    pool.Add(file)
    classes = message_factory.GetMessageClassesForFiles([file.name], pool)
    return SimpleNamespace(**{name.rpartition(".")[2]: made for name, made in classes.items()})


try:
    _grpc, messages = _load_grpc(), _load_messages()
except ImportError as error:
    raise ExecutorError(faults.NOT_INSTALLED, f"{error.name or 'a package'} is not installed") from None


_NAMES = {code.value[0]: code.name for code in _grpc.StatusCode}  # of statuses that are part of answers


def digest_of(content: bytes) -> Digest:
    """The digest by which the interface names content."""
    return sha256(content).hexdigest(), len(content)


def digest_message(digest: Digest) -> Any:
    return messages.Digest(hash=digest[0], size_bytes=digest[1])


def serialized(message: Any) -> bytes:
    """A message as it is sent, and named by its digest."""
    return bytes(message.SerializeToString(deterministic=True))


class Connection:
    """Made and used on one thread; `cancel` may be called by another."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._channel = _channel(endpoint)
        self._token = _content_of(endpoint.files, "token_file").strip().decode(errors="replace")
        self._metadata = _metadata(self._token)
        self._call: Any = None
        self.is_cancelled = False

    def close(self) -> None:
        self._channel.close()

    def cancel(self) -> None:
        """End what is under way, from another thread."""
        self.is_cancelled = True
        call = self._call
        if call is not None:
            call.cancel()

    def ask(self, path: str, request: Any, answer: Any, seconds: float, or_none: bool = False) -> Any:
        """The answer to one request, of that class; with `or_none` None for what is not found."""
        method = self._channel.unary_unary(_full(path), serialized, answer.FromString)
        return self._result(method.future(request, timeout=seconds, metadata=self._metadata), or_none)

    def write(self, path: str, parts: Iterable[Any], answer: Any, seconds: float) -> Any:
        """The answer to a stream of requests."""
        method = self._channel.stream_unary(_full(path), serialized, answer.FromString)
        return self._result(method.future(iter(parts), timeout=seconds, metadata=self._metadata))

    def read(self, path: str, request: Any, answer: Any, seconds: float) -> Iterator[Any]:
        """The answers to one request, as they come."""
        method = self._channel.unary_stream(_full(path), serialized, answer.FromString)
        call = method(request, timeout=seconds, metadata=self._metadata)
        self._begin(call)
        try:
            yield from call
        except _grpc.RpcError as error:
            raise self._of_error(error) from None
        finally:
            self._call = None

    def _begin(self, call: Any) -> None:
        self._call = call
        if self.is_cancelled:
            call.cancel()

    def _result(self, call: Any, or_none: bool = False) -> Any:
        self._begin(call)
        try:
            return call.result()
        except _grpc.FutureCancelledError:
            raise ExecutorError(faults.OVERTAKEN) from None
        except _grpc.RpcError as error:
            if or_none and error.code().name == "NOT_FOUND":
                return None
            raise self._of_error(error) from None
        finally:
            self._call = None

    def of_status(self, status: Any) -> ExecutorError:
        """The error in a status that is part of an answer."""
        return self._as_trouble(_NAMES.get(status.code, f"code {status.code}"), status.message)

    def _of_error(self, error: Any) -> ExecutorError:
        name = error.code().name if error.code() else "UNKNOWN"
        return self._as_trouble(name, str(error.details() or ""))

    def _as_trouble(self, name: str, details: str) -> ExecutorError:
        word = _WORDS.get(name, faults.BROKEN)
        if word == faults.UNREACHABLE and ("ssl" in details.lower() or "handshake" in details.lower()):
            word = faults.TLS
        if self._token:  # there are servers that repeat what they do not accept
            details = details.replace(self._token, "(token)")
        return ExecutorError(word, f"{name}: {details[:_LONGEST_TEXT]}")


def _full(path: str) -> str:
    return path if path.startswith("/") else _PREFIX + path


def _channel(endpoint: Endpoint) -> Any:
    options = [
        ("grpc.max_receive_message_length", 64 << 20),
        ("grpc.enable_retries", 0),
        ("grpc.keepalive_time_ms", 10_000),  # a host that has gone is noticed
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    if endpoint.scheme == "grpc":
        return _grpc.insecure_channel(endpoint.target, options)
    ca, cert, key = (_content_of(endpoint.files, name) for name in ("ca", "cert", "key"))
    credentials = _grpc.ssl_channel_credentials(ca or None, key or None, cert or None)
    return _grpc.secure_channel(endpoint.target, credentials, options)


def _metadata(token: str) -> list[tuple[str, Any]]:
    tool = serialized(messages.RequestMetadata(tool_details={"tool_name": "nvccache"}))
    found: list[tuple[str, Any]] = [("build.bazel.remote.execution.v2.requestmetadata-bin", tool)]
    if token:
        found.append(("authorization", f"Bearer {token}"))
    return found


def _content_of(files: Mapping[str, str], name: str) -> bytes:
    if name not in files:
        return b""
    try:
        return untrusted.read_named(files[name], _LARGEST_FILE)
    except OSError as error:
        raise ExecutorError(faults.BAD_CREDENTIALS, f"the file of `{name}`: {error.strerror}") from None

"""A client of the Remote Execution API: stores and fetches content, executes actions.

Checks the digest of everything that it receives. Unaware of stages.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import zstandard

from nvccache.endpoint import Endpoint
from nvccache.remote_execution import faults, protocol
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.protocol import Connection, Digest, digest_message, messages
from nvccache.values import dataclass

_API = "/build.bazel.remote.execution.v2."
_BYTES = "/google.bytestream.ByteStream/"
_SHA256, _ZSTD = 1, 1
_API_VERSION = 2  # major
_CALL_SECONDS = 5.0  # timeout of a call that executes and transfers nothing
_SLOWEST_BYTES = 1 << 20  # per second: extends the timeout of a transfer
# A stage has a few small blobs, which go in one message, below the usual limit of 4 MiB. Others are streams.
_SMALL_BYTES = 1 << 16
_CHUNK = 1 << 20
_LARGEST = 1 << 32  # bytes of an output


@dataclass(frozen=True, slots=True)
class Blob:
    """Content to send if the engine lacks it: in memory, or a file."""

    digest: Digest
    content: bytes | None = None
    path: str = ""

    def read(self) -> bytes:
        if self.content is not None:
            return self.content
        with open(self.path, "rb") as stream:
            content = stream.read()
        if protocol.digest_of(content) != self.digest:
            raise ExecutorError(faults.BROKEN, f"`{self.path}` changed while it was read")
        return content


class Client(Connection):
    """One engine, used by one thread; another may cancel it."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._instance = endpoint.instance
        self._resource_prefix = f"{endpoint.instance}/" if endpoint.instance else ""
        self._compresses = False
        self.sent_bytes = self.fetched_bytes = 0

    def check(self) -> None:
        """Raise ExecutorError if the engine lacks a needed capability."""
        request = messages.GetCapabilitiesRequest(instance_name=self._instance)
        path = f"{_API}Capabilities/GetCapabilities"
        found = self.request(path, request, messages.ServerCapabilities, _CALL_SECONDS)
        if not found.low_api_version.major <= _API_VERSION <= (found.high_api_version.major or 2):
            raise ExecutorError(faults.BROKEN, "it does not speak version 2 of the API")
        cache, execution = found.cache_capabilities, found.execution_capabilities
        if not execution.exec_enabled:
            raise ExecutorError(faults.BROKEN, "it executes nothing")
        functions = {*cache.digest_functions, *execution.digest_functions, execution.digest_function}
        if _SHA256 not in functions and functions - {0}:
            raise ExecutorError(faults.BROKEN, "it does not use SHA-256 digests")
        self._compresses = _ZSTD in cache.supported_compressors

    def send(self, blobs: Iterable[Blob]) -> None:
        """Send what the engine lacks."""
        wanted = {blob.digest[0]: blob for blob in blobs}
        digests = [digest_message(blob.digest) for blob in wanted.values()]
        request = messages.FindMissingBlobsRequest(instance_name=self._instance, blob_digests=digests)
        path = f"{_API}ContentAddressableStorage/FindMissingBlobs"
        found = self.request(path, request, messages.FindMissingBlobsResponse, _CALL_SECONDS)
        missing = [wanted[digest.hash] for digest in found.missing_blob_digests if digest.hash in wanted]
        self._send_small([blob for blob in missing if blob.digest[1] <= _SMALL_BYTES])
        for blob in missing:
            if blob.digest[1] > _SMALL_BYTES:
                self._stream(blob)

    def cached_result(self, action: Digest) -> Any:
        """The ActionResult in the engine's action cache; raises ExecutorError if there is none."""
        digest = digest_message(action)
        request = messages.GetActionResultRequest(instance_name=self._instance, action_digest=digest)
        return self.request(
            f"{_API}ActionCache/GetActionResult", request, messages.ActionResult, _CALL_SECONDS
        )

    def execute(self, action: Digest, watch: Callable[[Any], None], seconds: float) -> Any:
        """Execute an action and return the ExecuteResponse; `watch` gets each Operation meanwhile."""
        request = messages.ExecuteRequest(instance_name=self._instance, action_digest=digest_message(action))
        for operation in self.read(f"{_API}Execution/Execute", request, messages.Operation, seconds):
            watch(operation)
            if not operation.done:
                continue
            if operation.WhichOneof("result") == "error":
                raise self.error_of_status(operation.error)
            response = messages.ExecuteResponse.FromString(operation.response.value)
            if response.status.code:
                raise self.error_of_status(response.status)
            return response
        raise ExecutorError(faults.UNREACHABLE, "the stream ended before the operation was done")

    def fetch(self, digest: Digest) -> bytes:
        """The content with this digest; raises ExecutorError if it is missing or another one."""
        if digest[1] > _LARGEST:
            raise ExecutorError(faults.BROKEN, "an output is too large")
        content = self._read(digest) if digest[1] > 0 else b""
        if protocol.digest_of(content) != digest:
            raise ExecutorError(faults.BROKEN, "it sends a blob with another digest")
        return content

    def _send_small(self, blobs: list[Blob]) -> None:
        if not blobs:
            return
        request = messages.BatchUpdateBlobsRequest(instance_name=self._instance)
        for blob in blobs:
            request.requests.add(digest=digest_message(blob.digest), data=blob.read())
            self.sent_bytes += blob.digest[1]
        path = f"{_API}ContentAddressableStorage/BatchUpdateBlobs"
        answer = self.request(path, request, messages.BatchUpdateBlobsResponse, _CALL_SECONDS)
        for part in answer.responses:
            if part.status.code:
                raise self.error_of_status(part.status)

    def _stream(self, blob: Blob) -> None:
        content, kind = blob.read(), "blobs"
        if self._compresses:
            content, kind = zstandard.compress(content, 1), "compressed-blobs/zstd"
        name, size = blob.digest
        resource = f"{self._resource_prefix}uploads/{uuid.uuid4()}/{kind}/{name}/{size}"
        self.sent_bytes += len(content)

        def parts() -> Iterator[Any]:
            for start in range(0, len(content), _CHUNK):
                yield messages.WriteRequest(
                    resource_name=resource if not start else "",
                    write_offset=start,
                    finish_write=start + _CHUNK >= len(content),
                    data=content[start : start + _CHUNK],
                )

        seconds = _CALL_SECONDS + len(content) / _SLOWEST_BYTES
        answer = self.request(f"{_BYTES}Write", parts(), messages.WriteResponse, seconds)
        if answer.committed_size not in (-1, size, len(content)):
            raise ExecutorError(faults.BROKEN, "it accepted only part of a blob")

    def _read(self, digest: Digest) -> bytes:
        name, size = digest
        kind = "compressed-blobs/zstd" if self._compresses else "blobs"
        request = messages.ReadRequest(resource_name=f"{self._resource_prefix}{kind}/{name}/{size}")
        seconds = _CALL_SECONDS + size / _SLOWEST_BYTES
        parts, received = [], 0
        for message in self.read(f"{_BYTES}Read", request, messages.ReadResponse, seconds):
            parts.append(message.data)
            received += len(message.data)
            if received > size + _CHUNK:
                raise ExecutorError(faults.BROKEN, "it sends a blob larger than its digest says")
        self.fetched_bytes += received
        if not self._compresses:
            return b"".join(parts)
        try:
            with zstandard.ZstdDecompressor().stream_reader(b"".join(parts)) as reader:
                return reader.read(size + 1)  # one byte more, which guards against decompression bombs
        except zstandard.ZstdError:
            raise ExecutorError(faults.BROKEN, "it sends a blob that cannot be decompressed") from None

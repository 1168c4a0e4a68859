"""A client of the Remote Execution API: sends and fetches blobs, and executes actions.

Checks the digest of each blob that it fetches. Knows nothing about stages.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from nvccache.endpoint import Endpoint
from nvccache.remote_execution import faults, protocol
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.protocol import Connection, Digest, digest_message, messages
from nvccache.values import dataclass

_API = "/build.bazel.remote.execution.v2."
_BYTES = "/google.bytestream.ByteStream/"
_SHA256 = 1
_API_VERSION = 2  # major
_QUEUED = (1, 2)  # values of ExecutionStage: CACHE_CHECK and QUEUED
_CALL_SECONDS = 5.0  # timeout of a call that neither executes an action nor transfers a large blob
_SLOWEST_BYTES = 1 << 20  # bytes per second; a slower transfer exceeds its timeout
# Blobs up to this size go in one message: a stage has few, so it stays below the usual limit of 4 MiB.
_SMALL_BYTES = 1 << 16
_CHUNK = 1 << 20
_LARGEST = 1 << 32  # the maximum size of an output in bytes


@dataclass(frozen=True, slots=True)
class Blob:
    """Content to send if the engine lacks it, either in memory or in a file."""

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
    """One engine, used by one thread. Another thread may call `cancel`."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._instance = endpoint.instance
        self._resource_prefix = f"{endpoint.instance}/" if endpoint.instance else ""
        self._is_queued = self._is_queue_timeout = False

    def check(self) -> None:
        """Raise ExecutorError if the engine lacks a needed capability."""
        request = messages.GetCapabilitiesRequest(instance_name=self._instance)
        path = f"{_API}Capabilities/GetCapabilities"
        capabilities = self.request(path, request, messages.ServerCapabilities, _CALL_SECONDS)
        low, high = capabilities.low_api_version.major, capabilities.high_api_version.major
        if not low <= _API_VERSION <= (high or _API_VERSION):
            raise ExecutorError(faults.BROKEN, "the engine does not speak version 2 of the API")
        cache, execution = capabilities.cache_capabilities, capabilities.execution_capabilities
        if not execution.exec_enabled:
            raise ExecutorError(faults.BROKEN, "the engine does not execute actions")
        functions = {*cache.digest_functions, *execution.digest_functions, execution.digest_function}
        if _SHA256 not in functions and functions - {0}:
            raise ExecutorError(faults.BROKEN, "the engine does not use SHA-256 digests")

    def send(self, blobs: Iterable[Blob]) -> None:
        """Send those blobs that the engine lacks; raises ExecutorError."""
        wanted = {blob.digest[0]: blob for blob in blobs}
        digests = [digest_message(blob.digest) for blob in wanted.values()]
        request = messages.FindMissingBlobsRequest(instance_name=self._instance, blob_digests=digests)
        path = f"{_API}ContentAddressableStorage/FindMissingBlobs"
        answer = self.request(path, request, messages.FindMissingBlobsResponse, _CALL_SECONDS)
        missing = [wanted[digest.hash] for digest in answer.missing_blob_digests if digest.hash in wanted]
        self._send_small([blob for blob in missing if blob.digest[1] <= _SMALL_BYTES])
        for blob in missing:
            if blob.digest[1] > _SMALL_BYTES:
                self._stream(blob)

    def execute(self, action: Digest, queue: float, seconds: float) -> Any:
        """Execute an action, which may wait for a worker for `queue` seconds; returns an ExecuteResponse."""
        timer = threading.Timer(queue, self._check_queue)
        timer.daemon = True
        timer.start()
        request = messages.ExecuteRequest(instance_name=self._instance, action_digest=digest_message(action))
        try:
            for operation in self.read(f"{_API}Execution/Execute", request, messages.Operation, seconds):
                metadata = messages.ExecuteOperationMetadata.FromString(operation.metadata.value)
                self._is_queued = metadata.stage in _QUEUED
                if operation.done:
                    return self._response(operation)
        except ExecutorError:
            if self._is_queue_timeout:
                text = f"the stage waited {queue:g} s for a worker"
                raise ExecutorError(faults.NO_WORKERS, text) from None
            raise
        finally:
            timer.cancel()
        raise ExecutorError(faults.UNREACHABLE, "the stream ended before the operation was done")

    def fetch(self, digest: Digest) -> bytes:
        """The content with this digest; raises ExecutorError if it is missing or does not match."""
        name, size = digest
        if size > _LARGEST:
            raise ExecutorError(faults.BROKEN, "an output is too large")
        parts = []
        if size > 0:
            request = messages.ReadRequest(resource_name=f"{self._resource_prefix}blobs/{name}/{size}")
            seconds = _CALL_SECONDS + size / _SLOWEST_BYTES
            received = 0
            for message in self.read(f"{_BYTES}Read", request, messages.ReadResponse, seconds):
                parts.append(message.data)
                received += len(message.data)
                if received > size:
                    raise ExecutorError(faults.BROKEN, "the engine sends more bytes than the digest says")
        content = b"".join(parts)
        if protocol.digest_of(content) != digest:
            raise ExecutorError(faults.BROKEN, "the engine sends a blob with another digest")
        return content

    def _check_queue(self) -> None:
        if self._is_queued:
            self._is_queue_timeout = True
            self.cancel()

    def _response(self, operation: Any) -> Any:
        if operation.WhichOneof("result") == "error":
            raise self.error_of_status(operation.error)
        response = messages.ExecuteResponse.FromString(operation.response.value)
        if response.status.code:
            raise self.error_of_status(response.status)
        return response

    def _send_small(self, blobs: list[Blob]) -> None:
        if not blobs:
            return
        request = messages.BatchUpdateBlobsRequest(instance_name=self._instance)
        for blob in blobs:
            request.requests.add(digest=digest_message(blob.digest), data=blob.read())
        path = f"{_API}ContentAddressableStorage/BatchUpdateBlobs"
        answer = self.request(path, request, messages.BatchUpdateBlobsResponse, _CALL_SECONDS)
        for part in answer.responses:
            if part.status.code:
                raise self.error_of_status(part.status)

    def _stream(self, blob: Blob) -> None:
        content = blob.read()
        name, size = blob.digest
        resource = f"{self._resource_prefix}uploads/{uuid.uuid4()}/blobs/{name}/{size}"

        def parts() -> Iterator[Any]:
            for start in range(0, size, _CHUNK):
                yield messages.WriteRequest(
                    resource_name=resource if not start else "",
                    write_offset=start,
                    finish_write=start + _CHUNK >= size,
                    data=content[start : start + _CHUNK],
                )

        answer = self.request(
            f"{_BYTES}Write", parts(), messages.WriteResponse, _CALL_SECONDS + size / _SLOWEST_BYTES
        )
        if answer.committed_size not in (-1, size):
            raise ExecutorError(faults.BROKEN, "the engine accepted only a part of a blob")

"""A client of the Remote Execution API: stores and fetches content, executes actions.

Checks the digest of everything that it receives. Unaware of stages.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import zstandard

from nvccache.endpoint import Endpoint
from nvccache.remote_execution import faults, protocol
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.protocol import Connection, Digest, messages
from nvccache.values import dataclass

_SHA256, _ZSTD = 1, 1
_API_VERSION = 2  # major
_CALL_SECONDS = 5.0  # timeout of a call that executes and transfers nothing
_SLOWEST_BYTES = 1 << 20  # per second: extends the timeout of a transfer
_BATCH_BYTES = 3 << 20  # below gRPC's usual limit of 4 MiB for a message
_CHUNK = 1 << 20
_MOST_UPDATES = 10_000  # of one operation
QUEUED = (1, 2)  # ExecutionStage values; CACHE_CHECK (1) counts as queued


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


class Client:
    """One engine, used by one thread; another may cancel its `connection`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._instance = endpoint.instance
        self._resource_prefix = f"{endpoint.instance}/" if endpoint.instance else ""
        self.connection = Connection(endpoint)
        self._batch_bytes = _BATCH_BYTES
        self._compresses = self._compresses_batches = False
        self.sent_bytes = self.fetched_bytes = 0

    def check(self) -> None:
        """Raise ExecutorError if the engine lacks a needed capability."""
        request = messages.GetCapabilitiesRequest(instance_name=self._instance)
        path, response = "Capabilities/GetCapabilities", messages.ServerCapabilities
        found = self.connection.request(path, request, response, _CALL_SECONDS)
        if not found.low_api_version.major <= _API_VERSION <= (found.high_api_version.major or 2):
            raise ExecutorError(faults.BROKEN, "it does not speak version 2 of the API")
        cache, execution = found.cache_capabilities, found.execution_capabilities
        if not execution.exec_enabled:
            raise ExecutorError(faults.BROKEN, "it executes nothing")
        functions = {*cache.digest_functions, *execution.digest_functions, execution.digest_function}
        if _SHA256 not in functions and functions - {0}:
            raise ExecutorError(faults.BROKEN, "it does not use SHA-256 digests")
        if cache.max_batch_total_size_bytes > 0:
            self._batch_bytes = min(_BATCH_BYTES, cache.max_batch_total_size_bytes)
        self._compresses = _ZSTD in cache.supported_compressors
        self._compresses_batches = self._compresses and _ZSTD in cache.supported_batch_update_compressors

    def missing(self, digests: Iterable[Digest]) -> set[str]:
        """The SHA-256 of each blob that the engine lacks."""
        wanted = [protocol.digest_message(digest) for digest in digests]
        request = messages.FindMissingBlobsRequest(instance_name=self._instance, blob_digests=wanted)
        found = self._request_storage("FindMissingBlobs", request, _CALL_SECONDS)
        return {digest.hash for digest in found.missing_blob_digests}

    def send(self, blobs: Iterable[Blob]) -> None:
        batch = messages.BatchUpdateBlobsRequest(instance_name=self._instance)
        size = 0
        for blob in blobs:
            if blob.digest[1] > self._batch_bytes:
                self._stream(blob)
                continue
            if size + blob.digest[1] > self._batch_bytes:
                self._send_batch(batch)
                del batch.requests[:]
                size = 0
            size += blob.digest[1]
            data, compressor = blob.read(), 0
            if self._compresses_batches:
                data, compressor = _compressed(data), _ZSTD
            self.sent_bytes += len(data)
            digest = protocol.digest_message(blob.digest)
            batch.requests.add(digest=digest, data=data, compressor=compressor)
        if batch.requests:
            self._send_batch(batch)

    def cached_result(self, action: Digest) -> Any:
        """The ActionResult in the engine's action cache, or None."""
        request = messages.GetActionResultRequest(
            instance_name=self._instance, action_digest=protocol.digest_message(action)
        )
        path, response = "ActionCache/GetActionResult", messages.ActionResult
        return self.connection.request(path, request, response, _CALL_SECONDS, or_none=True)

    def execute(self, action: Digest, watch: Callable[[Any], None], seconds: float) -> Any:
        """Execute an action and return the ExecuteResponse; `watch` gets each Operation meanwhile."""
        request = messages.ExecuteRequest(
            instance_name=self._instance, action_digest=protocol.digest_message(action)
        )
        stream = self.connection.read("Execution/Execute", request, messages.Operation, seconds)
        for updates, operation in enumerate(stream):
            if updates > _MOST_UPDATES:  # reading them would slow down local stages
                raise ExecutorError(faults.BROKEN, f"it sends more than {_MOST_UPDATES} updates")
            watch(operation)
            if not operation.done:
                continue
            if operation.WhichOneof("result") == "error":
                raise self.connection.error_of_status(operation.error)
            response = messages.ExecuteResponse.FromString(operation.response.value)
            if response.status.code:
                raise self.connection.error_of_status(response.status)
            return response
        raise ExecutorError(faults.UNREACHABLE, "the stream ended before the operation was done")

    def cancel_operation(self, operation: str) -> None:
        """Ask the engine to cancel an operation; it may ignore that."""
        request = messages.CancelOperationRequest(name=operation)
        path = "/google.longrunning.Operations/CancelOperation"
        with contextlib.suppress(ExecutorError):
            self.connection.is_cancelled = False
            self.connection.request(path, request, messages.Empty, 1.0)

    def fetch(self, digests: Iterable[Digest]) -> dict[str, bytes]:
        """Contents by SHA-256, each checked; raises ExecutorError if one is missing."""
        found: dict[str, bytes] = {}
        small: list[Digest] = []
        for digest in dict.fromkeys(digests):
            if digest[1] <= 0:  # empty, or the server leaves sizes out
                found[digest[0]] = _checked(b"", digest)
            elif digest[1] > self._batch_bytes:
                found[digest[0]] = self._read(digest)
            elif sum(size for _, size in small) + digest[1] > self._batch_bytes:
                found |= self._read_batch(small)
                small = [digest]
            else:
                small.append(digest)
        return found | self._read_batch(small)

    def _request_storage(self, method: str, request: Any, seconds: float) -> Any:
        path, response = f"ContentAddressableStorage/{method}", getattr(messages, f"{method}Response")
        return self.connection.request(path, request, response, seconds)

    def _send_batch(self, request: Any) -> None:
        seconds = _CALL_SECONDS + request.ByteSize() / _SLOWEST_BYTES
        for part in self._request_storage("BatchUpdateBlobs", request, seconds).responses:
            if part.status.code:
                raise self.connection.error_of_status(part.status)

    def _stream(self, blob: Blob) -> None:
        """Send a blob that is too large for a batch."""
        name, size = blob.digest
        content = blob.read()
        kind = "blobs"
        if self._compresses:
            content, kind = _compressed(content), "compressed-blobs/zstd"
        resource = f"{self._resource_prefix}uploads/{uuid.uuid4()}/{kind}/{name}/{size}"
        self.sent_bytes += len(content)

        def parts() -> Iterator[Any]:
            for start in range(0, len(content) or 1, _CHUNK):
                yield messages.WriteRequest(
                    resource_name=resource if not start else "",
                    write_offset=start,
                    finish_write=start + _CHUNK >= len(content),
                    data=content[start : start + _CHUNK],
                )

        seconds = _CALL_SECONDS + len(content) / _SLOWEST_BYTES
        path = "/google.bytestream.ByteStream/Write"
        committed = self.connection.write(path, parts(), messages.WriteResponse, seconds).committed_size
        if committed not in (-1, size, len(content)):
            raise ExecutorError(faults.BROKEN, "it accepted only part of a blob")

    def _read(self, digest: Digest) -> bytes:
        kind = "compressed-blobs/zstd" if self._compresses else "blobs"
        resource = f"{self._resource_prefix}{kind}/{digest[0]}/{digest[1]}"
        request = messages.ReadRequest(resource_name=resource)
        path = "/google.bytestream.ByteStream/Read"
        seconds = _CALL_SECONDS + digest[1] / _SLOWEST_BYTES
        parts, received = [], 0
        for message in self.connection.read(path, request, messages.ReadResponse, seconds):
            parts.append(message.data)
            received += len(message.data)
            if received > digest[1] + _CHUNK:
                raise ExecutorError(faults.BROKEN, "it sends a blob larger than its digest says")
        self.fetched_bytes += received
        content = b"".join(parts)
        return _checked(_decompressed(content, digest[1]) if self._compresses else content, digest)

    def _read_batch(self, digests: list[Digest]) -> dict[str, bytes]:
        if not digests:
            return {}
        request = messages.BatchReadBlobsRequest(
            instance_name=self._instance,
            digests=[protocol.digest_message(digest) for digest in digests],
            acceptable_compressors=[_ZSTD] if self._compresses else [],
        )
        seconds = _CALL_SECONDS + sum(size for _, size in digests) / _SLOWEST_BYTES
        sizes = dict(digests)
        found = {}
        for part in self._request_storage("BatchReadBlobs", request, seconds).responses:
            if part.status.code:
                raise self.connection.error_of_status(part.status)
            size = sizes.get(part.digest.hash)
            if size is None:
                raise ExecutorError(faults.BROKEN, "it sends a blob that was not requested")
            self.fetched_bytes += len(part.data)
            content = _decompressed(part.data, size) if part.compressor == _ZSTD else part.data
            found[part.digest.hash] = _checked(content, (part.digest.hash, size))
        if found.keys() != sizes.keys():
            raise ExecutorError(faults.BROKEN, "it does not send all requested blobs")
        return found


def _compressed(content: bytes) -> bytes:
    return zstandard.compress(content, 1)


def _decompressed(content: bytes, size: int) -> bytes:
    """At most one byte more than `size`, which guards against decompression bombs."""
    try:
        with zstandard.ZstdDecompressor().stream_reader(content) as reader:
            return reader.read(size + 1)
    except zstandard.ZstdError:
        raise ExecutorError(faults.BROKEN, "it sends a blob that cannot be decompressed") from None


def _checked(content: bytes, digest: Digest) -> bytes:
    if protocol.digest_of(content) != digest:
        raise ExecutorError(faults.BROKEN, "it sends a blob with another digest")
    return content

"""The Remote Execution API as far as it is used: content, actions and their results.

What is received is checked by its digest. Knows nothing of stages.
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
_HIGHEST_UNDERSTOOD = 2  # major version of the interface
_CALL_SECONDS = 5.0  # for an answer that takes no work
_SLOWEST_BYTES = 1 << 20  # a second, of what is sent or fetched
_BATCH_BYTES = 3 << 20  # below gRPC's usual limit of 4 MiB for a message
_CHUNK = 1 << 20
_MOST_UPDATES = 10_000  # of one operation
QUEUED, EXECUTING = (1, 2), 3  # stages of an execution; CACHE_CHECK counts as waiting


@dataclass(frozen=True, slots=True)
class Blob:
    """Content that may have to be sent: in memory, or a file."""

    digest: Digest
    content: bytes | None = None
    path: str = ""

    def read(self) -> bytes:
        if self.content is not None:
            return self.content
        with open(self.path, "rb") as stream:
            content = stream.read()
        if protocol.digest_of(content) != self.digest:
            raise ExecutorError(faults.BROKEN, f"`{self.path}` was changed while it was read")
        return content


class Client:
    """One engine, for one thread; its `connection` may be cancelled by another."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._instance = endpoint.instance
        self._folder = f"{endpoint.instance}/" if endpoint.instance else ""  # of names of streams
        self.connection = Connection(endpoint)
        self._batch_bytes = _BATCH_BYTES
        self._compresses = self._compresses_batches = False
        self.sent_bytes = self.fetched_bytes = 0

    def check(self) -> None:
        """Whether the engine can do what is needed of it; raises ExecutorError if not."""
        request = messages.GetCapabilitiesRequest(instance_name=self._instance)
        path, answer = "Capabilities/GetCapabilities", messages.ServerCapabilities
        found = self.connection.ask(path, request, answer, _CALL_SECONDS)
        low = found.low_api_version.major
        if low > _HIGHEST_UNDERSTOOD or (found.high_api_version.major or 2) < _HIGHEST_UNDERSTOOD:
            raise ExecutorError(faults.OTHER_VERSION, "it does not speak version 2 of the interface")
        cache, execution = found.cache_capabilities, found.execution_capabilities
        if not execution.exec_enabled:
            raise ExecutorError(faults.OTHER_VERSION, "it executes nothing")
        functions = {*cache.digest_functions, *execution.digest_functions, execution.digest_function}
        if _SHA256 not in functions and functions - {0}:
            raise ExecutorError(faults.OTHER_VERSION, "it does not name content by SHA-256")
        if cache.max_batch_total_size_bytes > 0:
            self._batch_bytes = min(_BATCH_BYTES, cache.max_batch_total_size_bytes)
        self._compresses = _ZSTD in cache.supported_compressors
        self._compresses_batches = self._compresses and _ZSTD in cache.supported_batch_update_compressors

    def missing(self, digests: Iterable[Digest]) -> set[str]:
        """Those that the engine does not have."""
        wanted = [protocol.digest_message(digest) for digest in digests]
        request = messages.FindMissingBlobsRequest(instance_name=self._instance, blob_digests=wanted)
        found = self._ask_content("FindMissingBlobs", request, _CALL_SECONDS)
        return {digest.hash for digest in found.missing_blob_digests}

    def send(self, blobs: Iterable[Blob]) -> None:
        """Send what the engine does not have."""
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

    def cached(self, action: Digest) -> Any:
        """The result that the engine has for an action, or None."""
        request = messages.GetActionResultRequest(
            instance_name=self._instance, action_digest=protocol.digest_message(action)
        )
        path, answer = "ActionCache/GetActionResult", messages.ActionResult
        return self.connection.ask(path, request, answer, _CALL_SECONDS, or_none=True)

    def execute(self, action: Digest, watch: Callable[[Any], None], seconds: float) -> Any:
        """The answer to having an action executed; `watch` gets each state on the way."""
        request = messages.ExecuteRequest(
            instance_name=self._instance, action_digest=protocol.digest_message(action)
        )
        names: list[str] = []
        try:
            return self._follow("Execution/Execute", request, watch, names, seconds)
        except ExecutorError as error:
            if error.word != faults.UNREACHABLE or not names or self.connection.is_cancelled:
                raise
        # The connection broke; the work may go on.
        again = messages.WaitExecutionRequest(name=names[-1])
        return self._follow("Execution/WaitExecution", again, watch, names, seconds)

    def stop(self, operation: str) -> None:
        """Tell the engine that nobody waits any more; it may not heed it."""
        request = messages.CancelOperationRequest(name=operation)
        path = "/google.longrunning.Operations/CancelOperation"
        with contextlib.suppress(ExecutorError):
            self.connection.is_cancelled = False
            self.connection.ask(path, request, messages.Empty, 1.0)

    def fetch(self, digests: Iterable[Digest]) -> dict[str, bytes]:
        """Contents by their digests, each checked; raises ExecutorError for one that is not there."""
        found: dict[str, bytes] = {}
        small: list[Digest] = []
        for digest in dict.fromkeys(digests):
            if digest[1] <= 0:  # also a server that leaves sizes out
                found[digest[0]] = _checked(b"", digest)
            elif digest[1] > self._batch_bytes:
                found[digest[0]] = self._read(digest)
            elif sum(size for _, size in small) + digest[1] > self._batch_bytes:
                found |= self._read_batch(small)
                small = [digest]
            else:
                small.append(digest)
        return found | self._read_batch(small)

    def _ask_content(self, method: str, request: Any, seconds: float) -> Any:
        path, answer = f"ContentAddressableStorage/{method}", getattr(messages, f"{method}Response")
        return self.connection.ask(path, request, answer, seconds)

    def _follow(
        self, path: str, request: Any, watch: Callable[[Any], None], names: list[str], seconds: float
    ) -> Any:
        stream = self.connection.read(path, request, messages.Operation, seconds)
        for updates, operation in enumerate(stream):
            if updates > _MOST_UPDATES:  # which cost this process the time of what it runs itself
                raise ExecutorError(faults.BROKEN, "it sends more updates of an operation than there can be")
            names[:] = [operation.name]
            watch(operation)
            if not operation.done:
                continue
            if operation.WhichOneof("result") == "error":
                raise self.connection.of_status(operation.error)
            answer = messages.ExecuteResponse.FromString(operation.response.value)
            if answer.status.code:
                raise self.connection.of_status(answer.status)
            return answer
        raise ExecutorError(faults.UNREACHABLE, "the stream ended before the work did")

    def _send_batch(self, request: Any) -> None:
        seconds = _CALL_SECONDS + request.ByteSize() / _SLOWEST_BYTES
        for part in self._ask_content("BatchUpdateBlobs", request, seconds).responses:
            if part.status.code:
                raise self.connection.of_status(part.status)

    def _stream(self, blob: Blob) -> None:
        """Send a large blob in parts."""
        name, size = blob.digest
        content = blob.read()
        kind = "blobs"
        if self._compresses:
            content, kind = _compressed(content), "compressed-blobs/zstd"
        resource = f"{self._folder}uploads/{uuid.uuid4()}/{kind}/{name}/{size}"
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
            raise ExecutorError(faults.BROKEN, "it took only a part of a blob")

    def _read(self, digest: Digest) -> bytes:
        kind = "compressed-blobs/zstd" if self._compresses else "blobs"
        request = messages.ReadRequest(resource_name=f"{self._folder}{kind}/{digest[0]}/{digest[1]}")
        path = "/google.bytestream.ByteStream/Read"
        seconds = _CALL_SECONDS + digest[1] / _SLOWEST_BYTES
        parts, received = [], 0
        for message in self.connection.read(path, request, messages.ReadResponse, seconds):
            parts.append(message.data)
            received += len(message.data)
            if received > digest[1] + _CHUNK:
                raise ExecutorError(faults.WRONG_RESULT, "it sends more than it promised")
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
        for part in self._ask_content("BatchReadBlobs", request, seconds).responses:
            if part.status.code:
                raise self.connection.of_status(part.status)
            size = sizes.get(part.digest.hash)
            if size is None:
                raise ExecutorError(faults.WRONG_RESULT, "it sends what it was not asked for")
            self.fetched_bytes += len(part.data)
            content = _decompressed(part.data, size) if part.compressor == _ZSTD else part.data
            found[part.digest.hash] = _checked(content, (part.digest.hash, size))
        if found.keys() != sizes.keys():
            raise ExecutorError(faults.WRONG_RESULT, "it does not send all that it was asked for")
        return found


def _compressed(content: bytes) -> bytes:
    return zstandard.compress(content, 1)


def _decompressed(content: bytes, size: int) -> bytes:
    """Content that was promised to have this size; never more than that is made."""
    try:
        with zstandard.ZstdDecompressor().stream_reader(content) as reader:
            return reader.read(size + 1)
    except zstandard.ZstdError:
        raise ExecutorError(faults.WRONG_RESULT, "what it sends cannot be decompressed") from None


def _checked(content: bytes, digest: Digest) -> bytes:
    if protocol.digest_of(content) != digest:
        raise ExecutorError(faults.WRONG_RESULT, "what it sends has another digest")
    return content

"""A server of the Remote Execution API in this process, which runs actions here and goes wrong on demand.

It has no sandbox: an action is run in a directory of its own, as some workers do it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from nvccache.remote_execution import protocol
from nvccache.remote_execution.protocol import messages

# What can go wrong, by the word that a test gives.
SILENT = "never answers"
NO_WORKERS = "stays queued"
WRONG_DIGEST = "sends other content"
LOSES_OUTPUT = "names an output that is not there"
FAILS = "every action ends with status 1"
FULL = "takes no content"
OTHER_VERSION = "speaks version 3"
DIES = "ends the stream in the middle"
ENDS = "ends the stream before the action is done"
REFUSES = "ends the operation with an error"
DENIES = "answers with an error"
TAKES_PART = "takes only part of a stream"
NO_TOKEN = "wants a token"
OTHER_CLASS = "has another processor"
EXECUTES_NOTHING = "stores content and no more"
OTHER_DIGESTS = "uses BLAKE3 digests"
NO_TIMES = "does not tell when an action began"


class FakeEngine:
    """`executed` counts actions that ran; `seen` are the requests by the name of the method."""

    def __init__(self, folder: Path, trouble: str = "", tls: tuple[bytes, bytes] | None = None) -> None:
        self.folder = folder
        self.trouble = trouble
        self.blobs: dict[str, bytes] = {}
        self.results: dict[str, Any] = {}
        self.executed = 0
        self.delay = 0.0  # seconds that an action takes longer
        self.altered: Callable[[Any], None] = lambda result: None  # changes what an action has come to
        self.seen: list[tuple[str, Any]] = []
        self.written: list[list[tuple[str, int, bool]]] = []  # what each stream says of its parts
        self.metadata: list[Any] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(16))
        self._server.add_generic_rpc_handlers((_Handler(self),))
        if tls:  # key and certificate; the authority also signs clients' certificates
            credentials = grpc.ssl_server_credentials([tls], tls[1], require_client_auth=True)
            self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        else:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self._stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._stopped.set()
        self._server.stop(0)

    def wait(self, context: Any) -> None:
        """Say nothing until the client has given up."""
        while context.is_active() and not self._stopped.wait(0.02):
            pass

    # The methods, by their names.

    def GetCapabilities(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.trouble == NO_TOKEN and ("authorization", "Bearer secret") not in self.metadata:
            token = dict(self.metadata).get("authorization", "")  # repeated, as some servers do
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"no token {token}".strip())
        major = 3 if self.trouble == OTHER_VERSION else 2
        function = 9 if self.trouble == OTHER_DIGESTS else 1
        return messages.ServerCapabilities(
            cache_capabilities={"digest_functions": [function]},
            execution_capabilities={
                "digest_function": function,
                "exec_enabled": self.trouble != EXECUTES_NOTHING,
            },
            low_api_version={"major": major},
            high_api_version={"major": major},
        )

    def FindMissingBlobs(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.trouble == SILENT:
            self.wait(context)
        missing = [digest for digest in request.blob_digests if digest.hash not in self.blobs]
        return messages.FindMissingBlobsResponse(missing_blob_digests=missing)

    def BatchUpdateBlobs(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = messages.BatchUpdateBlobsResponse()
        for part in request.requests:
            status = {"code": 8, "message": "full"} if self.trouble == FULL else {}
            answer.responses.add(digest=part.digest, status=status)
            self.blobs[protocol.digest_of(part.data)[0]] = part.data
        return answer

    def Write(self, requests: Any, context: Any) -> Any:  # noqa: N802
        parts = list(requests)
        self.written.append([(part.resource_name, part.write_offset, part.finish_write) for part in parts])
        content = b"".join(part.data for part in parts)
        self.blobs[protocol.digest_of(content)[0]] = content
        return messages.WriteResponse(committed_size=len(content) - (self.trouble == TAKES_PART))

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802
        name = request.resource_name.split("/")[-2]
        if self.trouble == LOSES_OUTPUT or name not in self.blobs:
            context.abort(grpc.StatusCode.NOT_FOUND, "evicted")
        content = self._content(name)
        for start in range(0, len(content), 1 << 16):
            yield messages.ReadResponse(data=content[start : start + (1 << 16)])

    def Execute(self, request: Any, context: Any) -> Any:  # noqa: N802
        yield self._operation(2)
        if self.trouble == NO_WORKERS:
            self.wait(context)
            return
        yield self._operation(3)
        if self.trouble == ENDS:
            return
        if self.trouble == DIES:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        name = request.action_digest.hash
        is_cached = name in self.results
        result = self.results[name] if is_cached else self._execute(name)
        self.altered(result)
        if not result.exit_code:
            self.results[name] = result
        operation = self._operation(4)
        operation.done = True
        status = {"code": 7 if self.trouble == DENIES else 0}
        answer = messages.ExecuteResponse(result=result, cached_result=is_cached, status=status)
        operation.response.value = answer.SerializeToString()
        if self.trouble == REFUSES:
            operation.error.code = 8
        yield operation

    def _content(self, name: str) -> bytes:
        content = self.blobs.get(name, b"")
        return content[:-1] + b"?" if self.trouble == WRONG_DIGEST else content

    def _operation(self, stage: int) -> Any:
        metadata = messages.ExecuteOperationMetadata(stage=stage).SerializeToString()
        return messages.Operation(name="operation", metadata={"value": metadata})

    def _execute(self, name: str) -> Any:
        self.executed += 1
        action = messages.Action.FromString(self.blobs[name])
        command = messages.Command.FromString(self.blobs[action.command_digest.hash])
        if self.trouble == FAILS:
            return messages.ActionResult(exit_code=1, stderr_raw=b"said by the worker")
        with tempfile.TemporaryDirectory(dir=self.folder) as root:
            self._stage(action.input_root_digest.hash, Path(root))
            for path in command.output_paths:  # as the interface has it
                os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            arguments = list(command.arguments)
            if self.trouble == OTHER_CLASS:
                arguments = ["-sse4_1" if word == "sse4_1" else word for word in arguments]
            began = time.time()
            self._stopped.wait(self.delay)
            done = subprocess.run(
                arguments,
                cwd=root,
                env={each.name: each.value for each in command.environment_variables},
                capture_output=True,
                check=False,
            )
            result = messages.ActionResult(
                exit_code=done.returncode, stdout_raw=done.stdout, stderr_raw=done.stderr
            )
            metadata = result.execution_metadata
            if self.trouble != NO_TIMES:
                _set(metadata.execution_start_timestamp, began)
            _set(metadata.execution_completed_timestamp, time.time())
            for path in command.output_paths:
                if os.path.isfile(f"{root}/{path}"):
                    content = Path(root, path).read_bytes()
                    digest = protocol.digest_of(content)
                    self.blobs[digest[0]] = content
                    result.output_files.add(path=path, digest={"hash": digest[0], "size_bytes": digest[1]})
            return result

    def _stage(self, name: str, folder: Path) -> None:
        tree = messages.Directory.FromString(self.blobs[name])
        for file in tree.files:
            (folder / file.name).write_bytes(self.blobs[file.digest.hash])
            (folder / file.name).chmod(0o755 if file.is_executable else 0o644)
        for directory in tree.directories:
            (folder / directory.name).mkdir()
            self._stage(directory.digest.hash, folder / directory.name)


def _set(timestamp: Any, seconds: float) -> None:
    timestamp.seconds = int(seconds)
    timestamp.nanos = int(seconds % 1 * 1e9)


# The methods that answer, or are asked, by a stream; all others take and give one message.
_STREAMS = {
    "Execute": grpc.unary_stream_rpc_method_handler,
    "Write": grpc.stream_unary_rpc_method_handler,
    "Read": grpc.unary_stream_rpc_method_handler,
}


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        request = getattr(messages, f"{name}Request")
        handler = _STREAMS.get(name, grpc.unary_unary_rpc_method_handler)
        self._engine.metadata = [tuple(pair) for pair in details.invocation_metadata]
        method = getattr(self._engine, name)

        def noted(message: Any, context: Any) -> Any:
            self._engine.seen.append((name, message))
            return method(message, context)

        return handler(noted, request.FromString, protocol.serialized)

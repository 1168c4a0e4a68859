"""Runs one stage on an engine of the Remote Execution API.

A stage is an action: a command, an input tree, output paths and required worker properties. The input tree:

    bin/class-check   bin/TOOL   lib/LIBRARY…   nvccache-…/INPUT…

The command runs at the root of the tree and all its paths are relative, so no sandbox is needed. A file that
no other stage reads is not declared as an output, since it can be the largest of all.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nvccache.endpoint import WORKER, Endpoint
from nvccache.execution.run_stage import Costs
from nvccache.remote_execution import client, faults, protocol
from nvccache.remote_execution.client import Blob, Client
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.protocol import Digest, messages, serialized
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult, Work, failure
from nvccache.values import dataclass

_MOST_OUTPUT = 1 << 32
_MOST_STREAM = 1 << 26  # of standard output or error
# Where tools are installed on the workers, each has this property with the SHA-256 of each tool.
TOOL_PROPERTY = "nvccache-tool"
# As spelled by the platform lexicon that is published with the API.
_ISA = {"x86_64": "x86-64", "aarch64": "arm-a64"}


class EngineExecution:
    """One stage; another thread may call `end`."""

    def __init__(self, endpoint: Endpoint, work: Work) -> None:
        self._endpoint = endpoint
        self._work = work
        self._client: Client | None = None
        self._operation = ""
        self._stage = 0
        self._is_queue_timeout = self.is_ended = False

    @property
    def is_queued(self) -> bool:
        """Whether it waits for a worker, according to the engine."""
        return self._stage in client.QUEUED

    def end(self) -> None:
        self.is_ended = True
        if self._client:
            self._client.connection.cancel()

    def run(self) -> RemoteResult:
        """Raises ExecutorError or OSError."""
        self._client = Client(self._endpoint)
        try:
            if self.is_ended:
                raise ExecutorError(faults.CANCELLED)
            return self._run(self._client)
        finally:
            if self._operation and (self.is_ended or self._is_queue_timeout):
                self._client.cancel_operation(self._operation)
            self._client.connection.close()

    def _run(self, engine: Client) -> RemoteResult:
        engine.check()
        described = describe(self._work, self._endpoint)
        started = time.monotonic()
        result = engine.cached_result(described.digest)
        if result is not None:
            try:
                return self._collect(engine, result, True, 0.0, started)
            except ExecutorError as error:  # its blobs were evicted, or the engine caches failures
                if error.fault == faults.CANCELLED:
                    raise
        self._send(engine, described)
        sent = time.monotonic()
        response = self._execute(engine, described)
        return self._collect(engine, response.result, response.cached_result, sent - started, sent)

    def _send(self, engine: Client, described: Described) -> None:
        missing = engine.missing([blob.digest for blob in described.blobs.values()])
        engine.send(blob for name, blob in described.blobs.items() if name in missing)

    def _execute(self, engine: Client, described: Described) -> Any:
        timer = threading.Timer(self._endpoint.queue, self._check_queue)
        timer.daemon = True
        timer.start()
        try:
            return engine.execute(described.digest, self._watch, self._endpoint.deadline)
        except ExecutorError:
            if self._is_queue_timeout:
                seconds = self._endpoint.queue
                raise ExecutorError(faults.NO_WORKERS, f"it waited {seconds:g} s for a worker") from None
            raise
        finally:
            timer.cancel()

    def _watch(self, operation: Any) -> None:
        self._operation = operation.name
        self._stage = messages.ExecuteOperationMetadata.FromString(operation.metadata.value).stage

    def _check_queue(self) -> None:
        if self.is_queued and self._client:
            self._is_queue_timeout = True
            self._client.connection.cancel()

    def _collect(
        self, engine: Client, result: Any, is_cached: bool, send: float, since: float
    ) -> RemoteResult:
        """Fetch the outputs; raises ExecutorError unless all are there."""
        done = time.monotonic()
        streams = [(result.stdout_raw, result.stdout_digest), (result.stderr_raw, result.stderr_digest)]
        digests = {file.path: (file.digest.hash, file.digest.size_bytes) for file in result.output_files}
        wanted = {name: f"{SCRATCH_NAME}/{name}" for name in self._work.outputs}
        stream_digests = [
            (digest.hash, digest.size_bytes) for raw, digest in streams if digest.hash and not raw
        ]
        if any(size > _MOST_OUTPUT for _, size in digests.values()) or any(
            size > _MOST_STREAM for _, size in stream_digests
        ):
            raise ExecutorError(faults.BROKEN, "an output is too large")
        if result.exit_code:
            stderr = result.stderr_raw or engine.fetch(stream_digests).get(result.stderr_digest.hash, b"")
            raise failure(result.exit_code, stderr)
        missing = [name for name, path in wanted.items() if path not in digests]
        if missing:
            raise ExecutorError(faults.FAILED, f"`{missing[0]}` is missing from the result")
        contents = engine.fetch([*stream_digests, *(digests[path] for path in wanted.values())])
        stdout, stderr = (raw or contents.get(digest.hash, b"") for raw, digest in streams)
        metadata, passed = result.execution_metadata, 0.0 if is_cached else done - since
        run = _between(metadata.execution_start_timestamp, metadata.execution_completed_timestamp)
        if not 0 < run <= (self._endpoint.deadline if is_cached else passed):
            run = passed  # the engine leaves times out, or its clock was set
        queue = 0.0 if is_cached else passed - run
        costs = Costs(
            queue, send, run, time.monotonic() - done, engine.sent_bytes, engine.fetched_bytes,
            metadata.worker, is_cached, self._endpoint.shown,
        )  # fmt: skip
        outputs = {name: contents[digests[path][0]] for name, path in wanted.items()}
        return RemoteResult(stdout, stderr, outputs, costs)


def _between(start: Any, end: Any) -> float:
    if not start.seconds or not end.seconds:
        return 0.0  # the engine leaves them out
    return float((end.seconds - start.seconds) + (end.nanos - start.nanos) / 1e9)


@dataclass(frozen=True, slots=True)
class Described:
    """An action's digest, and all blobs that the engine needs to run it, by SHA-256."""

    digest: Digest
    blobs: Mapping[str, Blob]


def describe(work: Work, endpoint: Endpoint) -> Described:
    """The action of a stage; raises OSError."""
    blobs: dict[str, Blob] = {}
    tree: dict[str, Any] = {}
    is_installed = endpoint.toolchain == WORKER
    for file in work.tool.files:
        if is_installed and file.name == work.tool.program:
            continue
        blobs[file.digest[0]] = Blob(file.digest, path=file.path)
        _put(tree, file.name, (file.digest, True))
    for name, path in sorted(work.inputs.items()):
        with open(path, "rb") as stream:
            _put(tree, f"{SCRATCH_NAME}/{name}", (_add(blobs, stream.read()), False))
    root = _directory(tree, blobs)
    wanted = sorted(f"{SCRATCH_NAME}/{name}" for name in work.outputs)
    required = [*_properties(endpoint), *([(TOOL_PROPERTY, work.tool.digest)] if is_installed else [])]
    properties = [{"name": name, "value": value} for name, value in sorted({*required})]
    command = messages.Command(
        arguments=[*work.tool.argv_prefix(is_installed=is_installed), *work.arguments],
        environment_variables=[{"name": name, "value": value} for name, value in work.environment],
        output_files=wanted,  # for engines before 2.1
        output_paths=wanted,
        platform={"properties": properties},
    )
    action = messages.Action(
        command_digest=protocol.digest_message(_add(blobs, serialized(command))),
        input_root_digest=protocol.digest_message(root),
        timeout={"seconds": int(endpoint.deadline)},
        platform={"properties": properties},
    )
    return Described(_add(blobs, serialized(action)), blobs)


def _properties(endpoint: Endpoint) -> Sequence[tuple[str, str]]:
    machine = os.uname().machine
    required = [("OSFamily", platform.system().lower()), ("ISA", _ISA.get(machine, machine))]
    return [*required, *endpoint.properties]


def _put(tree: dict[str, Any], name: str, leaf: tuple[Digest, bool]) -> None:
    *folders, last = name.split("/")
    for folder in folders:
        tree = tree.setdefault(folder, {})
    tree[last] = leaf


def _directory(tree: Mapping[str, Any], blobs: dict[str, Blob]) -> Digest:
    """The digest of a directory; adds the messages of it and its subdirectories to `blobs`."""
    directory = messages.Directory()
    for name, found in sorted(tree.items()):
        if isinstance(found, dict):
            digest = protocol.digest_message(_directory(found, blobs))
            directory.directories.add(name=name, digest=digest)
        else:
            digest, is_executable = protocol.digest_message(found[0]), found[1]
            directory.files.add(name=name, digest=digest, is_executable=is_executable)
    return _add(blobs, serialized(directory))


def _add(blobs: dict[str, Blob], content: bytes) -> Digest:
    digest = protocol.digest_of(content)
    blobs[digest[0]] = Blob(digest, content)
    return digest

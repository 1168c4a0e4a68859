"""Runs one stage on an engine of the Remote Execution API.

A stage is an action: a command, an input tree, output paths and required worker properties. The input tree:

    bin/class-check   bin/TOOL   lib/LIBRARY…   nvccache-…/INPUT…

The command runs at the root of the tree and all its paths are relative, so no sandbox is needed. A file that
no other stage reads is not declared as an output, since it can be the largest of all.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Mapping
from typing import Any

from nvccache.endpoint import WORKER, Endpoint
from nvccache.remote_execution import faults, protocol
from nvccache.remote_execution.client import Blob, Client
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.protocol import Digest, digest_message, messages, serialized
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult, Work, failure
from nvccache.run.stage_run import Costs
from nvccache.values import dataclass

_QUEUED = (1, 2)  # values of ExecutionStage; CACHE_CHECK (1) counts as queued
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
        self._stage = 0
        self._is_queue_timeout = self._is_ended = False

    def end(self) -> None:
        self._is_ended = True
        if self._client:
            self._client.cancel()

    def run(self) -> RemoteResult:
        """Raises ExecutorError or OSError."""
        self._client = Client(self._endpoint)
        try:
            if self._is_ended:
                raise ExecutorError(faults.CANCELLED)
            return self._run(self._client)
        finally:
            self._client.close()

    def _run(self, engine: Client) -> RemoteResult:
        engine.check()
        described = describe(self._work, self._endpoint)
        began = time.monotonic()
        try:
            return self._collect(engine, engine.cached_result(described.digest), True, began, began)
        except ExecutorError as error:  # it is not there, its blobs were evicted, or it is a failure
            if error.fault in (faults.CANCELLED, faults.UNREACHABLE):
                raise
        engine.send(described.blobs.values())
        sent = time.monotonic()
        return self._collect(engine, self._execute(engine, described), False, began, sent)

    def _execute(self, engine: Client, described: Described) -> Any:
        timer = threading.Timer(self._endpoint.queue, self._check_queue)
        timer.daemon = True
        timer.start()
        try:
            return engine.execute(described.digest, self._watch, self._endpoint.deadline).result
        except ExecutorError:
            if self._is_queue_timeout:
                text = f"it waited {self._endpoint.queue:g} s for a worker"
                raise ExecutorError(faults.NO_WORKERS, text) from None
            raise
        finally:
            timer.cancel()

    def _watch(self, operation: Any) -> None:
        self._stage = messages.ExecuteOperationMetadata.FromString(operation.metadata.value).stage

    def _check_queue(self) -> None:
        if self._stage in _QUEUED and self._client:
            self._is_queue_timeout = True
            self._client.cancel()

    def _collect(
        self, engine: Client, result: Any, is_cached: bool, began: float, sent: float
    ) -> RemoteResult:
        """Fetch the outputs; raises ExecutorError unless all are there."""
        done = time.monotonic()

        def stream(raw: bytes, digest: Any) -> bytes:
            return raw if raw or not digest.hash else engine.fetch((digest.hash, digest.size_bytes))

        stderr = stream(result.stderr_raw, result.stderr_digest)
        if result.exit_code:
            raise failure(result.exit_code, stderr)
        stdout = stream(result.stdout_raw, result.stdout_digest)
        digests = {file.path: (file.digest.hash, file.digest.size_bytes) for file in result.output_files}
        outputs = {}
        for name in self._work.outputs:
            digest = digests.get(f"{SCRATCH_NAME}/{name}")
            if digest is None:
                raise ExecutorError(faults.FAILED, f"`{name}` is missing from the result")
            outputs[name] = engine.fetch(digest)
        passed = 0.0 if is_cached else done - sent
        run = _seconds_of(result.execution_metadata)
        if not 0 < run <= (self._endpoint.deadline if is_cached else passed):
            run = passed  # the engine leaves times out, or its clock was set
        costs = Costs(
            max(0.0, passed - run), sent - began, run, time.monotonic() - done, engine.sent_bytes,
            engine.fetched_bytes, is_cached, self._endpoint.shown,
        )  # fmt: skip
        return RemoteResult(stdout, stderr, outputs, costs)


def _seconds_of(metadata: Any) -> float:
    """How long the tool ran; 0 if the engine does not say."""
    start, end = metadata.execution_start_timestamp, metadata.execution_completed_timestamp
    if not start.seconds or not end.seconds:
        return 0.0
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
    machine = platform.machine()
    properties = [("OSFamily", "linux"), ("ISA", _ISA.get(machine, machine)), *endpoint.properties]
    is_installed = endpoint.toolchain == WORKER
    if is_installed:
        properties.append((TOOL_PROPERTY, work.tool.digest))
    for file in work.tool.files:
        if not is_installed or file.name != work.tool.program:
            blobs[file.digest[0]] = Blob(file.digest, path=file.path)
            _put(tree, file.name, (file.digest, True))
    for name, path in work.inputs.items():
        with open(path, "rb") as stream:
            _put(tree, f"{SCRATCH_NAME}/{name}", (_add(blobs, stream.read()), False))
    requirements = {"properties": [{"name": name, "value": value} for name, value in sorted({*properties})]}
    wanted = sorted(f"{SCRATCH_NAME}/{name}" for name in work.outputs)
    command = messages.Command(
        arguments=[*work.tool.argv_prefix(is_installed=is_installed), *work.arguments],
        environment_variables=[{"name": name, "value": value} for name, value in work.environment],
        output_files=wanted,  # for engines before 2.1
        output_paths=wanted,
        platform=requirements,
    )
    action = messages.Action(
        command_digest=digest_message(_add(blobs, serialized(command))),
        input_root_digest=digest_message(_directory(tree, blobs)),
        timeout={"seconds": int(endpoint.deadline)},
        platform=requirements,
    )
    return Described(_add(blobs, serialized(action)), blobs)


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
            directory.directories.add(name=name, digest=digest_message(_directory(found, blobs)))
        else:
            digest, is_executable = found
            directory.files.add(name=name, digest=digest_message(digest), is_executable=is_executable)
    return _add(blobs, serialized(directory))


def _add(blobs: dict[str, Blob], content: bytes) -> Digest:
    digest = protocol.digest_of(content)
    blobs[digest[0]] = Blob(digest, content)
    return digest

"""Runs one stage on an engine of the Remote Execution API.

An action consists of a command, an input tree, output paths and required worker properties. The input tree:

    bin/class-check   bin/TOOL   lib/LIBRARY…   nvccache-…/INPUT…

The command runs at the root of the tree, and all its paths are relative, so no sandbox is needed. Outputs
that are neither products nor read by a stage are not requested, since they may be the largest.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Mapping
from typing import Any

from nvccache.endpoint import Endpoint
from nvccache.machine.process import Completed, Handle
from nvccache.remote_execution import faults, protocol
from nvccache.remote_execution.client import Blob, Client
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.protocol import Digest, digest_message, messages, serialized
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult, Work, failure

# The names of processor architectures in the platform lexicon that is published with the API.
_ISA = {"x86_64": "x86-64", "aarch64": "arm-a64"}


def run(endpoint: Endpoint, work: Work, handle: Handle) -> RemoteResult:
    """Run a stage, unless another thread ends `handle` before; raises ExecutorError or OSError."""
    started = time.monotonic()
    with contextlib.closing(Client(endpoint)) as engine:
        handle.on_end(engine.cancel)
        action, blobs = describe(work, endpoint)
        engine.send(blobs.values())
        sent = time.monotonic()
        response = engine.execute(action, endpoint.queue, endpoint.deadline)
        was_cached = response.cached_result
        passed = 0.0 if was_cached else time.monotonic() - sent
        stdout, stderr, outputs = _fetch(engine, response.result, work)
        cpu = _seconds_of(response.result.execution_metadata)
        if not 0 < cpu <= (endpoint.deadline if was_cached else passed):
            cpu = passed  # the engine reports no times, or its clock was set meanwhile
        completed = Completed(0, stdout, stderr, time.monotonic() - started, cpu)
        return RemoteResult(completed, outputs, was_cached)


def _fetch(engine: Client, result: Any, work: Work) -> tuple[bytes, bytes, dict[str, bytes]]:
    """A stage's stdout, stderr and outputs; raises ExecutorError if it failed or an output is missing."""

    def stream(raw: bytes, digest: Any) -> bytes:
        return raw if raw or not digest.hash else engine.fetch((digest.hash, digest.size_bytes))

    stderr = stream(result.stderr_raw, result.stderr_digest)
    if result.exit_code:
        raise failure(result.exit_code, stderr)
    digests = {file.path: (file.digest.hash, file.digest.size_bytes) for file in result.output_files}
    outputs = {}
    for name in work.outputs:
        digest = digests.get(f"{SCRATCH_NAME}/{name}")
        if digest is None:
            raise ExecutorError(faults.FAILED, f"`{name}` is missing from the result")
        outputs[name] = engine.fetch(digest)
    return stream(result.stdout_raw, result.stdout_digest), stderr, outputs


def _seconds_of(metadata: Any) -> float:
    """How long the tool ran, in seconds; 0 if the engine does not say."""
    start, end = metadata.execution_start_timestamp, metadata.execution_completed_timestamp
    if not start.seconds or not end.seconds:
        return 0.0
    return float((end.seconds - start.seconds) + (end.nanos - start.nanos) / 1e9)


def describe(work: Work, endpoint: Endpoint) -> tuple[Digest, Mapping[str, Blob]]:
    """The digest of a stage's action, and the blobs that belong to it, by SHA-256; raises OSError."""
    blobs: dict[str, Blob] = {}
    tree: dict[str, Any] = {}
    machine = platform.machine()
    properties = {("OSFamily", "linux"), ("ISA", _ISA.get(machine, machine)), *endpoint.properties}
    for file in work.tool.files:
        blobs[file.digest[0]] = Blob(file.digest, path=file.path)
        _put(tree, file.name, (file.digest, True))
    for name, path in work.inputs.items():
        with open(path, "rb") as stream:
            _put(tree, f"{SCRATCH_NAME}/{name}", (_add(blobs, stream.read()), False))
    requirements = {"properties": [{"name": name, "value": value} for name, value in sorted(properties)]}
    wanted = sorted(f"{SCRATCH_NAME}/{name}" for name in work.outputs)
    command = messages.Command(
        arguments=[*work.tool.argv, *work.arguments],
        environment_variables=[{"name": name, "value": value} for name, value in work.environment],
        output_files=wanted,  # for engines with version 2.0 of the API
        output_paths=wanted,
        platform=requirements,
    )
    action = messages.Action(
        command_digest=digest_message(_add(blobs, serialized(command))),
        input_root_digest=digest_message(_directory(tree, blobs)),
        timeout={"seconds": int(endpoint.deadline)},
        platform=requirements,
    )
    return _add(blobs, serialized(action)), blobs


def _put(tree: dict[str, Any], name: str, leaf: tuple[Digest, bool]) -> None:
    *folders, last = name.split("/")
    for folder in folders:
        tree = tree.setdefault(folder, {})
    tree[last] = leaf


def _directory(tree: Mapping[str, Any], blobs: dict[str, Blob]) -> Digest:
    """The digest of a directory; adds the messages that describe it and its subdirectories to `blobs`."""
    directory = messages.Directory()
    for name, entry in sorted(tree.items()):
        if isinstance(entry, dict):
            directory.directories.add(name=name, digest=digest_message(_directory(entry, blobs)))
        else:
            digest, is_executable = entry
            directory.files.add(name=name, digest=digest_message(digest), is_executable=is_executable)
    return _add(blobs, serialized(directory))


def _add(blobs: dict[str, Blob], content: bytes) -> Digest:
    digest = protocol.digest_of(content)
    blobs[digest[0]] = Blob(digest, content)
    return digest

"""A stage as an action of the Remote Execution API: command, input tree, outputs, properties of a worker.

    bin/class-check   bin/TOOL   lib/LIBRARY…   nvccache-…/INPUT…

The command is run at the root of the tree, and every name in it is relative: that works in a directory as
well as in a sandbox. What a stage writes and nobody reads is no output: it can be the largest file of all.
"""

from __future__ import annotations

import os
import platform

from nvccache.endpoint import WORKER
from nvccache.remote_execution import messages
from nvccache.remote_execution.client import Blob
from nvccache.remote_execution.work import PLACE
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from nvccache.endpoint import Endpoint
    from nvccache.remote_execution.work import Work

# What a worker that has the tools itself says of them: the SHA-256 of each.
TOOL_PROPERTY = "nvccache-tool"
# As the lexicon of platform properties that comes with the interface spells them.
_ISA = {"x86_64": "x86-64", "aarch64": "arm-a64"}


@dataclass(frozen=True, slots=True)
class Described:
    """An action: its digest, and all that the engine must have to run it, by SHA-256."""

    digest: tuple[str, int]
    blobs: Mapping[str, Blob]


def describe(work: Work, endpoint: Endpoint) -> Described:
    """The action of a stage; raises OSError."""
    blobs: dict[str, Blob] = {}
    tree: dict[str, Any] = {}
    is_there = endpoint.toolchain == WORKER
    for file in work.tool.files:
        if is_there and file.name == work.tool.program:
            continue
        blobs[file.digest[0]] = Blob(file.digest, path=file.path)
        _put(tree, file.name, (file.digest, True))
    for name, path in sorted(work.inputs.items()):
        with open(path, "rb") as stream:
            _put(tree, f"{PLACE}/{name}", (_add(blobs, stream.read()), False))
    root = _directory(tree, blobs)
    wanted = sorted(f"{PLACE}/{name}" for name in work.outputs)
    asked = [*_properties(endpoint), *([(TOOL_PROPERTY, work.tool.digest)] if is_there else [])]
    properties = [{"name": name, "value": value} for name, value in sorted({*asked})]
    command = messages.make(
        "Command",
        arguments=[*work.tool.words(is_there=is_there), *work.arguments],
        environment_variables=[{"name": name, "value": value} for name, value in work.environment],
        output_files=wanted,  # for engines before 2.1
        output_paths=wanted,
        platform={"properties": properties},
    )
    action = messages.make(
        "Action",
        command_digest=_message(_add(blobs, _serialized(command))),
        input_root_digest=_message(root),
        timeout={"seconds": int(endpoint.deadline)},
        platform={"properties": properties},
    )
    return Described(_add(blobs, _serialized(action)), blobs)


def _properties(endpoint: Endpoint) -> Sequence[tuple[str, str]]:
    machine = os.uname().machine
    asked = [("OSFamily", platform.system().lower()), ("ISA", _ISA.get(machine, machine))]
    return [*asked, *endpoint.properties]


def _put(tree: dict[str, Any], name: str, leaf: tuple[tuple[str, int], bool]) -> None:
    *folders, last = name.split("/")
    for folder in folders:
        tree = tree.setdefault(folder, {})
    tree[last] = leaf


def _directory(tree: Mapping[str, Any], blobs: dict[str, Blob]) -> tuple[str, int]:
    """The digest of a directory, with its message and those below it added."""
    files, directories = [], []
    for name, found in sorted(tree.items()):
        if isinstance(found, dict):
            directories.append({"name": name, "digest": _message(_directory(found, blobs))})
        else:
            digest, is_executable = found
            files.append({"name": name, "digest": _message(digest), "is_executable": is_executable})
    return _add(blobs, _serialized(messages.make("Directory", files=files, directories=directories)))


def _add(blobs: dict[str, Blob], content: bytes) -> tuple[str, int]:
    digest = messages.digest_of(content)
    blobs[digest[0]] = Blob(digest, content)
    return digest


def _message(digest: tuple[str, int]) -> Any:
    return messages.make("Digest", hash=digest[0], size_bytes=digest[1])


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))

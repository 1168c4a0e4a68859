"""Describes a stage for another machine: whether it may be sent, and which files are sent with it.

A tool is sent with its dynamic loader and libraries, since results depend on the C library. On the worker,
class-check (src/native/class_check) checks the class of the processor, and then starts the tool.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256

from nvccache import environment
from nvccache.files import keys, signatures
from nvccache.machine.process import Completed
from nvccache.nvcc_lookup import is_program
from nvccache.plan.model import Stage
from nvccache.records import facts
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import ExecutorError
from nvccache.store.store import Store
from nvccache.toolkit import toolchain
from nvccache.values import dataclass

# Replaces the scratch directory's path in commands and files that are sent. The digits make it unique.
SCRATCH_NAME = "nvccache-51d0c2f3a86e4b79"
CHECK = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "class-check")
CHECK_NAME = b"nvccache class-check:"  # the beginning of class-check's messages
_PROGRAMS, _LIBRARIES = "bin", "lib"
# These make the loader load further libraries. Those in LD_LIBRARY_PATH are sent anyway.
_PRELOAD_VARIABLES = ("LD_PRELOAD", "LD_AUDIT")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ToolFile:
    name: str  # in the input tree
    path: str  # on this machine
    digest: tuple[str, int]  # SHA-256 and size


@dataclass(frozen=True, slots=True)
class ShippedTool:
    """A tool with its loader, its libraries and class-check."""

    files: Sequence[ToolFile]
    argv: Sequence[str]  # class-check, the loader and the program, relative to the tree's root


@dataclass(frozen=True, slots=True)
class Work:
    """A stage to run elsewhere. In it, SCRATCH_NAME replaces the path of the scratch directory."""

    tool: ShippedTool
    arguments: Sequence[str]  # argv[1:]
    environment: Sequence[tuple[str, str]]
    inputs: Mapping[str, str]  # names below SCRATCH_NAME -> paths on this machine
    outputs: Sequence[str]  # names below SCRATCH_NAME


@dataclass(frozen=True, slots=True)
class RemoteResult:
    completed: Completed
    outputs: Mapping[str, bytes]  # names as in Work.outputs -> contents
    was_cached: bool = False


def may_be_sent(stage: Stage, environ: Mapping[str, str]) -> bool:
    """Whether a stage would have the same result on another machine."""
    grammar, tool = stage.grammar, stage.tool
    if not tool.may_run_elsewhere or not grammar.is_cached:
        return False  # the tool reads files that cannot be sent
    if grammar.sees_directory or tool.lines_matter(stage.argv) or grammar.sees_names:
        return False
    if grammar.dates_sources:
        return False
    if grammar.stays_in_order:
        return False  # the stage does more than read and write the files that its arguments name
    if not stage.kept_outputs or any(output.begins_as for output in stage.outputs):
        return False
    return not any(environ.get(name) for name in tool.variables)


def forwarded_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The variables that a tool gets on another machine: only those that the C library reads."""
    names = (*environment.OF_LIBC, "GLIBC_TUNABLES")
    return sorted((name, environ[name]) for name in names if environ.get(name))


def describe_stage(
    stage: Stage, argv: Sequence[str], read: Sequence[str], scratch: str, tool: ShippedTool,
    environ: Mapping[str, str],
) -> Work:  # fmt: skip
    """Describe a stage for another machine; raises ExecutorError if it reads files outside `scratch`."""
    inside = scratch + "/"
    inputs = {path.removeprefix(inside): path for path in read}
    if not all(path.startswith(inside) for path in read):
        raise ExecutorError(faults.FAILED, "the stage reads a file outside the scratch directory")
    arguments = []
    for argument in argv[1:]:
        named = argument.partition("=")[2] or argument
        if named in stage.possible_files and os.path.isfile(named):
            name = f"named/{len(inputs)}/{os.path.basename(named)}"
            inputs[name] = named
            arguments.append(argument.removesuffix(named) + f"{SCRATCH_NAME}/{name}")
        else:
            arguments.append(argument.replace(inside, SCRATCH_NAME + "/"))
    outputs = [output.path.removeprefix(inside) for output in stage.kept_outputs]
    return Work(tool, arguments, forwarded_variables(environ), inputs, outputs)


def ship_tool(name: str, environ: Mapping[str, str], store: Store) -> ShippedTool:
    """The files and the command of the tool `name` (argv[0]). Raises OSError and ExecutorError."""
    program = os.path.realpath(toolchain.resolve(name, environ.get("PATH", "")))
    libraries = toolchain.libraries_of(program, environ)
    if not libraries:
        raise ExecutorError(faults.FAILED, "the tool's libraries are unknown")
    if any(environ.get(name) for name in _PRELOAD_VARIABLES) or os.path.exists(toolchain.PRELOAD_LIST):
        raise ExecutorError(faults.FAILED, "the dynamic loader is set to preload libraries")
    if not is_program(CHECK):
        raise ExecutorError(faults.BROKEN, "`class-check` was not built: there was no static C library")
    checks = checks_of(facts.processor_class())
    if not checks:
        raise ExecutorError(faults.BROKEN, "this machine's processor class is unknown")
    program_name = f"{_PROGRAMS}/{os.path.basename(program)}"
    named = {f"{_PROGRAMS}/class-check": CHECK, program_name: program}
    for path in libraries:
        named.setdefault(f"{_LIBRARIES}/{os.path.basename(path)}", path)
    files = [ToolFile(key, path, digest_of_file(path, store)) for key, path in named.items()]
    dynamic_loader = f"{_LIBRARIES}/{os.path.basename(libraries[-1])}"
    checking = [f"{_PROGRAMS}/class-check", *checks, "--"]
    loading = [dynamic_loader, "--inhibit-cache", "--library-path", _LIBRARIES, program_name]
    return ShippedTool(files, [*checking, *loading])


def checks_of(processor_class: str) -> list[str]:
    """The arguments that tell class-check the required processor class; empty if the class is unknown."""
    if "\n" in processor_class:
        return []
    present = processor_class.split()
    return [flag if flag in present else f"-{flag}" for flag in facts.USED_BY_LIBM]


def digest_of_file(path: str, store: Store) -> tuple[str, int]:
    """The SHA-256 and size of a file, from a memo if its stat signature is unchanged; raises OSError."""
    real_path = os.path.realpath(path)
    signature = signatures.signature_of(real_path)
    if signature is None:
        raise FileNotFoundError(f"no file `{path}`")
    memo_key = keys.key_of("sha256", [("file", (real_path, signatures.to_text([signature])))])
    name, _, size = store.find_memo(memo_key).partition(" ")
    if len(name) == 64 and size.isdecimal():
        return name, int(size)
    state, length = sha256(), 0
    with open(real_path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            state.update(chunk)
            length += len(chunk)
    digest = state.hexdigest(), length
    if signatures.is_settled(signature, time.time_ns()) and signatures.signature_of(real_path) == signature:
        store.add_memo(memo_key, f"{digest[0]} {digest[1]}")
    return digest


def failure(status: int, stderr: bytes) -> ExecutorError:
    """The error for a stage that failed. Its messages are dropped, since the local run repeats them."""
    if CHECK_NAME in stderr:  # the processor is of another class, or the loader cannot be run
        return ExecutorError(faults.BROKEN, stderr.decode(errors="replace").strip())
    return ExecutorError(faults.FAILED, f"status {status}")

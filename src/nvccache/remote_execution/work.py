"""One stage as another machine is to run it: whether it may be sent at all, and what goes with it.

That is its tool, with the C library it computes by: the tool is started by the loader that lies beside it,
and loads nothing from the worker; the check of the processor's class (native/class_check) goes before it.
Each file is named by the digest of its content.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256

from nvccache import environment
from nvccache.execution.run_stage import Costs
from nvccache.files import elf, keys, signatures
from nvccache.plan.model import Stage
from nvccache.real_nvcc import is_program
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import ExecutorError
from nvccache.store.store import Store
from nvccache.toolkit import processor, toolchain
from nvccache.toolkit.loader import Loaded
from nvccache.values import dataclass

# Stands for the scratch directory in what is sent. The digits keep it from meeting anything of a user's.
PLACE = "nvccache-51d0c2f3a86e4b79"
CHECK = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "class-check")
CHECK_NAME = b"nvccache class-check:"  # at the start of its messages
_OTHER_CLASS, _CANNOT_RUN = 97, 98  # as src/native/class_check/class_check.c ends
_PROGRAMS, _LIBRARIES = "bin", "lib"
# The loader would load further libraries for them.
_OBSTACLES = ("LD_PRELOAD", "LD_AUDIT")  # LD_LIBRARY_PATH was heeded when the files were found
_PRELOAD_LIST = "/etc/ld.so.preload"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ToolFile:
    """One file of a tool."""

    name: str  # among those that are sent
    path: str  # on this machine
    digest: tuple[str, int]  # SHA-256 and size


@dataclass(frozen=True, slots=True)
class ShippedTool:
    """A tool with all that it needs."""

    files: Sequence[ToolFile]
    checks: Sequence[str]  # arguments of the check of the processor's class
    program: str  # the names of two of the files
    loader: str
    place: str  # of the tool on this machine

    @property
    def digest(self) -> str:
        """The SHA-256 of the tool itself."""
        return next(file.digest[0] for file in self.files if file.name == self.program)

    def words(self, root: str = "", streams: Sequence[str] = (), is_there: bool = False) -> list[str]:
        """The words before the arguments; the files lie below `root`.

        `is_there` says that the tool itself lies where it is run as it does here.
        """
        checking = [f"{root}{_PROGRAMS}/class-check", *streams, *self.checks, "--"]
        loading = [root + self.loader, "--inhibit-cache", "--library-path", root + _LIBRARIES]
        return [*checking, *loading, self.place if is_there else root + self.program]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be run, with PLACE for the scratch directory."""

    kind: str  # of the stage
    tool: ShippedTool
    arguments: Sequence[str]  # without the tool's own name
    environment: Sequence[tuple[str, str]]
    inputs: Mapping[str, str]  # names below PLACE -> the files that they stand for
    outputs: Sequence[str]  # names below PLACE


@dataclass(frozen=True, slots=True)
class CameBack:
    """What another machine has made."""

    stdout: bytes
    stderr: bytes
    outputs: Mapping[str, bytes]  # contents by name
    costs: Costs


def reason_to_stay(stage: Stage, environ: Mapping[str, str]) -> str:
    """Why a stage has to run here, a clause; empty if another machine makes the same of it."""
    grammar, tool = stage.grammar, stage.tool
    if not tool.may_run_elsewhere or not stage.is_located_anywhere or not grammar.is_cached:
        return "its tool reads more than can be sent"
    if grammar.sees_directory or tool.lines_matter(stage.argv):
        return "its result depends on directories or lines"
    if grammar.sees_names or grammar.dates_sources or grammar.dates_linked_sources:
        return "its result depends on names or dates"
    if grammar.stays_in_order or grammar.runs_programs:
        return "it does more than to read and write the files that it names"
    if any(output.begins_as for output in stage.outputs) or not stage.kept_outputs:
        return "it adds to what was there before"
    asked = [name for name in tool.variables if environ.get(name)]
    return f"`{asked[0]}` is set" if asked else ""


def passed_on(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The variables that a tool is given: those of the C library, and no others."""
    names = (*environment.OF_LIBC, "GLIBC_TUNABLES")
    return sorted((name, environ[name]) for name in names if environ.get(name))


def of_stage(
    stage: Stage, argv: Sequence[str], read: Sequence[str], scratch: str, tool: ShippedTool,
    environ: Mapping[str, str],
) -> Work:  # fmt: skip
    """A stage as it is sent; raises ExecutorError where it reads what is not of this call."""
    inside = scratch + "/"
    inputs = {path.removeprefix(inside): path for path in read}
    if not all(path.startswith(inside) for path in read):
        raise ExecutorError(faults.FAILED, "it reads a file from outside the scratch directory")
    arguments = []
    for word in argv[1:]:
        named = word.partition("=")[2] or word
        if named in stage.possible_files and os.path.isfile(named):
            name = f"named/{len(inputs)}/{os.path.basename(named)}"
            inputs[name] = named
            arguments.append(word.removesuffix(named) + f"{PLACE}/{name}")
        else:
            arguments.append(word.replace(inside, PLACE + "/"))
    outputs = [output.path.removeprefix(inside) for output in stage.kept_outputs]
    return Work(stage.kind, tool, arguments, passed_on(environ), inputs, outputs)


def of_tool(word: str, loaded: Loaded | None, environ: Mapping[str, str], store: Store) -> ShippedTool:
    """The files of a tool that a command word starts; raises OSError, ExecutorError if it cannot be sent."""
    if loaded is None or not loaded.loader:
        raise ExecutorError(faults.FAILED, "what the tool loads is not known")
    if any(environ.get(name) for name in _OBSTACLES) or os.path.exists(_PRELOAD_LIST):
        raise ExecutorError(faults.FAILED, "the environment tells the dynamic loader what to load")
    if not is_program(CHECK):
        raise ExecutorError(
            faults.NOT_INSTALLED, "the check of the processor was not built: no static C library"
        )
    checks = processor.checks_of(processor.features(loaded.loader, environ, store, is_of_tool=True))
    if not checks:
        raise ExecutorError(faults.OTHER_MACHINE, "the class of the processor here is not known")
    program = os.path.realpath(toolchain.resolve(word, environ.get("PATH", "")))
    named = {f"{_PROGRAMS}/class-check": CHECK, f"{_PROGRAMS}/{os.path.basename(program)}": program}
    for path in loaded.files:
        if _is_library(path):
            named.setdefault(f"{_LIBRARIES}/{os.path.basename(path)}", path)
    files = [ToolFile(name, path, digest_of_file(path, store)) for name, path in named.items()]
    loader = f"{_LIBRARIES}/{os.path.basename(loaded.loader)}"
    return ShippedTool(files, checks, f"{_PROGRAMS}/{os.path.basename(program)}", loader, program)


def _is_library(path: str) -> bool:
    with open(path, "rb") as stream:
        return stream.read(len(elf.MAGIC)) == elf.MAGIC


def digest_of_file(path: str, store: Store) -> tuple[str, int]:
    """The SHA-256 and size of a file that seldom changes, remembered in the store; raises OSError."""
    real_path = os.path.realpath(path)
    shown = signatures.of(real_path)
    if shown is None:
        raise FileNotFoundError(f"no file `{path}`")
    memo_key = keys.key_of("sha256", [("file", (real_path, signatures.to_text([shown])))])
    name, _, size = store.find_memo(memo_key).partition(" ")
    if len(name) == 64 and size.isdecimal():
        return name, int(size)
    state, length = sha256(), 0
    with open(real_path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            state.update(chunk)
            length += len(chunk)
    digest = state.hexdigest(), length
    if signatures.is_settled(shown, time.time_ns()) and signatures.of(real_path) == shown:
        store.add_memo(memo_key, f"{digest[0]} {digest[1]}")
    return digest


def failure(status: int, stderr: bytes) -> ExecutorError:
    """Why a stage that ended with this status runs here; its messages are those of the local run alone."""
    if status == _OTHER_CLASS and CHECK_NAME in stderr:
        return ExecutorError(faults.OTHER_MACHINE, "the worker's processor is of another class")
    if status == _CANNOT_RUN and CHECK_NAME in stderr:
        return ExecutorError(faults.BROKEN, stderr.decode(errors="replace").strip())
    return ExecutorError(faults.FAILED, f"status {status}")

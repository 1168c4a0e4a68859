"""What is sent with a stage so that it runs anywhere as here: its tool, and the C library it computes by.

The tool is started by the loader that lies beside it, and loads nothing from the worker; the check of the
processor's class (worker/class_check.c) goes before it. Each file is named by the digest of its content.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256

from nvccache.files import elf, keys, signatures
from nvccache.real_nvcc import is_program
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import AwayError
from nvccache.store.store import Store
from nvccache.toolkit import processor, toolchain
from nvccache.toolkit.loader import Loaded
from nvccache.values import dataclass

CHECK = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "class-check")
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


def of_tool(word: str, loaded: Loaded | None, environ: Mapping[str, str], store: Store) -> ShippedTool:
    """The files of a tool that a command word starts; raises AwayError where it cannot be sent, OSError."""
    if loaded is None or not loaded.loader:
        raise AwayError(faults.FAILED, "what the tool loads is not known")
    if any(environ.get(name) for name in _OBSTACLES) or os.path.exists(_PRELOAD_LIST):
        raise AwayError(faults.FAILED, "the environment tells the dynamic loader what to load")
    if not is_program(CHECK):
        raise AwayError(faults.NOT_INSTALLED, "the check of the processor was not built: no static C library")
    checks = processor.checks_of(processor.features(loaded.loader, environ, store, is_of_tool=True))
    if not checks:
        raise AwayError(faults.OTHER_MACHINE, "the class of the processor here is not known")
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

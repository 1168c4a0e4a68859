"""Runs one stage through a launcher such as `srun` or `ssh HOST`, a prefix of its command.

NVCCACHE_EXECUTOR_DIR must have the same path on all machines. Layout:

    tools-<digest>/bin/…, lib/…     a tool with its libraries, made once
    away-<random>/                  one stage: inputs, a script, the tool's messages, outputs, a report

The script contains the whole command, so the launcher need not forward arguments or variables. Some launchers
succeed though the command ran partly or not at all, and on a network file system a file may appear before its
content does: only outputs that match the worker's report are accepted.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256

from nvccache.endpoint import Endpoint
from nvccache.files import untrusted
from nvccache.machine import process
from nvccache.machine.process import Handle
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import (
    CHECK_NAME,
    SCRATCH_NAME,
    RemoteResult,
    ShippedTool,
    Work,
    digest_of_file,
    failure,
)
from nvccache.run.stage_run import Costs
from nvccache.store.store import Store
from nvccache.values import dataclass

_PLAIN = re.compile(r"/[\w./+@=,-]*", re.ASCII)  # a path that no launcher's shell expands or splits
_SCRIPT, _STDOUT, _STDERR, _REPORT = "run", "stdout", "stderr", "report"
_MAX_MESSAGE_BYTES = 1 << 16  # of the launcher itself
_STAGE = "away-"
_MOST_BYTES = 1 << 32  # of one output
_STALE_SECONDS = 2 * 86400  # twice the longest deadline, so no call can still use it
_swept: set[str] = set()  # directories, by this process


def why_unusable(directory: str) -> str:
    """Why the directory cannot be used, a clause; empty if it can, or does not exist."""
    if not _PLAIN.fullmatch(directory):
        return "`NVCCACHE_EXECUTOR_DIR` is not set to a path without special characters"
    try:
        status = os.stat(f"{directory}/")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"`{directory}` cannot be used: {error.strerror}"
    # Anyone who can write there can run code as this user.
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        return f"`{directory}` is another user's, or writable by everyone"
    return ""


@dataclass(slots=True)
class LauncherExecution:
    """One stage; another thread may end `handle`."""

    _endpoint: Endpoint
    _work: Work
    _directory: str  # NVCCACHE_EXECUTOR_DIR
    _environ: Mapping[str, str]  # of the launcher
    _store: Store
    _handle: Handle
    _folder: str = ""  # of the stage, once made
    _why_ended: str = ""

    def run(self) -> RemoteResult:
        """Raises ExecutorError or OSError."""
        try:
            started = time.monotonic()
            why = why_unusable(self._directory)
            if why:
                raise ExecutorError(faults.BROKEN, why)
            os.makedirs(self._directory, 0o700, exist_ok=True)
            tools = self._tools()
            self._folder = tempfile.mkdtemp(prefix=_STAGE, dir=self._directory)
            _sweep(self._directory, os.stat(self._folder).st_mtime)
            self._write(tools)
        except OSError as error:
            raise ExecutorError(faults.BROKEN, str(error)) from None
        try:
            return self._launch(time.monotonic() - started)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self, send: float) -> RemoteResult:
        timers = [
            threading.Timer(self._endpoint.queue, self._check_queue),
            threading.Timer(self._endpoint.deadline, self._end_with, (faults.UNREACHABLE,)),
        ]
        for timer in timers:
            timer.daemon = True
            timer.start()
        program, *rest = self._endpoint.launcher
        if "/" in program:
            program = os.path.abspath(program)  # relative to the build's directory, not to `cwd` below
        argv = [program, *rest, "/bin/sh", f"{self._folder}/{_SCRIPT}"]
        try:
            # Some launchers would consume the build's standard input.
            done = process.run(
                argv, self._environ, cwd=self._folder, handle=self._handle, stdin=subprocess.DEVNULL,
                max_output=_MAX_MESSAGE_BYTES,
            )  # fmt: skip
        except OSError as error:
            raise ExecutorError(faults.UNREACHABLE, f"`{argv[0]}`: {error.strerror}") from None
        finally:
            for timer in timers:
                timer.cancel()
        if self._handle.is_ended:
            raise ExecutorError(self._why_ended or faults.CANCELLED)
        return self._collect(done.status, done.stderr, send, done.seconds)

    def _has_begun(self) -> bool:
        """Whether the tool has: the first thing it does is create the file for its messages."""
        os.listdir(self._folder)  # makes a network file system refresh its cache
        return os.path.exists(f"{self._folder}/{_STDOUT}")

    def _check_queue(self) -> None:
        if not self._has_begun():
            self._end_with(faults.NO_WORKERS)

    def _end_with(self, fault: str) -> None:
        self._why_ended = fault
        self._handle.end(signal.SIGTERM)

    def _collect(self, status: int, stderr: bytes, send: float, run: float) -> RemoteResult:
        done = time.monotonic()
        if not self._has_begun():
            if CHECK_NAME in stderr:
                raise failure(status, stderr)
            text = stderr.decode(errors="replace").strip()[-200:]
            raise ExecutorError(
                faults.UNREACHABLE, f"`{self._endpoint.launcher[0]}` ended with {status}: {text}"
            )
        if status:
            raise ExecutorError(faults.FAILED, f"status {status}")
        scratch = os.fsencode(f"{self._folder}/{SCRATCH_NAME}")
        contents = _reported_contents(f"{self._folder}/{_REPORT}", self._reported())
        stdout, stderr, *outputs = (content.replace(scratch, SCRATCH_NAME.encode()) for content in contents)
        sizes = sum(map(os.path.getsize, self._work.inputs.values())), sum(map(len, outputs))
        costs = Costs(0.0, send, run, time.monotonic() - done, *sizes, where=self._endpoint.shown)
        return RemoteResult(stdout, stderr, dict(zip(self._work.outputs, outputs, strict=True)), costs)

    def _reported(self) -> list[str]:
        """The files in the worker's report, in its order."""
        outputs = [f"{SCRATCH_NAME}/{name}" for name in self._work.outputs]
        return [f"{self._folder}/{name}" for name in (_STDOUT, _STDERR, *outputs)]

    def _write(self, tools: str) -> None:
        """Write the inputs of the stage and the script that runs it."""
        scratch = f"{self._folder}/{SCRATCH_NAME}"
        for name in (*self._work.inputs, *self._work.outputs):
            os.makedirs(os.path.dirname(f"{scratch}/{name}"), exist_ok=True)
        for name, path in self._work.inputs.items():
            shutil.copyfile(path, f"{scratch}/{name}")
        streams = ["-o", f"{self._folder}/{_STDOUT}", "-e", f"{self._folder}/{_STDERR}"]
        streams += ["-r", f"{self._folder}/{_REPORT}"]
        streams += [argument for path in self._reported() for argument in ("-w", path)]
        argv = [f"{name}={value}" for name, value in self._work.environment]
        argv += self._work.tool.argv_prefix(f"{tools}/", streams)
        argv += [argument.replace(SCRATCH_NAME + "/", scratch + "/") for argument in self._work.arguments]
        with open(f"{self._folder}/{_SCRIPT}", "xb") as stream:
            stream.write(b"exec env -i " + os.fsencode(shlex.join(argv)) + b"\n")

    def _tools(self) -> str:
        """The directory with the tool, checked file by file; raises OSError."""
        tool = self._work.tool
        named = "\n".join(f"{file.name} {file.digest[0]}" for file in tool.files)
        folder = f"{self._directory}/tools-{sha256(named.encode(errors='surrogateescape')).hexdigest()[:32]}"
        if not os.path.isdir(folder):
            _install(tool, folder)
        for file in tool.files:
            if digest_of_file(f"{folder}/{file.name}", self._store) != file.digest:
                raise ExecutorError(faults.BROKEN, f"`{folder}/{file.name}` was changed")
        return folder


def _reported_contents(report: str, paths: Sequence[str]) -> list[bytes]:
    """The contents of the files in a report, in its order; raises ExecutorError."""
    status, *lines = _content_of(report).decode(errors="replace").split("\n")
    if len(lines) != len(paths) + 2 or lines[-2:] != ["end", ""]:
        raise ExecutorError(faults.FAILED, "the worker's report is incomplete")
    if status != "0":
        raise ExecutorError(faults.FAILED, f"status {status[:20]} on the worker")
    contents = []
    for line, path in zip(lines, paths, strict=False):
        content = _content_of(path)
        if f"{zlib.crc32(content):08x} {len(content)}" != line:
            name = os.path.basename(path)
            raise ExecutorError(faults.BROKEN, f"`{name}` differs from the worker's report")
        contents.append(content)
    return contents


def _content_of(path: str) -> bytes:
    try:
        return untrusted.read_named(path, _MOST_BYTES)
    except OSError as error:
        name = os.path.basename(path)
        raise ExecutorError(faults.FAILED, f"`{name}` cannot be read: {error.strerror}") from None


def _install(tool: ShippedTool, folder: str) -> None:
    new = tempfile.mkdtemp(prefix=_STAGE, dir=os.path.dirname(folder))
    try:
        for file in tool.files:
            os.makedirs(os.path.dirname(f"{new}/{file.name}"), exist_ok=True)
            shutil.copyfile(file.path, f"{new}/{file.name}")
            os.chmod(f"{new}/{file.name}", 0o500)
        with contextlib.suppress(OSError):  # another call has installed it
            os.rename(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _sweep(directory: str, now: float) -> None:
    """Remove the directories of killed calls; `now` is by the file system's clock."""
    if directory in _swept:
        return
    _swept.add(directory)
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        with contextlib.suppress(OSError):
            if name.startswith(_STAGE) and os.lstat(path).st_mtime < now - _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

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
import stat
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping
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

_PLAIN = re.compile(r"/[\w./+@=,-]*", re.ASCII)  # a path that no launcher's shell expands or splits
_SCRIPT, _STDOUT, _STDERR, _REPORT = "run", "stdout", "stderr", "report"
_STAGE = "away-"
_MOST_BYTES = 1 << 32  # of one output
_STALE_SECONDS = 2 * 86400  # twice the longest deadline, so no call can still use it


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


def run(
    endpoint: Endpoint, work: Work, directory: str, environ: Mapping[str, str], store: Store, handle: Handle
) -> RemoteResult:
    """Run a stage until another thread ends `handle`; raises ExecutorError or OSError.

    `directory` is NVCCACHE_EXECUTOR_DIR, and `environ` the launcher's environment.
    """
    started = time.monotonic()
    why = why_unusable(directory)
    if why:
        raise ExecutorError(faults.BROKEN, why)
    folder = ""
    try:
        try:
            os.makedirs(directory, 0o700, exist_ok=True)
            tools = _tools(work.tool, directory, store)
            folder = tempfile.mkdtemp(prefix=_STAGE, dir=directory)
            _sweep(directory, os.stat(folder).st_mtime)
            _write(work, folder, tools)
        except OSError as error:
            raise ExecutorError(faults.BROKEN, str(error)) from None
        sent = time.monotonic()
        _launch(endpoint, folder, environ, handle)
        done = time.monotonic()
        stdout, stderr, *outputs = _reported_contents(folder, work)
        sizes = sum(map(os.path.getsize, work.inputs.values())), sum(map(len, outputs))
        costs = Costs(0.0, sent - started, done - sent, time.monotonic() - done, *sizes, where=endpoint.shown)
        return RemoteResult(stdout, stderr, dict(zip(work.outputs, outputs, strict=True)), costs)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _launch(endpoint: Endpoint, folder: str, environ: Mapping[str, str], handle: Handle) -> None:
    """Run the script of a stage; raises ExecutorError unless the launcher succeeded."""
    why_ended = faults.CANCELLED

    def end_with(fault: str) -> None:
        nonlocal why_ended
        if fault == faults.UNREACHABLE or not _has_begun(folder):
            why_ended = fault
            handle.end()

    limits = ((endpoint.queue, faults.NO_WORKERS), (endpoint.deadline, faults.UNREACHABLE))
    timers = [threading.Timer(seconds, end_with, (fault,)) for seconds, fault in limits]
    for timer in timers:
        timer.daemon = True
        timer.start()
    program, *rest = endpoint.launcher
    if "/" in program:
        program = os.path.abspath(program)  # relative to the build's directory, not to `cwd` below
    argv = [program, *rest, "/bin/sh", f"{folder}/{_SCRIPT}"]
    try:
        # Some launchers would consume the build's standard input.
        completed = process.run(argv, environ, cwd=folder, handle=handle, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise ExecutorError(faults.UNREACHABLE, f"`{program}`: {error.strerror}") from None
    finally:
        for timer in timers:
            timer.cancel()
    if handle.is_ended:
        raise ExecutorError(why_ended)
    if not _has_begun(folder) and CHECK_NAME not in completed.stderr:
        text = completed.stderr.decode(errors="replace").strip()[-200:]
        raise ExecutorError(faults.UNREACHABLE, f"`{program}` ended with {completed.status}: {text}")
    if completed.status:
        raise failure(completed.status, completed.stderr)


def _has_begun(folder: str) -> bool:
    """Whether the tool has: the first thing it does is create the file for its messages."""
    os.listdir(folder)  # makes a network file system refresh its cache
    return os.path.exists(f"{folder}/{_STDOUT}")


def _reported_paths(folder: str, work: Work) -> list[str]:
    """The files in the worker's report, in its order: the streams and the outputs."""
    return [f"{folder}/{name}" for name in (_STDOUT, _STDERR, *(f"{SCRATCH_NAME}/{o}" for o in work.outputs))]


def _write(work: Work, folder: str, tools: str) -> None:
    """Write the inputs of a stage and the script that runs it."""
    scratch = f"{folder}/{SCRATCH_NAME}"
    for name in (*work.inputs, *work.outputs):
        os.makedirs(os.path.dirname(f"{scratch}/{name}"), exist_ok=True)
    for name, path in work.inputs.items():
        shutil.copyfile(path, f"{scratch}/{name}")
    streams = ["-o", f"{folder}/{_STDOUT}", "-e", f"{folder}/{_STDERR}", "-r", f"{folder}/{_REPORT}"]
    streams += [argument for path in _reported_paths(folder, work) for argument in ("-w", path)]
    argv = [f"{name}={value}" for name, value in work.environment]
    argv += work.tool.argv_prefix(f"{tools}/", streams)
    argv += [argument.replace(SCRATCH_NAME + "/", scratch + "/") for argument in work.arguments]
    with open(f"{folder}/{_SCRIPT}", "xb") as stream:
        stream.write(b"exec env -i " + os.fsencode(shlex.join(argv)) + b"\n")


def _reported_contents(folder: str, work: Work) -> list[bytes]:
    """The contents of the files in the report, in its order; raises ExecutorError."""
    paths = _reported_paths(folder, work)
    status, *lines = _content_of(f"{folder}/{_REPORT}").decode(errors="replace").split("\n")
    if len(lines) != len(paths) + 2 or lines[-2:] != ["end", ""]:
        raise ExecutorError(faults.FAILED, "the worker's report is incomplete")
    if status != "0":
        raise ExecutorError(faults.FAILED, f"status {status[:20]} on the worker")
    scratch = os.fsencode(f"{folder}/{SCRATCH_NAME}")
    contents = []
    for line, path in zip(lines, paths, strict=False):
        content = _content_of(path)
        if f"{zlib.crc32(content):08x} {len(content)}" != line:
            name = os.path.basename(path)
            raise ExecutorError(faults.BROKEN, f"`{name}` differs from the worker's report")
        contents.append(content.replace(scratch, SCRATCH_NAME.encode()))
    return contents


def _content_of(path: str) -> bytes:
    try:
        return untrusted.read_named(path, _MOST_BYTES)
    except OSError as error:
        name = os.path.basename(path)
        raise ExecutorError(faults.FAILED, f"`{name}` cannot be read: {error.strerror}") from None


def _tools(tool: ShippedTool, directory: str, store: Store) -> str:
    """The directory with a tool, copied there once and checked file by file; raises OSError."""
    named = "\n".join(f"{file.name} {file.digest[0]}" for file in tool.files)
    folder = f"{directory}/tools-{sha256(named.encode(errors='surrogateescape')).hexdigest()[:32]}"
    if not os.path.isdir(folder):
        new = tempfile.mkdtemp(prefix=_STAGE, dir=directory)
        try:
            for file in tool.files:
                os.makedirs(os.path.dirname(f"{new}/{file.name}"), exist_ok=True)
                shutil.copyfile(file.path, f"{new}/{file.name}")
                os.chmod(f"{new}/{file.name}", 0o500)
            with contextlib.suppress(OSError):  # another call has installed it
                os.rename(new, folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    for file in tool.files:
        if digest_of_file(f"{folder}/{file.name}", store) != file.digest:
            raise ExecutorError(faults.BROKEN, f"`{folder}/{file.name}` was changed")
    return folder


def _sweep(directory: str, now: float) -> None:
    """Remove the directories of killed calls; `now` is by the file system's clock."""
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        with contextlib.suppress(OSError):
            if name.startswith(_STAGE) and os.lstat(path).st_mtime < now - _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

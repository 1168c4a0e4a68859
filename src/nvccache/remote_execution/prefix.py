"""Runs one stage through a launcher such as `srun` or `ssh HOST`, which is put before the stage's command.

NVCCACHE_EXECUTOR_DIR must have the same path on all machines. It contains

    tools-<digest>/bin/…, lib/…     a tool with its libraries, copied once
    away-<random>/                  one stage: the same tree as in engine.py, whose `bin` and `lib` link to
                                    the tool, with the script, the tool's messages and the worker's report

The script contains the whole command, so the launcher need not forward arguments, variables or the working
directory. Some launchers report success even if the command did not run to its end, and on a network file
system, a file may appear before its content does. Therefore, an output is accepted only if it has the digest
that the worker's report names.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256

from nvccache.endpoint import Endpoint
from nvccache.files import untrusted
from nvccache.machine import process
from nvccache.machine.process import Completed, Handle
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import (
    SCRATCH_NAME,
    RemoteResult,
    ShippedTool,
    Work,
    digest_of_file,
    failure,
)
from nvccache.store.store import Store

_PLAIN = re.compile(r"/[\w./+@=,-]*", re.ASCII)  # a path that a launcher's shell neither expands nor splits
_STAGE = "away-"
_SCRIPT, _STDOUT, _STDERR, _REPORT = "run", "stdout", "stderr", "report"
_STALE_SECONDS = 2 * 86400  # longer than any deadline, so that no call still uses such a directory
# Otherwise, the launcher would read the standard input of the build.
_WITHOUT_INPUT = ("/bin/sh", "-c", 'exec "$@" </dev/null', "nvccache")


def check(endpoint: Endpoint, directory: str) -> None:
    """Raise ExecutorError if no stage can be started. `directory`, if missing, is created later."""
    if not shutil.which(endpoint.launcher[0]):
        raise ExecutorError(faults.UNREACHABLE, f"there is no program `{endpoint.launcher[0]}`")
    if not _PLAIN.fullmatch(directory):
        text = "`NVCCACHE_EXECUTOR_DIR` must be a path without special characters"
        raise ExecutorError(faults.BROKEN, text)
    try:
        status = os.stat(f"{directory}/")
    except FileNotFoundError:
        return
    except OSError as error:
        raise ExecutorError(faults.BROKEN, f"`{directory}` cannot be used: {error.strerror}") from None
    # Anyone who can write to the directory can run code as this user.
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        raise ExecutorError(
            faults.BROKEN, f"`{directory}` belongs to another user, or everyone may write to it"
        )


def run(
    endpoint: Endpoint, work: Work, directory: str, environ: Mapping[str, str], store: Store, handle: Handle
) -> RemoteResult:
    """Run a stage, unless another thread ends `handle` before; raises ExecutorError.

    `directory` is NVCCACHE_EXECUTOR_DIR, and `environ` the launcher's environment.
    """
    started = time.monotonic()
    check(endpoint, directory)
    folder = ""
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        tool = _installed(work.tool, directory, store)
        folder = tempfile.mkdtemp(prefix=_STAGE, dir=directory)
        _sweep(directory, os.stat(folder).st_mtime)
        names = [_STDOUT, _STDERR, *(f"{SCRATCH_NAME}/{name}" for name in work.outputs)]
        _write(work, folder, tool, names)
        sent = time.monotonic()
        _launch(endpoint, folder, environ, handle)
        passed = time.monotonic() - sent
        stdout, stderr, *outputs = _results(folder, names)
        completed = Completed(0, stdout, stderr, time.monotonic() - started, passed)
        return RemoteResult(completed, dict(zip(work.outputs, outputs, strict=True)))
    except OSError as error:
        raise ExecutorError(faults.BROKEN, str(error)) from None
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _launch(endpoint: Endpoint, folder: str, environ: Mapping[str, str], handle: Handle) -> None:
    """Run the script of a stage; raises ExecutorError if it does not begin or end in time."""
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
    try:
        argv = [*_WITHOUT_INPUT, *endpoint.launcher, "/bin/sh", f"{folder}/{_SCRIPT}"]
        completed = process.run(argv, environ, handle)
    finally:
        for timer in timers:
            timer.cancel()
    if handle.is_ended:
        raise ExecutorError(why_ended)
    if not _has_begun(folder):
        text = completed.stderr.decode(errors="replace").strip()[-200:]
        raise ExecutorError(faults.UNREACHABLE, f"the launcher ended with status {completed.status}: {text}")


def _has_begun(folder: str) -> bool:
    """Whether the script has begun. The first thing it does is to create the file for the tool's stdout."""
    os.listdir(folder)  # this makes a network file system refresh its cache
    return os.path.exists(f"{folder}/{_STDOUT}")


def _write(work: Work, folder: str, tool: str, results: Sequence[str]) -> None:
    """Write the inputs of a stage, and the script that runs it and writes the report; raises OSError."""
    for name in os.listdir(tool):
        os.symlink(f"{tool}/{name}", f"{folder}/{name}")
    scratch = f"{folder}/{SCRATCH_NAME}"
    for name in (*work.inputs, *work.outputs):
        os.makedirs(os.path.dirname(f"{scratch}/{name}"), exist_ok=True)
    for name, path in work.inputs.items():
        shutil.copyfile(path, f"{scratch}/{name}")
    variables = [f"{name}={value}" for name, value in work.environment]
    lines = [
        f"cd {shlex.quote(folder)} || exit",
        f"exec >{_STDOUT} 2>{_STDERR}",
        shlex.join(["env", "-i", *variables, *work.tool.argv, *work.arguments]),
        f"echo $? >{_REPORT}; exec >>{_REPORT}",
        *(f"sha256sum <{shlex.quote(name)}" for name in results),
    ]
    with open(f"{folder}/{_SCRIPT}", "xb") as stream:
        stream.write(os.fsencode("\n".join([*lines, ""])))


def _results(folder: str, names: Sequence[str]) -> list[bytes]:
    """The contents of the files `names`, as the worker reported them; raises ExecutorError or OSError."""
    status, *lines = untrusted.read_named(f"{folder}/{_REPORT}").decode(errors="replace").split("\n")
    if status.isdecimal() and status != "0":
        raise failure(int(status), untrusted.read_named(f"{folder}/{_STDERR}"))
    if status != "0" or len(lines) != len(names) + 1:
        raise ExecutorError(faults.FAILED, "the worker's report is incomplete")
    contents = []
    for line, name in zip(lines, names, strict=False):
        content = untrusted.read_named(f"{folder}/{name}")
        if line.split() != [sha256(content).hexdigest(), "-"]:
            raise ExecutorError(faults.BROKEN, f"`{name}` differs from the worker's report")
        contents.append(content)
    return contents


def _installed(tool: ShippedTool, directory: str, store: Store) -> str:
    """The directory of a tool, which is copied there once, and checked each time. Raises OSError."""
    named = "\n".join(f"{file.name} {file.digest[0]}" for file in tool.files)
    folder = f"{directory}/tools-{sha256(named.encode(errors='surrogateescape')).hexdigest()[:32]}"
    if not os.path.isdir(folder):
        new = tempfile.mkdtemp(prefix=_STAGE, dir=directory)
        try:
            for file in tool.files:
                os.makedirs(os.path.dirname(f"{new}/{file.name}"), exist_ok=True)
                shutil.copyfile(file.path, f"{new}/{file.name}")
                os.chmod(f"{new}/{file.name}", 0o500)
            with contextlib.suppress(OSError):  # another call has installed the tool meanwhile
                os.rename(new, folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    for file in tool.files:
        if digest_of_file(f"{folder}/{file.name}", store) != file.digest:
            raise ExecutorError(faults.BROKEN, f"`{folder}/{file.name}` was changed after its installation")
    return folder


def _sweep(directory: str, now: float) -> None:
    """Remove the directories of killed calls; `now` is the present time by the file system's clock."""
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        with contextlib.suppress(OSError):
            if name.startswith(_STAGE) and os.lstat(path).st_mtime < now - _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

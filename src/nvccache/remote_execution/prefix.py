"""One stage by a launcher such as `srun` or `ssh HOST`, whose words are put before its command.

Below NVCCACHE_EXECUTOR_DIR, which all machines have to have under the same name:

    tools-<digest>/bin/…, lib/…     a tool with what it needs, made once
    away-<random>/                  one stage: inputs, a script, the tool's messages, outputs, a report

The script holds the whole command, so that no launcher has to pass on arguments or variables. A launcher may
end with success and have run nothing, or only a part, and a file that has come over a network may be there
before its content: what the worker's report does not name, or names otherwise, is not taken.
"""

from __future__ import annotations

import contextlib
import errno
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
from nvccache.execution.run_stage import Costs
from nvccache.files import untrusted
from nvccache.machine import process
from nvccache.machine.process import Handle
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import (
    CHECK_NAME,
    PLACE,
    CameBack,
    ShippedTool,
    Work,
    digest_of_file,
    failure,
)
from nvccache.store.store import Store
from nvccache.values import dataclass

PLAIN = re.compile(r"/[\w./+@=,-]*", re.ASCII)  # no launcher makes anything else of such a path
_SCRIPT, _STDOUT, _STDERR, _REPORT = "run", "stdout", "stderr", "report"
_MOST_SAID = 1 << 16  # bytes of a launcher's own messages
_STAGE, _NEW_TOOL = "away-", "tools-new-"
_MOST_BYTES = 1 << 32  # of one file that comes back
_MOST_REPORT = 1 << 20
_END = "end"  # of a report
_LEFT_SECONDS = 2 * 86400  # twice the longest deadline: nobody uses any more what is older
_swept: set[str] = set()  # directories, by this process


def objection_to(directory: str) -> str:
    """Why stages cannot have their files there, a clause or empty; it may have to be made. Raises OSError."""
    if not PLAIN.fullmatch(directory):
        return "`NVCCACHE_EXECUTOR_DIR` is not set to a path without special characters"
    try:
        status = os.stat(directory)
    except FileNotFoundError:
        return ""
    if not stat.S_ISDIR(status.st_mode):
        return f"`{directory}` is no directory"
    # Whoever may write there may have anything run.
    if status.st_uid != os.geteuid():
        return f"`{directory}` is somebody else's"
    return f"everybody may write to `{directory}`" if status.st_mode & stat.S_IWOTH else ""


@dataclass(slots=True)
class LauncherTry:
    """One stage on its way; `handle` may be ended by another thread."""

    _endpoint: Endpoint
    _work: Work
    _directory: str  # that all machines have
    _environ: Mapping[str, str]  # of the launcher
    _store: Store
    _handle: Handle
    _folder: str = ""  # of the stage, once it is there
    _why_ended: str = ""
    has_answered = True  # there is no means to find out
    allowance = 0.0

    @property
    def is_queued(self) -> bool:
        """Whether the tool has not begun: its first act is to make the file for its messages."""
        return bool(self._folder) and not os.path.exists(f"{self._folder}/{_STDOUT}")

    def end(self) -> None:
        self._handle.end(signal.SIGTERM)

    def run(self) -> CameBack:
        """Raises ExecutorError or OSError."""
        try:
            started = time.monotonic()
            self._make_directory()
            tools = self._tools()
            self._folder = tempfile.mkdtemp(prefix=_STAGE, dir=self._directory)
            _sweep(self._directory, os.stat(self._folder).st_mtime)
            self._write(tools)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise ExecutorError(faults.FULL if is_full else faults.BROKEN, str(error)) from None
        try:
            return self._carry_out(time.monotonic() - started)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_directory(self) -> None:
        for is_made in (False, True):
            objection = objection_to(self._directory)
            if objection:
                raise ExecutorError(faults.BROKEN, objection)
            if not is_made:
                os.makedirs(self._directory, 0o700, exist_ok=True)

    def _carry_out(self, send: float) -> CameBack:
        watching = [
            threading.Timer(self._endpoint.queue, self._look_at_queue),
            threading.Timer(self._endpoint.deadline, self._end_because, (faults.TIMEOUT,)),
        ]
        for timer in watching:
            timer.daemon = True
            timer.start()
        program, *further = self._endpoint.launcher
        if "/" in program:
            program = os.path.abspath(program)  # in the build's directory, not in the one below
        words = [program, *further, "/bin/sh", f"{self._folder}/{_SCRIPT}"]
        started = time.monotonic()
        try:
            # There are launchers that read all of a standard input, and it is the build's.
            done = process.run(
                words, self._environ, cwd=self._folder, handle=self._handle, stdin=subprocess.DEVNULL,
                max_output=_MOST_SAID,
            )  # fmt: skip
        except OSError as error:
            raise ExecutorError(faults.UNREACHABLE, f"`{words[0]}`: {error.strerror}") from None
        finally:
            for timer in watching:
                timer.cancel()
        if self._handle.is_ended:
            raise ExecutorError(self._why_ended or faults.OVERTAKEN)
        return self._take(done.status, done.stderr, send, time.monotonic() - started)

    def _look_at_queue(self) -> None:
        if self.is_queued:
            self._end_because(faults.NO_WORKERS)

    def _end_because(self, word: str) -> None:
        self._why_ended = word
        self.end()

    def _take(self, status: int, stderr: bytes, send: float, run: float) -> CameBack:
        done = time.monotonic()
        os.listdir(self._folder)  # has a network file system look again
        if not os.path.exists(f"{self._folder}/{_STDOUT}"):
            if CHECK_NAME in stderr:
                raise failure(status, stderr)
            text = stderr.decode(errors="replace").strip()[-200:]
            raise ExecutorError(
                faults.UNREACHABLE, f"`{self._endpoint.launcher[0]}` ended with {status}: {text}"
            )
        if status:
            raise ExecutorError(faults.FAILED, f"status {status}")
        place = os.fsencode(f"{self._folder}/{PLACE}")
        contents = _reported_contents(f"{self._folder}/{_REPORT}", self._reported())
        stdout, stderr, *outputs = (content.replace(place, PLACE.encode()) for content in contents)
        sizes = sum(map(os.path.getsize, self._work.inputs.values())), sum(map(len, outputs))
        costs = Costs(0.0, send, run, time.monotonic() - done, *sizes, where=self._endpoint.shown)
        return CameBack(stdout, stderr, dict(zip(self._work.outputs, outputs, strict=True)), costs)

    def _reported(self) -> list[str]:
        """The files that the worker reports on, in this order."""
        outputs = [f"{PLACE}/{name}" for name in self._work.outputs]
        return [f"{self._folder}/{name}" for name in (_STDOUT, _STDERR, *outputs)]

    def _write(self, tools: str) -> None:
        """Write the stage's files: its inputs, and the script that runs it."""
        place = f"{self._folder}/{PLACE}"
        for name, path in self._work.inputs.items():
            os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
            shutil.copyfile(path, f"{place}/{name}")
        for name in self._work.outputs:
            os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
        streams = ["-o", f"{self._folder}/{_STDOUT}", "-e", f"{self._folder}/{_STDERR}"]
        streams += ["-r", f"{self._folder}/{_REPORT}"]
        streams += [word for path in self._reported() for word in ("-w", path)]
        words = [f"{name}={value}" for name, value in self._work.environment]
        words += self._work.tool.words(f"{tools}/", streams)
        words += [word.replace(PLACE + "/", place + "/") for word in self._work.arguments]
        with open(f"{self._folder}/{_SCRIPT}", "xb") as stream:
            stream.write(b"exec env -i " + os.fsencode(shlex.join(words)) + b"\n")

    def _tools(self) -> str:
        """The directory with the tool, checked file by file; raises OSError."""
        tool = self._work.tool
        named = "\n".join(f"{file.name} {file.digest[0]}" for file in tool.files)
        folder = f"{self._directory}/tools-{sha256(named.encode(errors='surrogateescape')).hexdigest()[:32]}"
        if not os.path.isdir(folder):
            _install(tool, folder)
        for file in tool.files:
            if digest_of_file(f"{folder}/{file.name}", self._store) != file.digest:
                raise ExecutorError(faults.WRONG_RESULT, f"`{folder}/{file.name}` is not what was put there")
        return folder


def _reported_contents(report: str, paths: Sequence[str]) -> list[bytes]:
    """The contents of the files that a report is on, in its order; raises ExecutorError."""
    lines = _read_checked(report, _MOST_REPORT).decode(errors="replace").split("\n")
    if len(lines) != len(paths) + 3 or lines[-2:] != [_END, ""]:
        raise ExecutorError(faults.FAILED, "the worker's report is not whole")
    if lines[0] != "0":
        raise ExecutorError(faults.FAILED, f"status {lines[0][:20]} on the worker")
    contents = []
    for line, path in zip(lines[1:], paths, strict=False):
        if line == "-":
            raise ExecutorError(faults.FAILED, f"`{os.path.basename(path)}` was not made")
        content = _read_checked(path, _MOST_BYTES)
        if f"{zlib.crc32(content):08x} {len(content)}" != line:
            name = os.path.basename(path)
            raise ExecutorError(faults.WRONG_RESULT, f"`{name}` is not as the worker reported it")
        contents.append(content)
    return contents


def _read_checked(path: str, most: int) -> bytes:
    name = os.path.basename(path)
    try:
        if os.path.islink(path):
            raise ExecutorError(faults.WRONG_RESULT, f"`{name}` is a link")
        return untrusted.read_named(path, most)
    except OSError as error:
        raise ExecutorError(faults.FAILED, f"`{name}` did not come back: {error.strerror}") from None


def _install(tool: ShippedTool, folder: str) -> None:
    new = tempfile.mkdtemp(prefix=_NEW_TOOL, dir=os.path.dirname(folder))
    try:
        for file in tool.files:
            os.makedirs(os.path.dirname(f"{new}/{file.name}"), exist_ok=True)
            shutil.copyfile(file.path, f"{new}/{file.name}")
            os.chmod(f"{new}/{file.name}", 0o500)
        with contextlib.suppress(OSError):  # another call was faster
            os.rename(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _sweep(directory: str, now: float) -> None:
    """Remove what calls have left that were killed; `now` is by the clock of the file system."""
    if directory in _swept:
        return
    _swept.add(directory)
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        with contextlib.suppress(OSError):
            if name.startswith((_STAGE, _NEW_TOOL)) and os.lstat(path).st_mtime < now - _LEFT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

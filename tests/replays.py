"""Replay records written by Python and read by the compiled launcher, with a fake Python behind it.

The fake Python prints its arguments and ends with a status of its own, which shows a test who answered
and the name under which the launcher looked for a record.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from installations import compile_launcher, launcher_of_tree, shared
from nvccache import config
from nvccache.files import keys
from nvccache.records import replay, replay_layout
from nvccache.records.direct_hit import Request
from nvccache.records.input_records import InputRecord
from nvccache.records.products import Answer
from nvccache.store import store
from nvccache.store.store import Store

LEFT_TO_PYTHON = 99
# It passes the trial of an interpreter that the launcher does not know (python.c).
_PYTHON = f'#!/bin/sh\n[ "$1" = -ISc ] && exit 7\nprintf \'%s\\n\' "$@"\nexit {LEFT_TO_PYTHON}\n'
_SCRIPT = 'if __name__ == "__main__":\n    sys.exit(main())\n'
_NAME = re.compile(r"nvccache-replay=([0-9a-f]{32})\n")


@dataclass(frozen=True)
class Reply:
    """What the launcher did: whether it answered itself, or which name it gave Python."""

    is_answer: bool
    name: str
    stdout: bytes
    stderr: bytes


class Launcher:
    """A launcher, with the environment and the command line of one call, in the working directory.

    `front` are the words before nvcc's arguments, the launcher included.
    """

    def __init__(self, program: Path, cache: str, environ: Mapping[str, str], front: Sequence[str]) -> None:
        self.program = program
        self.environ = {"NVCCACHE_DIR": cache, "HOME": "/dev/null", **environ}
        self.front = list(front)
        self.become: dict[str, object] = {}  # the user it runs as: arguments of subprocess.run

    def ask(self, arguments: Sequence[str], **changed: str | None) -> Reply:
        """Start the launcher; None removes a variable."""
        environ = {**self.environ, **changed}
        argv = [self.front[0], *self.front[1:], *arguments]
        done = subprocess.run(
            argv,
            executable=self.program if "/" not in self.front[0] else None,
            env={name: value for name, value in environ.items() if value is not None},
            capture_output=True,
            check=False,
            **{"stdin": subprocess.DEVNULL, **self.become},
        )
        assert done.returncode in (0, LEFT_TO_PYTHON), done.stderr.decode(errors="replace")
        name = _NAME.search(done.stdout.decode(errors="replace"))
        is_answer = done.returncode == 0
        return Reply(is_answer, name[1] if name and not is_answer else "", done.stdout, done.stderr)

    def record(
        self, nvcc: str, arguments: Sequence[str], made: InputRecord, given: Answer, since_ns: int = 0
    ) -> bool:
        """Record a call, as is done at the end of a compile; whether there is a record then."""
        self.forget()
        request = Request(nvcc, list(arguments), self.environ, config.load(self.environ))
        cache = Store(request.config.dir)
        cache.directory.prepare()
        name, argv = self.ask(arguments).name, [*self.front, *arguments]
        return replay.add(name, argv, request, made, given, cache, since_ns or time.time_ns())

    def records(self) -> list[Path]:
        return sorted(Path(config.load(self.environ).dir).glob(f"{store.REPLAY}/*/*"))

    def forget(self) -> None:
        for path in self.records():
            path.unlink()


def stand_alone(base: Path, *options: str) -> Path:
    """A launcher without a real Python; with options of the compiler, such as those for sanitizers."""
    return shared(
        base, "launcher" + "".join(options).replace("/", "_"), lambda folder: _make(folder, options)
    ) / ("bin/nvccache")


def _make(folder: Path, options: Sequence[str]) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("")
    (folder / "bin/nvccache-python").write_text(_SCRIPT)
    (folder / "bin/python3").write_text(_PYTHON)
    (folder / "bin/python3").chmod(0o755)
    if options:
        compile_launcher(folder / "bin", *options)
    else:
        shutil.copy(launcher_of_tree(), folder / "bin/nvccache")


def prepare_journal(cache: str) -> None:
    """Have a log to append to, which the launcher leaves to Python to make."""
    from nvccache.store import event_line
    from nvccache.store.event_line import Event

    event_line.append(cache, Event("direct_hit"))


def with_sum(record: bytes) -> bytes:
    """The record with a corrected checksum."""
    summed = record[replay_layout.SUMMED_FROM :]
    return replay_layout.MAGIC + keys.sum_bytes(summed) + summed


def put(path: Path, record: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(record)
    os.chmod(path, 0o600)

"""The steps of a build other than nvcc, from ninja's log in the build directory.

`.ninja_log` of versions 5 to 7 has one line for each output: start and end in milliseconds since ninja began,
the output's modification time or the step's start in nanoseconds since the epoch, the output, and a hash of
the command (src/build_log.cc of ninja 1.10 to 1.13). The log does not say when ninja began. This is computed
from calls of nvcc that are also steps, and a step belongs to the build if its modification time fits.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from nvccache.log import printable
from nvccache.report.calls import OTHER_STEP, Call

NAME = ".ninja_log"
_HEADER = re.compile(rb"# ninja log v[567]\n")
_MOST_BYTES = 64 << 20
_LONGEST = 1000  # characters of an output's name
_SLACK = 0.25  # seconds by which the clocks of ninja, of calls and of files may differ


@dataclass(frozen=True, slots=True)
class _Step:
    start: float  # seconds since ninja began
    end: float
    modified: float  # Unix time
    output: str  # absolute


def steps_of(build: Sequence[Call]) -> list[Call]:
    """The other steps of the ninja that ran these calls, sorted by start; none if no log fits."""
    found: list[Call] = []
    for directory in sorted({call.directory for call in build if call.directory.startswith("/")}):
        calls = {call.product: call for call in build if call.product}
        steps = list(_read(directory))
        known = [(calls[step.output], step) for step in steps if step.output in calls]
        begins = [call.started - step.start for call, step in known if _fits(step, call.started, call.ended)]
        if begins:
            begun = median(begins)
            others = (step for step in steps if step.output not in calls)
            found += [
                _as_call(step, begun, directory)
                for step in others
                if _fits(step, begun + step.start, begun + step.end)
            ]
    return sorted(found, key=lambda step: step.started)


def _fits(step: _Step, started: float, ended: float) -> bool:
    return started - _SLACK <= step.modified <= ended + _SLACK


def _as_call(step: _Step, begun: float, directory: str) -> Call:
    return Call(
        started=begun + step.start,
        seconds=step.end - step.start,
        outcome=OTHER_STEP,
        reason="",
        directory=directory,
        sources=(),
        product=printable(step.output[:_LONGEST]),
        cause="",
        pid=0,
        store_fault="",
        wrong_settings=(),
        wall_saved=0.0,
        tool_saved=0.0,
        stages=(),
    )


def _read(directory: str) -> Iterator[_Step]:
    """The newest step for each output; for a command with several outputs, only the first."""
    newest: dict[str, bytes] = {}
    for line in _lines(os.path.join(directory, NAME)):
        fields = line.split(b"\t")
        if len(fields) == 5 and all(field.isdigit() for field in fields[:3]):
            newest[os.fsdecode(fields[3])] = line
    commands = set()
    for output, line in newest.items():
        start, end, modified, _, command = line.split(b"\t")
        if (start, end, command) not in commands and int(start) <= int(end) < 1e12:
            commands.add((start, end, command))
            path = os.path.normpath(os.path.join(directory, output))
            yield _Step(int(start) / 1e3, int(end) / 1e3, int(modified) / 1e9, path)


def _lines(path: str) -> list[bytes]:
    """The lines of a log; none if it is missing, no regular file, or of another version."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return []
            content = stream.read(_MOST_BYTES)
    except OSError:
        return []
    header = _HEADER.match(content)
    return content[header.end() :].split(b"\n") if header else []

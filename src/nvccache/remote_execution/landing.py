"""Files that a stage on another machine has left in a shared directory, compared with the worker's report.

A launcher may end with success and have run nothing, or only a part, and a file that has come over a network
may be there before its content: what was not reported, or is not as reported, is not taken.
"""

from __future__ import annotations

import os
import zlib

from nvccache.files import untrusted
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import AwayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES = 1 << 32  # of one file
_MOST_REPORT = 1 << 20
_END = "end"


def take(report: str, paths: Sequence[str]) -> list[bytes]:
    """The contents of the files that a report is on, in its order; raises AwayError."""
    lines = _read(report, _MOST_REPORT).decode(errors="replace").split("\n")
    if len(lines) != len(paths) + 3 or lines[-2:] != [_END, ""]:
        raise AwayError(faults.FAILED, "the worker's report is not whole")
    if lines[0] != "0":
        raise AwayError(faults.FAILED, f"status {lines[0][:20]} on the worker")
    contents = []
    for line, path in zip(lines[1:], paths, strict=False):
        if line == "-":
            raise AwayError(faults.FAILED, f"`{os.path.basename(path)}` was not made")
        content = _read(path, _MOST_BYTES)
        if f"{zlib.crc32(content):08x} {len(content)}" != line:
            name = os.path.basename(path)
            raise AwayError(faults.WRONG_RESULT, f"`{name}` is not as the worker reported it")
        contents.append(content)
    return contents


def _read(path: str, most: int) -> bytes:
    name = os.path.basename(path)
    try:
        if os.path.islink(path):
            raise AwayError(faults.WRONG_RESULT, f"`{name}` is a link")
        descriptor = untrusted.open_named(path, most)
    except OSError as error:
        raise AwayError(faults.FAILED, f"`{name}` did not come back: {error.strerror}") from None
    try:
        return untrusted.read_all(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)

"""One command line through nvccache and by plain nvcc, from the same files: everything must be the same.

Compared are the exit status, both streams, and every file that is there afterwards and was not before. The
reference is made with `-keep`, whose names for intermediates are the same on every run, unless nvccache has
left the call to nvcc.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from scenarios.support.rebuilds import HOST_OPTIONS
from workspaces import Counters, Result, Workspace

Files = Mapping[str, bytes]

_TEMPORARY = re.compile(rb"(?:/tmp/)?tmpxft_[0-9a-f]{8}_[0-9a-f]{8}-\d+_")
_MILLISECONDS = re.compile(rb"Compile time = [0-9.]+ ms")


def both_ways(
    workspace: Workspace,
    *argv: str | Path,
    cwd: Path | None = None,
    keep: Path | None = None,
    **variables: str,
) -> tuple[Result, Files, Counters]:
    """What was said and made, the same both ways; and what nvccache counted."""
    line = (*argv, *(HOST_OPTIONS if not {"-ccbin", "--compiler-bindir"}.intersection(argv) else ()))
    before = _names(workspace.directory)
    found, counters = workspace.since(lambda: workspace.cached(*line, cwd=cwd, **variables))
    made = _take(workspace.directory, before)
    keep = keep or workspace.directory.parent / "keep"
    keep.mkdir(exist_ok=True)
    kept = () if counters.calls["bypass"] else ("-keep", "-keep-dir", keep)
    plain = workspace.plain(*line, *kept, cwd=cwd, **variables)
    expected = _take(workspace.directory, before)
    for stream in ("stderr", "stdout"):
        assert readable(getattr(found, stream), keep) == readable(getattr(plain, stream), keep), argv
    assert found.status == plain.status
    assert made.keys() == expected.keys(), argv
    if not counters.calls["bypass"]:  # nvcc alone may write the time and its own process id
        differing = [name for name in made if made[name] != expected[name]]
        assert not differing, f"{differing} differ for {argv}"
    assert not counters.calls["fault"]
    return plain, made, counters


def readable(said: bytes, keep: Path) -> bytes:
    """What compilers say without what is never the same twice."""
    said = _TEMPORARY.sub(b"", said.replace(os.fsencode(keep) + b"/", b""))
    return _MILLISECONDS.sub(b"Compile time = # ms", said)


def _names(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


def _take(directory: Path, before: set[Path]) -> Files:
    """The files that are new, which are gone then."""
    new = sorted(_names(directory) - before)
    files = {
        _TEMPORARY.sub(b"", os.fsencode(path.relative_to(directory))).decode(): path.read_bytes()
        for path in new
        if path.is_file()
    }
    for path in new:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return files

"""A stage to send: `sort` in place of a compiler, since it is always installed and names its output."""

from __future__ import annotations

import os
import shutil

import pytest

from nvccache.remote_execution import work
from nvccache.remote_execution.work import SCRATCH_NAME, Work

NEEDS_CHECK = pytest.mark.skipif(not os.access(work.CHECK, os.X_OK), reason="class-check was not built")


def copying(folder, cache):
    """A stage with messages: `dd` prints what it has copied."""
    sorted_one = sorting(folder, cache)
    program = shutil.which("dd") or "dd"
    environ = dict(os.environ)
    tool = work.of_tool(program, environ, cache)
    argv = [f"if={SCRATCH_NAME}/in.txt", f"of={SCRATCH_NAME}/out.txt"]
    return Work("dd", tool, argv, (), sorted_one.inputs, sorted_one.outputs)


def sorting(folder, cache, text="b\na\n", options=()):
    """A stage that sorts the lines of a text."""
    program = shutil.which("sort") or "sort"
    environ = dict(os.environ)
    tool = work.of_tool(program, environ, cache)
    source = folder / "in.txt"
    source.write_text(text)
    arguments = [*options, f"{SCRATCH_NAME}/in.txt", "-o", f"{SCRATCH_NAME}/out.txt"]
    return Work("sort", tool, arguments, [("LC_ALL", "C")], {"in.txt": str(source)}, ["out.txt"])

"""A stage to send: `sort` in place of a compiler, since it is always installed and names its output."""

from __future__ import annotations

import os
import shutil

import pytest

from nvccache.remote_execution import work
from nvccache.remote_execution.work import SCRATCH_NAME, Work

NEEDS_CHECK = pytest.mark.skipif(not os.access(work.CHECK, os.X_OK), reason="class-check was not built")


def _work(name, arguments, folder, cache, text):
    tool = work.ship_tool(shutil.which(name) or name, dict(os.environ), cache)
    source = folder / "in.txt"
    source.write_text(text)
    arguments = [argument.format(SCRATCH_NAME) for argument in arguments]
    return Work(name, tool, arguments, [("LC_ALL", "C")], {"in.txt": str(source)}, ["out.txt"])


def copying(folder, cache):
    """A stage with messages: `dd` prints what it has copied."""
    return _work("dd", ["if={}/in.txt", "of={}/out.txt"], folder, cache, "b\na\n")


def sorting(folder, cache, text="b\na\n"):
    """A stage that sorts the lines of a text."""
    return _work("sort", ["{}/in.txt", "-o", "{}/out.txt"], folder, cache, text)

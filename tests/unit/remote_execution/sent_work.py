"""A stage to send: `sort` in place of a compiler, since it is always installed and names its output."""

from __future__ import annotations

import os
import shutil

import pytest

from nvccache.remote_execution import work
from nvccache.remote_execution.work import SCRATCH_NAME, Work

NEEDS_CHECK = pytest.mark.skipif(not os.access(work.CHECK, os.X_OK), reason="class-check was not built")


def sorting(folder, cache, text="b\na\n"):
    """A stage that sorts the lines of a text."""
    tool = work.ship_tool(shutil.which("sort") or "sort", dict(os.environ), cache)
    source = folder / "in.txt"
    source.write_text(text)
    arguments = [f"{SCRATCH_NAME}/in.txt", "-o", f"{SCRATCH_NAME}/out.txt"]
    return Work(tool, arguments, [("LC_ALL", "C")], {"in.txt": str(source)}, ["out.txt"])

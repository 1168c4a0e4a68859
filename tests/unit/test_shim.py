"""Every nvccache process: signals that end it, and faults of finalizers."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal
import sys
from nvccache import shim
from nvccache.machine import process

class Held:
    def __del__(self):
        {act}

sys.argv = ["nvccache", "--version"]
signal.signal(signal.SIGINT, signal.default_int_handler)
shim.role()
{before}
Held()
print("goes on")
"""


@pytest.mark.parametrize(
    ("before", "signum"),
    [("", signal.SIGINT), ("process.raise_on_stop_signals()", signal.SIGTERM)],
    ids=["command", "compile"],
)
def test_a_signal_that_comes_while_a_finalizer_runs_ends_the_process(before, signum):
    program = PROGRAM.format(act=f"signal.raise_signal({int(signum)})", before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signum, b"", b"")


def test_a_fault_of_a_finalizer_is_reported():
    program = PROGRAM.format(act="raise OSError", before="")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"goes on\n") and b"OSError" in done.stderr

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
process.raise_on_stop_signals()
Held()
print("goes on")
"""
INTERRUPTED = "signal.raise_signal(signal.SIGINT)"
STOPPED = "signal.raise_signal(signal.SIGTERM)"


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (INTERRUPTED, (-signal.SIGINT, b"", False)),
        (STOPPED, (-signal.SIGTERM, b"", False)),
        ("raise OSError", (0, b"goes on\n", True)),
    ],
)
def test_signals_end_the_process_even_in_a_finalizer_but_errors_do_not(act, expected):
    program = [sys.executable, "-c", PROGRAM.format(act=act)]
    done = subprocess.run(program, capture_output=True, check=False)
    assert (done.returncode, done.stdout, b"OSError" in done.stderr) == expected
    assert expected[2] or not done.stderr

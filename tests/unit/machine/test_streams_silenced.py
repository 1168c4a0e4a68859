"""What libraries write on standard error by themselves stays away from the caller."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from nvccache.machine import streams
os.write(2, b"before ")
try:
    with streams.silenced_stderr({}):
        os.write(2, b"within ")
        raise ValueError
except ValueError:
    pass
os.write(2, b"after")
print(sorted(os.listdir("/proc/self/fd")) == {})
"""


@pytest.mark.parametrize(("is_silenced", "said"), [(True, b"before after"), (False, b"before within after")])
def test_nothing_is_said_meanwhile(is_silenced, said):
    program = PROGRAM.format(is_silenced, "['0', '1', '2', '3']")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stderr, done.stdout) == (said, b"True\n")


def test_one_that_is_closed_stays_so():
    program = (
        "import os\nfrom nvccache.machine import streams\n"
        "with streams.silenced_stderr(True): print(os.path.exists('/proc/self/fd/2'))"
    )
    done = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, program],
                          capture_output=True, check=True)  # fmt: skip
    assert done.stdout in (b"False\n", b"True\n")  # Python may open something there itself


def test_a_terminal_is_left_alone():
    ours, theirs = os.openpty()
    program = PROGRAM.format(True, "None")
    subprocess.run([sys.executable, "-c", program], stderr=theirs, stdout=subprocess.DEVNULL, check=True)
    os.close(theirs)
    assert os.read(ours, 100) == b"before within after"
    os.close(ours)

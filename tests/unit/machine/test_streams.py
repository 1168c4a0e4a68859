"""Where the answer to a query may be written, what remains if it did not fit, and libraries' messages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = "import sys; from nvccache.machine import streams; sys.exit(not streams.can_be_written(%s))"


def suits(arguments: str, shell: str = '"$@"') -> bool:
    argv = ["sh", "-c", shell, "sh", sys.executable, "-c", ASK % arguments]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("shell", "output_alone", "both"),
    [
        ('"$@"', True, True),
        ('"$@" > file', True, True),
        ('"$@" 2>&1', True, False),
        ('"$@" > /dev/null 2>&1', True, False),
        ('"$@" >&-', False, False),
        ('"$@" 2>&-', False, False),
    ],
)
def test_stored_messages_on_both_streams_are_replayed_only_if_stdout_and_stderr_differ(
    tmp_path, monkeypatch, shell, output_alone, both
):
    monkeypatch.chdir(tmp_path)
    assert suits("True, False", shell) == output_alone
    assert suits("True, True", shell) == both


def test_a_recorded_answer_is_not_printed_on_a_terminal(tmp_path):
    ours, theirs = os.openpty()
    try:
        for arguments, expected in (("True, False", False), ("False, False", True)):
            argv = [sys.executable, "-c", ASK % arguments]
            done = subprocess.run(argv, stdout=theirs, stderr=subprocess.PIPE, check=False)
            assert (done.returncode == 0) == expected
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("mode", ["w", "a"])
def test_partly_written_output_is_taken_back_and_earlier_output_stays(tmp_path, mode):
    """An answer is written after existing output, which stays."""
    script = (
        "import os; from nvccache.machine import streams; before = streams.size_and_position();"
        " os.write(1, b'half of it'); streams.restore_output(before); os.write(1, b'whole')"
    )
    path = tmp_path / "output"
    with path.open(mode) as stream:
        stream.write("before ")
        stream.flush()
        subprocess.run([sys.executable, "-c", script], stdout=stream, check=True)
    assert path.read_text() == "before whole"


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


@pytest.mark.parametrize(
    ("is_silenced", "written"), [(True, b"before after"), (False, b"before within after")]
)
def test_stderr_can_be_silenced_for_a_while(is_silenced, written):
    program = PROGRAM.format(is_silenced, "['0', '1', '2', '3']")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stderr, done.stdout) == (written, b"True\n")

"""Where the answer to a query may be written, and what is left where it did not fit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = "import sys; from nvccache.machine import streams; sys.exit(not streams.are_suited(%s))"


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
def test_what_may_be_written_depends_on_both_descriptors(tmp_path, monkeypatch, shell, output_alone, both):
    monkeypatch.chdir(tmp_path)
    assert suits("True, False", shell) == output_alone
    assert suits("True, True", shell) == both


def test_a_terminal_gets_no_recorded_answer(tmp_path):
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
def test_what_did_not_fit_is_taken_back(tmp_path, mode):
    """An answer stands behind what others have written there."""
    script = (
        "import os; from nvccache.machine import streams; before = streams.size_and_place();"
        " os.write(1, b'half of it'); streams.take_back(before); os.write(1, b'whole')"
    )
    path = tmp_path / "said"
    with path.open(mode) as stream:
        stream.write("before ")
        stream.flush()
        subprocess.run([sys.executable, "-c", script], stdout=stream, check=True)
    assert path.read_text() == "before whole"


def test_a_pipe_has_no_place():
    script = "from nvccache.machine import streams; print(streams.size_and_place())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"None\n"

"""The observer sees who reads a descriptor that the call was given."""

from __future__ import annotations

import gc
import os
import shutil
import sys

import pytest

from observed_programs import run, the_observer_is_built
from observed_stages import inherited_descriptors

__all__ = ["inherited_descriptors", "run", "the_observer_is_built"]  # the fixtures


@pytest.fixture
def typed(tmp_path):
    """The standard input of this process is a pipe that is not empty; its device and inode."""
    gc.collect()  # other tests' stores in cycles keep descriptors open, and the number has to be small
    reads, writes = os.pipe()
    os.write(writes, b"one\ntwo\n")
    os.close(writes)
    kept = os.dup(0)
    os.dup2(reads, 0)
    os.close(reads)
    status = os.fstat(0)
    yield status.st_dev, status.st_ino
    os.dup2(kept, 0)
    os.close(kept)


READING = {
    "a shell": ("bash", "-c", "read line"),
    "a copy of the descriptor": ("bash", "-c", "exec 3<&0 0</dev/null; read line <&3"),
    "cat": ("sh", "-c", "cat >/dev/null"),
    "streams": ("sh", "-c", "awk 'END {}'"),
    "Python": (sys.executable, "-IS", "-c", "import sys; sys.stdin.read(1)"),
    "a child": ("sh", "-c", "(head -n 1 >/dev/null); :"),
}


@pytest.mark.parametrize("what", READING)
def test_reading_the_standard_input(run, typed, what):
    program, *argv = READING[what]
    _, found = run(str(shutil.which(program)), *argv)
    assert not found.incomplete
    assert any(typed in process.inputs for process in found.processes)


@pytest.mark.parametrize(
    "text", ["read line <file", "cat file >out", "printf x | cat >out", "while read l; do :; done <file"]
)
def test_reading_another_standard_input(run, typed, text):
    (run.directory / "file").write_text("x\n")
    done, found = run(str(shutil.which("bash")), "-c", text)
    assert (done.status, done.stderr, found.incomplete) == (0, b"", "")
    assert not any(typed in process.inputs for process in found.processes)


TOP = "//proc/./thread-self/root"
RENAMED = {
    "where it works": "cat /proc/self/cwd/file",
    "where it works now": "cd inner; cat /proc/self/cwd/../file",
    "the root": "cat /proc/self/root$PWD/file",
    "one in the other": f"cat {TOP}/proc/self/cwd/file",
    "a directory that it has open": "exec 9<.; cat /dev/fd/9/file",
    "a directory that a task has open": "exec 9<.; bash -c 'cat /proc/$$/task/$$/fd/9/file; true'",
    "another process": "cat /proc/$$/cwd/file; true",
}


@pytest.mark.parametrize("what", RENAMED)
def test_what_proc_only_renames_is_called_as_all_call_it(run, what):
    (run.directory / "inner").mkdir()
    (run.directory / "file").write_text("x\n")
    done, found = run(str(shutil.which("bash")), "-c", RENAMED[what])
    assert (done.status, done.stdout, done.stderr, found.incomplete) == (0, b"x\n", b"", "")
    read = {os.path.normpath(path) for process in found.processes for path in process.files}
    assert str(run.directory / "file") in read or "file" in read


READING_ANOTHER = {
    "a shell": ("bash", "-c", "read line <&{}"),
    "cat": ("bash", "-c", "cat <&{} >/dev/null"),
    "a copy of the descriptor": ("bash", "-c", "exec 30<&{0} {0}</dev/null; read line <&30"),
    "behind another pipe": ("bash", "-c", "echo x | {{ read x; read line <&{}; }}"),
    "opened by its name": ("bash", "-c", "read line </dev/fd/{}"),
    "opened by its name in the kernel": ("bash", "-c", "sort /proc/self/fd/{} >/dev/null"),
    "a stream": (sys.executable, "-IS", "-c", "open({}).read()"),
}


@pytest.mark.parametrize("what", READING_ANOTHER)
def test_reading_a_descriptor_that_was_handed_down(run, inherited_descriptors, what):
    number, pipe = inherited_descriptors
    program, *argv = READING_ANOTHER[what]
    done, found = run(str(shutil.which(program)), *(word.format(number) for word in argv))
    assert (done.status, done.stderr, found.incomplete) == (0, b"", "")
    assert any(pipe in process.inputs for process in found.processes)


def test_not_reading_a_descriptor_that_was_handed_down(run, inherited_descriptors):
    number, pipe = inherited_descriptors
    (run.directory / "file").write_text("x\n")
    text = f"cat file | cat >out; read x <file; [ -p /dev/fd/{number} ] && exec cat file"
    done, found = run(str(shutil.which("bash")), "-c", text)
    assert (done.status, done.stdout, found.incomplete) == (0, b"x\n", "")
    assert not any(pipe in process.inputs for process in found.processes)


USING = {
    "a copy": "exec 3<&{}",
    "a copy for a child": "true <&{}",
    "a copy of another number": "exec {{x}}<&{}",
    "a number that is read from": "read -u {} -t 0",
    "writing": "echo >&{}",
    "a terminal": "[ -t {} ]",
    "dash": "exec dash -c ': <&{}'",
    "its status": f"exec {sys.executable} -IS -c 'import os; os.fstat({{}})'",
    "a copy by Python": f"exec {sys.executable} -IS -c 'import os; os.dup({{}})'",
    "its place": f"exec {sys.executable} -IS -c 'import os; os.lseek({{}}, 0, 0)'",
    "a lock": "flock -n {}",
}


@pytest.mark.parametrize("what", USING)
def test_using_a_descriptor_otherwise(run, inherited_descriptors, what):
    """One that is open, and one that is not."""
    number, pipe = inherited_descriptors
    for used, seen in ((number, pipe), (8, (0, 0))):
        text = f"{USING[what].format(used)} 2>/dev/null; true"
        _, found = run(str(shutil.which("bash")), "-c", text, watched=str(used))
        assert not found.incomplete
        assert seen in set().union(*(process.used for process in found.processes))


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_scripts_without_descriptors_of_their_own_use_none(run, inherited_descriptors, shell):
    _, pipe = inherited_descriptors
    (run.directory / "script").write_text(
        "read x <file; cat <file >out 2>&1; ls | while read y; do :; done; z=$(cat file); exec cat file\n"
    )
    (run.directory / "file").write_text("x\n")
    done, found = run(str(shutil.which(shell)), "script")
    assert (done.status, done.stderr, found.incomplete) == (0, b"", "")
    assert not any(process.used or pipe in process.inputs for process in found.processes)

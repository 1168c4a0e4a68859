"""The observer sees who reads or uses a descriptor that the call was given."""

from __future__ import annotations

import gc
import os
import shutil
import sys

import pytest

from observed_programs import compile_c, run, the_observer_is_built
from observed_stages import inherited_descriptors

__all__ = ["inherited_descriptors", "run", "the_observer_is_built"]  # the fixtures

PYTHON = f"{sys.executable} -ISc"


@pytest.fixture
def standard_input(tmp_path):
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


def observe(run, text: str, watched: str = "watched", shell: str = "bash"):
    (run.directory / "file").write_text("x\n")
    done, found = run(str(shutil.which(shell)), "-c", text, watched=watched)
    assert found.incomplete == ""
    return done, found.processes


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("read line", True),
        ("exec 3<&0 0</dev/null; read line <&3", True),
        ("cat >/dev/null", True),
        ("awk 'END {}'", True),  # by stdio
        (f"{PYTHON} 'import sys; sys.stdin.read(1)'", True),
        ("(head -n 1 >/dev/null); :", True),
        ("read line <file", False),
        ("cat file >out", False),
        ("printf x | cat >out", False),
    ],
)
def test_reading_standard_input_is_observed(run, standard_input, text, reads):
    _, processes = observe(run, text)
    assert any(standard_input in process.inputs for process in processes) == reads


@pytest.mark.parametrize(
    "text",
    [
        "read line <&{}",
        "cat <&{} >/dev/null",
        "exec 30<&{0} {0}</dev/null; read line <&30",
        "echo x | {{ read x; read line <&{}; }}",
        "read line </dev/fd/{}",
        PYTHON + " 'open({}).read()'",
    ],
)
def test_reading_an_inherited_descriptor_is_observed(run, inherited_descriptors, text):
    number, pipe = inherited_descriptors
    done, processes = observe(run, text.format(number))
    assert (done.status, done.stderr) == (0, b"")
    assert any(pipe in process.inputs for process in processes)


@pytest.mark.parametrize("prepare", ["", "setvbuf(stdin, NULL, _IONBF, 0);"], ids=["buffered", "unbuffered"])
def test_a_stream_that_was_read_before_an_exec_is_observed(run, standard_input, tmp_path, prepare):
    (tmp_path / "exec.c").write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        f"int main(void) {{ {prepare} "
        'getchar(); return execl("/bin/true", "true", (char *)NULL); }\n'
    )
    _, found = run(compile_c(tmp_path / "exec.c", tmp_path / "exec"))
    assert not found.incomplete and found.processes[0].inputs == {standard_input}


def test_a_stream_on_an_inherited_descriptor_counts_as_reading(run, inherited_descriptors, tmp_path):
    """What a stream reads is not observed, so its opening counts."""
    number, pipe = inherited_descriptors
    (tmp_path / "stream.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "int main(int count, char **words) { return !fdopen(atoi(words[1]), words[2]); }\n"
    )
    program = compile_c(tmp_path / "stream.c", tmp_path / "stream")
    for mode in ("r", "r+"):
        _, found = run(program, str(number), mode, watched=mode)
        assert not found.incomplete and found.processes[0].inputs == {pipe}
    _, found = run(program, "8", "r", watched="closed")
    assert found.processes[0].uses_descriptor


@pytest.mark.parametrize("text", ["exec 3<&{}", "read -u {} -t 0", "echo >&{}", "exec dash -c ': <&{}'"])
def test_using_an_inherited_or_closed_descriptor_is_observed(run, inherited_descriptors, text):
    """One that is open, and one that is not."""
    number, _ = inherited_descriptors
    for used in (number, 8):
        _, processes = observe(run, f"{text.format(used)} 2>/dev/null; true", watched=str(used))
        assert any(process.uses_descriptor for process in processes)


SCRIPT = "read x <file; cat <file >out 2>&1; ls | while read y; do :; done; z=$(cat file); exec cat file\n"


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_plain_shell_script_is_not_observed_to_use_inherited_descriptors(run, inherited_descriptors, shell):
    _, pipe = inherited_descriptors
    (run.directory / "script").write_text(SCRIPT)
    done, processes = observe(run, f"exec {shell} script")
    assert (done.status, done.stdout, done.stderr) == (0, b"x\n", b"")
    assert not any(process.uses_descriptor or pipe in process.inputs for process in processes)

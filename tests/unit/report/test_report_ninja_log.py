"""Other steps of a build, from real logs of ninja and from made-up ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace

import pytest

from made_builds import call
from nvccache.report import ninja_log
from nvccache.report.calls import from_json

MANIFEST = """\
rule slow
  command = sleep 0.1 && touch $out
build a.o: slow
build b.o other.o: slow
build app: slow a.o b.o
"""


def compile_of(directory, product, started, seconds=1.0):
    made = from_json(call(started=started, seconds=seconds, directory=str(directory)))
    return replace(made, product=os.path.join(directory, product))


def write(directory, *lines, version=7):
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    (directory / ninja_log.NAME).write_text(f"# ninja log v{version}\n{text}")


def found(build):
    return [
        (os.path.basename(step.product), step.started, step.seconds) for step in ninja_log.steps_of(build)
    ]


@pytest.mark.skipif(not shutil.which("ninja"), reason="needs ninja")
def test_steps_of_a_real_ninja_are_found_and_those_of_its_earlier_runs_are_not(tmp_path):
    (tmp_path / "build.ninja").write_text(MANIFEST)
    subprocess.run(["ninja", "-C", tmp_path, "-j1"], check=True, stdout=subprocess.DEVNULL)
    time.sleep(2 * ninja_log._SLACK)
    for name in ("a.o", "app"):
        (tmp_path / name).unlink()
    begun = time.time()
    subprocess.run(["ninja", "-C", tmp_path, "-j1"], check=True, stdout=subprocess.DEVNULL)
    ended = time.time()
    (step,) = ninja_log.steps_of([compile_of(tmp_path, "a.o", begun + 0.01, 0.1)])
    assert step.product == str(tmp_path / "app")
    assert begun <= step.started <= ended and 0.1 <= step.seconds <= ended - begun


@pytest.mark.parametrize("version", [5, 6, 7])
def test_times_count_from_when_ninja_began(tmp_path, version):
    write(
        tmp_path,
        (500, 1500, 1000500000000, "a.o", "1"),
        (2000, 2500, 1002000000000, "app", "2"),
        version=version,
    )
    assert found([compile_of(tmp_path, "a.o", 1000.5)]) == [("app", 1002.0, 0.5)]


def test_several_outputs_of_a_command_are_one_step_and_the_last_run_counts(tmp_path):
    write(
        tmp_path,
        (0, 100, 10000000000, "app", "3"),
        (0, 1000, 1000000000000, "a.o", "1"),
        (1000, 2000, 1001000000000, "x", "2"),
        (1000, 2000, 1001000000000, "y", "2"),
        (2000, 3000, 1002000000000, "app", "3"),
    )
    assert found([compile_of(tmp_path, "a.o", 1000.0)]) == [("x", 1001.0, 1.0), ("app", 1002.0, 1.0)]


def test_what_fits_no_call_is_of_another_run(tmp_path):
    write(tmp_path, (0, 1000, 1000000000000, "a.o", "1"), (0, 900, 900000000000, "old", "2"))
    assert found([compile_of(tmp_path, "a.o", 1000.0)]) == []
    assert found([compile_of(tmp_path, "a.o", 5000.0)]) == []
    assert found([compile_of(tmp_path, "c.o", 1000.0)]) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# ninja log v4\n0\t1000\t1000\ta.o\t1\n",
        b"# ninja log v7",
        b"# ninja log v7\nnonsense\n\xff\xff\t\t\t\t\n0\t1\n-1\t2\t3\ta.o\t4\n9\t1\t1000000000000\ta.o\t1\n",
        b"# ninja log v7\n" + b"9" * 40 + b"\t" + b"9" * 400 + b"\t1\ta.o\t1\n",
    ],
)
def test_a_log_that_is_none_has_no_steps(tmp_path, content):
    (tmp_path / ninja_log.NAME).write_bytes(content)
    assert found([compile_of(tmp_path, "a.o", 1000.0)]) == []


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ninja_log.NAME)
    assert found([compile_of(tmp_path, "a.o", 1000.0)]) == []
    assert found([replace(compile_of(tmp_path, "a.o", 1000.0), directory="")]) == []


def test_names_are_made_printable(tmp_path):
    write(tmp_path, (0, 1000, 1000000000000, "a.o", "1"), (0, 900, 1000000000000, "b\x1b[2J", "2"))
    assert found([compile_of(tmp_path, "a.o", 1000.0)])[0][0] == "b\\x1b[2J"

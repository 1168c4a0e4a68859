"""How commands fail: one sentence, the right status, no traceback.

Each runs in a child process, since much of this happens only while an interpreter starts or ends.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

import nvccache as package
from nvccache import outcomes
from nvccache.cli import group, output
from nvccache.cli.group import commands
from nvccache.store import event_line
from nvccache.store.store import Store
from sample_events import event

PROGRAM = """
import signal, sys
sys.argv[0] = "nvccache"
from nvccache import entry_point
from nvccache.store import eviction
{before}
sys.exit(entry_point.main())
"""
# What prints by `say`, what prints JSON, and what click prints.
LINES = [["config"], ["stats", "--json"], ["clean", "--help"]]


@pytest.fixture
def filled(cache_dir, tmp_path, monkeypatch):
    """A cache with a blob and a call that was counted; an environment for processes."""
    Store(cache_dir).add_blob("ab" * 32, b"x" * 1000, compress=False)
    call = event(outcomes.MISS, product=str(tmp_path / "é\udcfe.o"), cause="`\udcff.h` changed")
    event_line.append(cache_dir, call)
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(package.__file__)))
    monkeypatch.chdir(tmp_path)
    return cache_dir


def end(argv, before="", **options):
    words = [sys.executable, "-c", PROGRAM.format(before=before), *argv]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False, **options)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("argv", LINES, ids=" ".join)
def test_a_full_disk_is_one_error_and_a_closed_pipe_ends_silently(filled, argv):
    with open("/dev/full", "w") as full:
        sentence = "Error: cannot write the output: No space left on device\n"
        assert end(argv, stdout=full) == (1, sentence)
    reading, writing = os.pipe()
    os.close(reading)
    assert end(argv, stdout=writing) == (128 + signal.SIGPIPE, "")
    os.close(writing)


@pytest.mark.parametrize("redirection", [">&-", ">/dev/null 2>/dev/full", "2>&- >&-", ">/dev/null <&-"])
def test_commands_work_with_closed_streams_and_a_full_stderr(filled, redirection):
    words = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c"]
    for argv in LINES[1:]:
        done = subprocess.run([*words, PROGRAM.format(before=""), *argv], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LANG": "en_US.ISO-8859-1"}], ids=str)
def test_commands_work_with_names_that_the_locale_cannot_encode(filled, locale, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith(("LC_", "LANG"))]:
        monkeypatch.delenv(name)
    environ = {**os.environ, **locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environ["NVCCACHE_DIR"] = str(tmp_path / "Grüße-\udcff")
    os.rename(filled, environ["NVCCACHE_DIR"])
    for argv in (["stats"], ["explain", "é\udcfe.o"], ["install", "ü\udcff"]):
        assert end(argv, stdout=subprocess.DEVNULL, env=environ) == (0, "")


def test_an_interrupted_command_ends_by_sigint(filled):
    interrupt = "eviction.clear = lambda *_: signal.raise_signal(signal.SIGINT)"
    assert end(["clean", "--all"], before=interrupt) == (-signal.SIGINT, "\n")


def test_commands_in_a_removed_working_directory_print_no_traceback(filled, tmp_path):
    gone = tmp_path / "gone"
    for argv in (["stats"], ["install", "x"], ["explain", "a.o"]):
        gone.mkdir()
        line = ["/bin/sh", "-c", f'cd {gone}; rmdir {gone}; exec "$@"', "sh", sys.executable, "-c"]
        done = subprocess.run([*line, PROGRAM.format(before=""), *argv], capture_output=True, check=False)
        assert b"Traceback" not in done.stderr
        assert done.stderr.count(b"Error: ") == done.returncode <= 1, done.stderr
    assert done.stderr == b"Error: the working directory was removed\nHint: change to an existing directory\n"


def test_a_bug_in_a_command_is_one_sentence_and_a_traceback_in_strict_mode(filled, monkeypatch):
    def fail(*_):
        raise KeyError("colour")

    monkeypatch.setattr("nvccache.cli.clean._show", fail)
    result = CliRunner().invoke(commands, ["clean"])
    error, hint = result.output.splitlines()
    assert result.exit_code == 1
    assert error.startswith("Error: nvccache has a bug: KeyError: 'colour', in test_cli_ending.py line ")
    assert "`nvccache doctor`" in hint
    strict = CliRunner().invoke(commands, ["clean"], env={"NVCCACHE_STRICT": "1"})
    assert isinstance(strict.exception, KeyError)


@pytest.mark.parametrize(("code", "status"), [(None, 0), (3, 3), ("a sentence", 1)])
def test_a_command_that_ends_python_has_the_status_that_python_would_have(monkeypatch, code, status):
    monkeypatch.setattr(commands, "main", lambda **options: sys.exit(code))
    assert group.run([]) == status


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "is_coloured"),
    [
        (Terminal, {}, True),
        (io.StringIO, {}, False),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "dumb"}, False),
        (Terminal, {"TERM": None}, False),
    ],
)
def test_output_is_coloured_only_on_a_terminal_whose_user_wants_colour(
    stream, variables, is_coloured, monkeypatch
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdout", stream())
    output.say_parts((output.BAD, output.RED), " \x1b")
    assert sys.stdout.getvalue() == ("\x1b[31m\x1b[1mbad\x1b[0m \\x1b\n" if is_coloured else "bad \\x1b\n")

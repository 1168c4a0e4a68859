"""How commands fail: one sentence, the right status, no traceback.

Each runs in a child process, since much of this happens only while an interpreter starts or ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import nvccache as package
from nvccache.cli import main
from nvccache.cli.group import commands
from nvccache.cli.names import COMMANDS
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import keys
from nvccache.store.store import Store

PROGRAM = "import sys; sys.argv[0] = 'nvccache'; from nvccache import shim; sys.exit(shim.main())"
DIGEST = keys.digest_bytes(b"x" * 1000)
UNKNOWN_USER = 54321
LINES = {
    "stats": ["stats"],
    "clean": ["clean"],
    "config": ["config"],
    "explain": ["explain", "/tmp/a.o"],
    "install": ["install", "shims"],
    "doctor": ["doctor", "--help"],
    "version": ["--version"],
    "help": ["--help"],
}
ALL = [*LINES.values(), *[[name, "--help"] for name in COMMANDS if name not in LINES]]


@pytest.fixture
def filled(cache_dir, tmp_path, monkeypatch):
    """A cache with a blob, an object's record and a call that was counted; an environment for processes."""
    cache = Store(cache_dir)
    cache.add_blob(DIGEST, b"x" * 1000, compress=False)
    object_record.add(["/tmp/a.o"], ObjectRecord("it is the first", "miss"), cache)
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(package.__file__)))
    monkeypatch.chdir(tmp_path)
    assert end(["/bin/true"]) == (0, "")
    return cache_dir


def start(argv, **options):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *argv], stderr=subprocess.PIPE, text=True, **options
    )


def end(argv, **options):
    process = start(argv, **options)
    _, sentence = process.communicate()
    assert "Traceback" not in sentence and "Exception ignored" not in sentence, sentence
    return process.returncode, sentence


@pytest.mark.parametrize("argv", ALL, ids=" ".join)
def test_a_full_disk_is_one_sentence(filled, argv):
    with open("/dev/full", "w") as full:
        status, sentence = end(argv, stdout=full)
    assert (status, sentence) == (1, "Error: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("argv", ALL, ids=" ".join)
def test_a_closed_pipe_ends_a_command_silently(filled, argv):
    reading, writing = os.pipe()
    os.close(reading)
    status, sentence = end(argv, stdout=writing)
    os.close(writing)
    assert (status, sentence) == (128 + signal.SIGPIPE, "")


def test_a_pipe_that_closes_after_a_line_ends_a_command_silently(filled):
    """The rest is still in Python's buffer; only if `head` is quicker, hence the repetition."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    line = '"$@" | head -1 >/dev/null'
    for _ in range(6):
        started = subprocess.run(
            ["/bin/sh", "-c", line, "sh", sys.executable, "-c", PROGRAM, "config"],
            stderr=subprocess.PIPE,
            check=False,
            env=environ,
        )
        assert started.stderr == b""


@pytest.mark.parametrize("argv", ALL, ids=" ".join)
def test_streams_that_are_closed_or_full_are_no_fault(filled, argv):
    for redirection in (">&-", "2>/dev/full", "2>&- >&-", "<&-"):
        line = f'exec "$@" {redirection}'
        if ">&-" not in redirection.split():
            line += " >/dev/null"
        started = subprocess.run(
            ["/bin/sh", "-c", line, "sh", sys.executable, "-c", PROGRAM, *argv],
            capture_output=True,
            check=False,
        )
        assert (started.returncode, started.stderr) == (0, b""), redirection


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LANG": "en_US.ISO-8859-1"}])
def test_names_that_the_locale_does_not_have_are_no_fault(filled, locale, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith(("LC_", "LANG"))]:
        monkeypatch.delenv(name)
    environ = {**os.environ, **locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environ["NVCCACHE_DIR"] = str(tmp_path / "Grüße-\udcff")
    for argv in (["stats"], ["config"], ["clean", "--json"], ["explain", "ü.o"], ["install", "ü\udcff"]):
        status, sentence = end(argv, stdout=subprocess.DEVNULL, env=environ)
        assert status == (1 if argv[0] == "explain" else 0), sentence


def test_an_interrupted_command_dies_of_it(filled):
    os.makedirs(f"{filled}/locks", exist_ok=True)
    with open(f"{filled}/locks/{DIGEST[0]}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start(["clean", "--all"], stdout=subprocess.PIPE)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        shown, sentence = process.communicate(timeout=10)
    assert (process.returncode, shown, sentence.strip()) == (-signal.SIGINT, "", "")
    assert Store(filled).has_blob(DIGEST)


def as_unknown_user(argv, environ):
    """Run a command as a user unknown to the system, who may lack access to the interpreter: no exec."""
    if os.geteuid() != 0:
        pytest.skip("another user can be made only by root")
    for module in pkgutil.walk_packages(package.__path__, "nvccache."):
        importlib.import_module(module.name)
    for name in ("tomllib", "zstandard", "traceback", "encodings.unicode_escape"):
        importlib.import_module(name)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            status = 99
            os.dup2(writing, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.stdout, sys.stderr = (os.fdopen(stream, "w", closefd=False) for stream in (1, 2))
            os.setgroups([])
            os.setgid(UNKNOWN_USER)
            os.setuid(UNKNOWN_USER)
            os.environ.clear()
            os.environ.update(environ)
            status = main(argv)
            sys.stderr.flush()
        os._exit(status)
    os.close(writing)
    with open(reading) as stream:
        sentence = stream.read()
    assert "Traceback" not in sentence
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sentence


@pytest.fixture
def of_others(filled, tmp_path, monkeypatch):
    """The environment of a user unknown to the system, without a home."""
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_uid == os.getuid() and "pytest" in str(folder):
            folder.chmod(folder.stat().st_mode | 0o011)
    return {name: value for name, value in os.environ.items() if name != "HOME"}


@pytest.mark.parametrize("mode", [0o000, 0o555, 0o711])
def test_another_users_cache_ends_in_one_sentence(filled, of_others, mode):
    os.chmod(filled, mode)
    try:
        for argv in (
            ["stats"],
            ["clean", "--all"],
            ["explain", "/tmp/a.o"],
            ["config", "jobs", "2"],
        ):
            status, sentence = as_unknown_user(argv, of_others)
            lines = [line for line in sentence.splitlines() if not line.startswith(("nvccache: ", "Hint: "))]
            assert len(lines) == status and status in (0, 1), sentence
            assert all(line.startswith("Error: ") for line in lines)
    finally:
        os.chmod(filled, 0o700)
    assert Store(filled).has_blob(DIGEST)


def test_without_a_home_there_is_no_cache_and_no_fault(filled, of_others):
    del of_others["NVCCACHE_DIR"]
    for argv, status in (
        (["stats"], 0),
        (["clean"], 0),
        (["config"], 0),
        (["config", "--unset", "jobs"], 1),
    ):
        assert as_unknown_user(argv, of_others)[0] == status


def test_a_working_directory_that_is_gone_is_no_fault(filled, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    for argv in (
        ["stats"],
        ["config", "--json"],
        ["clean"],
        ["install", "x"],
        ["explain", "a.o"],
    ):
        line = f'cd {gone}; rmdir {gone}; exec "$@" >/dev/null'
        done = subprocess.run(
            ["/bin/sh", "-c", line, "sh", sys.executable, "-c", PROGRAM, *argv],
            capture_output=True,
            text=True,
            check=False,
        )
        gone.mkdir()
        assert "Traceback" not in done.stderr
        assert done.stderr.count("Error: ") == done.returncode <= 1, done.stderr


def test_a_bug_is_one_sentence_unless_strict(filled, monkeypatch):
    def fail(*_):
        raise KeyError("colour")

    monkeypatch.setattr("nvccache.cli.clean._show", fail)
    result = CliRunner().invoke(commands, ["clean"])
    error, hint = result.output.splitlines()
    assert result.exit_code == 1
    assert error.startswith("Error: nvccache has a bug: KeyError: 'colour', in test_cli_ending.py line ")
    assert "`nvccache --version --verbose`" in hint
    strict = CliRunner().invoke(commands, ["clean"], env={"NVCCACHE_STRICT": "1"})
    assert isinstance(strict.exception, KeyError)


@pytest.mark.parametrize(
    ("variables", "is_terminal", "is_coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_whose_user_wants_them(
    filled, variables, is_terminal, is_coloured, monkeypatch
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    environ = {**os.environ, "TERM": "xterm", "NVCCACHE_REMOTE": "file:///nowhere", **variables}
    status = ["remote", "status"]
    if is_terminal:
        shown = on_terminal(status, environ)
    else:
        shown = start(status, stdout=subprocess.PIPE, env=environ).communicate()[0]
    assert shown.startswith("\x1b[31m\x1b[1mbad \x1b[0m" if is_coloured else "bad  ")
    assert is_coloured == ("\x1b" in shown)


def on_terminal(argv, environ):
    """A command's output when only stdout is a terminal."""
    ours, theirs = os.openpty()
    process = start(argv, stdout=theirs, env=environ)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    process.wait()
    process.stderr.close()
    return shown.decode()

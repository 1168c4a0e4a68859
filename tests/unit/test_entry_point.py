"""Every nvccache process: its role, the faults that end in the real nvcc, and signals that end it."""

from __future__ import annotations

import errno
import gc
import io
import os
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from nvccache import call_end, cli, config, entry_point
from nvccache.commandline.invocation import Bypass
from nvccache.machine import process
from nvccache.nvcc_lookup import TRIED_VARIABLE
from nvccache.records import direct_hit
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.remote import uploads
from nvccache.run import compile as compiling
from nvccache.run.report import Report
from nvccache.store import event_line, events
from nvccache.toolkit import discovery

PROGRAM = """
import signal
import sys
from nvccache import entry_point
from nvccache.machine import process

class Held:
    def __del__(self):
        {act}

sys.argv = ["nvccache", "--version"]
entry_point.role()
process.raise_on_stop_signals()
Held()
print("goes on")
"""
INTERRUPTED = "signal.raise_signal(signal.SIGINT)"
STOPPED = "signal.raise_signal(signal.SIGTERM)"
STAGE = event_line.text_of_hit(event_line.StageEvent("cicc", event_line.RAN, 1.0))
STOP_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def test_a_signal_that_comes_while_handlers_are_set_ends_the_call(monkeypatch):
    stop = process.Interrupted(signal.SIGTERM)
    monkeypatch.setattr(process, "raise_on_stop_signals", Mock(side_effect=stop))
    monkeypatch.setattr(process, "die_of", sys.exit)
    with pytest.raises(SystemExit, match=str(int(signal.SIGTERM))):
        entry_point._staged_compile(None, 0.0)


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """What a process changes of itself."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = [signal.getsignal(each) for each in STOP_SIGNALS]
    yield
    gc.enable()
    gc.set_threshold(700)
    for each, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(each, handler)


# The command line behind `nvccache`, and what becomes of it: a compiler and its arguments, or a command.
ROLES = {
    "": "command",
    "stats --json": "command stats --json",
    "--version": "command --version",
    "-I/opt/nvccache x": "command -I/opt/nvccache x",
    "stauts x": "command stauts x",
    "nvcc -c a.cu": "compile nvcc -c a.cu",
    "nvcc": "compile nvcc",
    "nvcc-13 a.cu": "compile nvcc-13 a.cu",
    "/cuda/bin/nvcc -c": "compile /cuda/bin/nvcc -c",
    "stats/ x": "compile stats/ x",
    "nvccache nvccache-python nvcc -c": "compile nvcc -c",
    "nvccache stats": "command stats",
    "HERE/nvccache nvcc -c": "compile nvcc -c",
    "HERE/nvcc -c": "compile HERE/nvcc -c",
    "g++ -c": "compile g++ -c",
    "g++": "command g++",
    "no-such-g++ -c": "command no-such-g++ -c",
    "sh -c": "command sh -c",
}


@pytest.mark.parametrize("line", ROLES)
def test_the_command_line_decides_between_a_compile_and_a_command(line, tmp_path, monkeypatch):
    (tmp_path / "nvccache").touch()
    (tmp_path / "nvcc").symlink_to("nvccache")
    argv = line.replace("HERE", str(tmp_path)).split()
    monkeypatch.setattr(sys, "argv", ["/bin/nvccache", *argv])
    monkeypatch.setattr(cli, "main", lambda: " ".join(["command", *sys.argv[1:]]))
    monkeypatch.setattr(entry_point, "_compile", lambda typed, words: " ".join(["compile", typed, *words]))
    assert entry_point.main() == ROLES[line].replace("HERE", str(tmp_path))


@pytest.mark.parametrize("name", ["nvcc", "nvcc-13.0"])
def test_under_the_name_of_nvcc_every_call_is_a_compile(monkeypatch, name):
    monkeypatch.setattr(sys, "argv", [f"/bin/{name}", "stats"])
    monkeypatch.setattr(entry_point, "_compile", lambda typed, words: (typed, words))
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setattr(entry_point, "open", lambda *given: io.BytesIO(b"LC_CTYPE=C"), raising=False)
    assert entry_point.main() == ("", ["stats"])
    assert os.environ["LC_CTYPE"] == "C"


@pytest.mark.parametrize(
    ("current", "lc_all", "given", "is_utf8_mode", "restored"),
    [
        ("C.UTF-8", "", b"A=1\0LC_CTYPE=C\0B=2", False, "C"), ("C.UTF-8", "", b"A=1\0B=2", False, None),
        ("C.utf8", "", b"NO_LC_CTYPE=x", False, None), ("C.UTF-8", "C", b"A=1", False, "C.UTF-8"),
        ("de_DE.UTF-8", "", b"A=1", False, "de_DE.UTF-8"), ("UTF-8", "", None, True, None),
        ("UTF-8", "", None, False, "UTF-8"),
    ],
)  # fmt: skip
def test_tools_get_the_locale_that_the_caller_had(
    monkeypatch, current, lc_all, given, is_utf8_mode, restored
):
    """Python may have set LC_CTYPE; without /proc (given None) its mode shows that."""

    def opened(path, mode):
        assert (path, mode) == ("/proc/self/environ", "rb")
        if given is None:
            raise FileNotFoundError
        return io.BytesIO(given)

    monkeypatch.setenv("LC_CTYPE", current)
    monkeypatch.setenv("LC_ALL", lc_all)
    monkeypatch.setattr(entry_point, "open", opened, raising=False)
    monkeypatch.setattr(entry_point, "sys", SimpleNamespace(flags=SimpleNamespace(utf8_mode=is_utf8_mode)))
    entry_point._undo_locale_coercion()
    assert os.environ.get("LC_CTYPE") == restored


class Executed(BaseException):
    """Another program would have replaced this process."""


class Died(BaseException):
    """A signal would have ended this process."""


class Call:
    """A call of nvcc, made in this process; the result is its status, or the command line it became."""

    def __init__(self, folder: Path, cache_dir: str) -> None:
        self.nvcc, self.cache = f"{folder}/nvcc", cache_dir
        self.environ: dict[str, str] = {}

    def run(self, typed: str = "", *arguments: str) -> object:
        try:
            return entry_point._compile_or_exec(typed, ["-c", "a.cu", *arguments])
        except (Executed, Died) as end:
            return end.args[0]
        except SystemExit as end:
            return end.code

    @property
    def became_nvcc(self) -> list[str]:
        return [self.nvcc, self.nvcc, "-c", "a.cu"]

    def events(self) -> list[str]:
        return [f"{event.outcome} {event.reason}".strip() for event in events.read(self.cache)]


@pytest.fixture
def call(tmp_path, cache_dir, monkeypatch):
    """No call has a record, unless the test says so."""
    made = Call(tmp_path / "bin", cache_dir)
    (tmp_path / "bin").mkdir()
    Path(made.nvcc).write_bytes(b"\x7fELF")
    Path(made.nvcc).chmod(0o755)

    def execute(program, argv, environ):
        made.environ = environ
        raise Executed([program, *argv])

    def die(signum):
        raise Died(f"died of {signum}")

    for name in [name for name in os.environ if name.startswith(("NVCCACHE_", "_NVCCACHE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NVCCACHE_DIR", cache_dir)
    monkeypatch.setenv("NVCCACHE_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(os, "execve", execute)
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(process, "die_of", die)
    monkeypatch.setattr(direct_hit, "answer", lambda request: None)
    return made


@pytest.fixture
def reports(monkeypatch):
    """Compiles as this function says."""

    def use(make):
        def compile_call(request, explanation):
            request.invocation = SimpleNamespace(inputs=["a.cu"])
            return make(request)

        monkeypatch.setattr(compiling, "compile_call", compile_call)

    return use


@pytest.mark.parametrize(
    ("variables", "typed", "expected"),
    [
        ({"NVCCACHE_DISABLE": "1"}, "", []),
        ({TRIED_VARIABLE: "/other/nvcc"}, "", []),
        ({"NVCCACHE_NVCC": "/bin/sh"}, "/bin/sh", ["bypass not_nvcc"]),
        ({"NVCCACHE_DIR": "", "HOME": "relative"}, "", []),
        ({}, "SCRIPT", ["bypass scripted_nvcc"]),
    ],
    ids=["disabled", "within another call", "another compiler", "no cache", "a script"],
)
def test_calls_that_nvccache_does_not_cache_become_nvcc_at_once(
    call, tmp_path, monkeypatch, variables, typed, expected
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    monkeypatch.setattr(direct_hit, "answer", lambda request: pytest.fail("looks for a record"))
    if typed == "SCRIPT":
        typed = call.nvcc
        Path(call.nvcc).write_text("#!/bin/sh\n")
    nvcc = typed or call.nvcc
    assert call.run(typed) == [nvcc, nvcc, "-c", "a.cu"]
    assert call.events() == expected
    assert call.environ[TRIED_VARIABLE].split(":")[-1] == nvcc
    assert call.environ["PATH"] == os.environ["PATH"]
    is_asked_not_to_cache = not variables.keys().isdisjoint(("NVCCACHE_DISABLE", TRIED_VARIABLE))
    assert (tmp_path / "log").exists() != is_asked_not_to_cache


def test_a_recorded_call_ends_without_a_compile_and_a_bypassed_one_becomes_nvcc(call, monkeypatch, capfd):
    hit = Answer(Result((), b"out", b"err"))
    hit.result.stages = [STAGE]
    monkeypatch.setattr(direct_hit, "answer", lambda request: hit)
    assert call.run() == 0
    assert not gc.isenabled()
    monkeypatch.setattr(direct_hit, "answer", lambda request: Bypass("link", "a detail"))
    assert call.run() == call.became_nvcc
    assert call.events() == ["direct_hit", "bypass link"]
    assert capfd.readouterr() == ("out", "err")
    monkeypatch.setattr(direct_hit, "answer", lambda request: Answer(Result((), b"answer")))
    monkeypatch.setattr(call_end, "write", lambda *given: False)
    assert call.run() == call.became_nvcc
    assert call.events()[2:] == ["bypass query_streams"]


def test_a_compile_prints_its_messages_and_returns_its_status(call, reports, monkeypatch, capfd):
    sent = []
    monkeypatch.setattr(uploads, "send_soon", lambda *given: sent.append(given[1]))

    def make(request):
        assert gc.isenabled() and gc.get_threshold()[0] > 10_000
        assert callable(signal.getsignal(signal.SIGTERM))
        assert (request.nvcc, request.arguments) == (call.nvcc, ["-c", "a.cu"])
        made = Report(b"out", b"err")
        made.status, made.to_send = 2, [("record-v1", "key")]
        return made

    reports(make)
    assert call.run() == 2
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert capfd.readouterr() == ("out", "err")
    assert (call.events(), sent) == (["failed"], [[("record-v1", "key")]])
    assert next(iter(events.read(call.cache))).sources == ["a.cu"]
    monkeypatch.setattr(uploads, "send_soon", lambda *given: 1 / 0)
    assert call.run() == 2
    assert "nothing is sent to remotes: ZeroDivisionError" in (Path(call.nvcc).parents[1] / "log").read_text()


def test_a_report_that_leaves_the_call_to_nvcc_makes_it_nvcc(call, reports, monkeypatch):
    reports(lambda request: Report(b"out", leave_to_nvcc="link"))
    assert call.run() == call.became_nvcc
    monkeypatch.setattr(call_end, "write_output", lambda stdout, stderr, is_query: not is_query)
    query = Report()
    query.is_query = True
    reports(lambda request: query)
    assert call.run() == call.became_nvcc
    assert call.events() == ["bypass link", "query_miss"]


def test_a_record_of_a_remote_answers_a_compile(call, reports, monkeypatch, capfd):
    report = Report()
    report.answer, report.remote = Answer(Result((), b"out", b"err")), event_line.RemoteUse(3)
    report.answer.result.stages = [STAGE]
    reports(lambda request: report)
    assert call.run() == 0
    assert capfd.readouterr() == ("out", "err")
    (event,) = events.read(call.cache)
    assert (event.outcome, event.remote.asked) == ("direct_hit", 3)
    report.answer = Answer(Result((), b"answer"))
    monkeypatch.setattr(call_end, "write", lambda *given: False)
    assert call.run() == call.became_nvcc


@pytest.mark.parametrize(
    ("status", "expected"), [(0, "bypass odd_failure"), (3, "failed"), (-signal.SIGKILL, "failed")]
)
def test_after_an_odd_failure_nvcc_runs_as_a_child_and_its_status_counts(
    call, reports, monkeypatch, status, expected
):
    started = []

    def run(argv, environ):
        started.append((argv, environ[TRIED_VARIABLE]))
        return status

    monkeypatch.setattr(process, "run_attached", run)
    reports(lambda request: Report(leave_to_nvcc="odd_failure"))
    assert call.run() == (status if status >= 0 else "died of 9")
    assert started == [([call.nvcc, "-c", "a.cu"], call.nvcc)]
    assert call.events() == [expected]


def test_a_stop_signal_ends_a_compile_once_its_children_have_ended(call, reports, monkeypatch):
    reaped = []
    monkeypatch.setattr(process, "reap_children", lambda: reaped.append(signal.getsignal(signal.SIGTERM)))
    reports(lambda request: signal.raise_signal(signal.SIGTERM))
    assert call.run() == "died of 15"
    assert reaped == [signal.SIG_DFL] and call.events() == []


def test_an_interrupt_before_a_compile_ends_the_process_by_sigint(call, monkeypatch):
    def interrupt(request):
        raise KeyboardInterrupt

    monkeypatch.setattr(direct_hit, "answer", interrupt)
    with pytest.raises(Died, match="died of 2"):
        entry_point._compile("", [])
    monkeypatch.setattr(entry_point, "_compile_or_exec", lambda typed, arguments: 5)
    with pytest.raises(SystemExit, match=r"^5$"):
        entry_point._compile("", [])


def broken(*given):
    raise RuntimeError("-DKEY=secret")


def test_after_a_fault_the_real_nvcc_compiles_and_the_fault_is_logged_and_counted(
    call, tmp_path, monkeypatch
):
    monkeypatch.setattr(direct_hit, "answer", broken)
    assert call.run() == call.became_nvcc
    assert call.events() == ["fault"]
    text = (tmp_path / "log").read_text()
    assert f"in a call of {call.nvcc}" in text and "RuntimeError" in text and "in broken" in text
    assert "secret" not in text
    monkeypatch.delenv("NVCCACHE_LOG")
    assert call.run() == call.became_nvcc
    assert (tmp_path / "log").read_text() == text
    monkeypatch.setattr(traceback, "format_exception", broken)
    monkeypatch.setenv("NVCCACHE_LOG", str(tmp_path / "log"))
    assert call.run() == call.became_nvcc
    monkeypatch.setenv("NVCCACHE_STRICT", "1")
    with pytest.raises(RuntimeError):
        call.run()


@pytest.mark.parametrize(("strict", "is_raised"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_a_fault_while_settings_are_read_ends_in_nvcc_unless_strict(call, monkeypatch, strict, is_raised):
    if strict is not None:
        monkeypatch.setenv("NVCCACHE_STRICT", strict)
    monkeypatch.setattr(entry_point, "load", broken)
    monkeypatch.setenv("NVCCACHE_NVCC", shutil.copy(call.nvcc, f"{call.nvcc}-13"))
    if is_raised:
        with pytest.raises(RuntimeError):
            call.run()
    else:
        assert call.run() == [f"{call.nvcc}-13"] * 2 + ["-c", "a.cu"]


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_missing_compiler_is_one_sentence_with_a_hint_for_nvcc(call, monkeypatch, capfd, is_broken):
    if is_broken:
        monkeypatch.setattr(entry_point, "load", broken)
    os.unlink(call.nvcc)
    monkeypatch.setenv("PATH", os.path.dirname(call.nvcc))
    monkeypatch.setattr(discovery, "find_nvcc", lambda environ: "/cuda/bin/nvcc")
    sentence = "nvccache: there is no compiler `{}`{} on PATH besides nvccache\n"
    hint = 'hint: to use `/cuda/bin/nvcc`, run `export PATH=/cuda/bin:"$PATH"`\n'
    assert call.run("nvcc") == 127
    assert capfd.readouterr().err == sentence.format("nvcc", "") + hint
    assert call.run("") == 127
    assert capfd.readouterr().err == sentence.format("nvcc", "")
    monkeypatch.setenv("NVCCACHE_NVCC", "nvcc-1")
    assert call.run("") == 127
    assert capfd.readouterr().err == sentence.format("nvcc-1", ", which is set in NVCCACHE_NVCC,")
    monkeypatch.setattr(discovery, "find_nvcc", lambda environ: None)
    assert call.run("nvcc") == 127
    assert capfd.readouterr().err == sentence.format("nvcc", "")


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.ENOEXEC, "sh"), (errno.EACCES, "cannot run `{}`: Permission denied")]
)
def test_what_the_kernel_cannot_run_is_run_by_the_shell_or_reported(
    call, monkeypatch, capfd, number, expected
):
    def execute(program, argv, environ):
        if program == call.nvcc:
            raise OSError(number, os.strerror(number))
        raise Executed([program, *argv])

    monkeypatch.setattr(os, "execve", execute)
    monkeypatch.setenv("NVCCACHE_DISABLE", "1")
    is_run = expected == "sh"
    assert call.run() == (["/bin/sh", "sh", *call.became_nvcc[1:]] if is_run else 126)
    assert capfd.readouterr().err == ("" if is_run else f"nvccache: {expected.format(call.nvcc)}\n")


def test_nvcc_gets_default_signals_except_those_that_the_caller_ignores(call, monkeypatch):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *given: None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    monkeypatch.setenv("NVCCACHE_DISABLE", "1")
    assert call.run() == call.became_nvcc
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    for each in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        assert signal.getsignal(each) == signal.SIG_DFL

"""The watchdog of a call that is killed, with real processes."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from subprocess import DEVNULL, PIPE

import pytest

from callers import Caller, is_alive, processes_of, state_of, tokens_in, wait_for_end, wait_until
from nvccache.machine.watchdog import Watchdog

TOKENS = b"abcd"


@pytest.fixture
def pipe():
    """The ends of a jobserver's pipe with four tokens, no two the same."""
    ends = os.pipe()
    os.write(ends[1], TOKENS)
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def start(tmp_path, pipe):
    """Starts callers; a process of theirs that a failed test leaves behind ends with it."""
    callers = []

    def start_caller(*, with_jobserver=True):
        callers.append(Caller(tmp_path / f"scratch-{len(callers)}", pipe if with_jobserver else ()))
        return callers[-1]

    yield start_caller
    for caller in callers:
        caller.kill()
        for stream in (caller.process.stdin, caller.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        if is_alive(caller.watchdog):
            os.kill(caller.watchdog, signal.SIGCONT)


def test_a_dismissed_watchdog_is_gone_and_waited_for(start):
    caller = start()
    assert is_alive(caller.watchdog)
    caller.ask("g.dismiss()")
    assert not os.path.exists(f"/proc/{caller.watchdog}")
    caller.ask("g.dismiss()")
    assert caller.scratch.exists()


def test_dismissal_ends_no_tool(start):
    caller = start()
    pid = caller.ask("globals().setdefault('t', tool('exec sleep 1000')).pid")
    caller.ask("g.dismiss()")
    assert is_alive(pid)
    caller.ask("t.kill()")


def test_tokens_are_taken_while_there_are_any(start, pipe):
    caller = start()
    assert caller.ask("[g.take_token() for _ in range(5)]") == [True, True, True, True, False]
    assert tokens_in(pipe) == b""
    caller.ask("[g.return_token() for _ in range(2)]")
    assert len(tokens_in(pipe)) == 2
    caller.ask("[g.return_token() for _ in range(3)]")
    assert tokens_in(pipe) == TOKENS


def test_an_answer_that_nobody_waited_for_is_not_taken_for_another(start, pipe):
    caller = start()
    caller.ask("g._line.send(b'T\\xff')")  # as when a signal comes before the answer
    assert caller.ask("[g.take_token() for _ in range(4)]") == [True, True, True, False]
    caller.ask("g.dismiss()")
    assert tokens_in(pipe) == TOKENS


def test_dismissal_returns_the_tokens_still_held(start, pipe):
    caller = start()
    assert caller.ask("[g.take_token() for _ in range(3)]") == [True] * 3
    caller.ask("g.dismiss()")
    assert tokens_in(pipe) == TOKENS
    assert caller.ask("g.take_token()") is False
    caller.ask("g.return_token()")
    assert tokens_in(pipe) == TOKENS


def test_without_a_jobserver_there_is_no_token(start):
    caller = start(with_jobserver=False)
    assert caller.ask("(g.has_jobserver, g.take_token(), g.return_token())") == (False, False, None)
    assert start().ask("g.has_jobserver") is True


TOOLS = {
    "one": "exec sleep 1000",
    "a family": "sleep 1000 & (sleep 1000; true) & wait",
    "one that minds no signal": "trap '' TERM INT HUP; sleep 1000; sleep 1000",
    "one that has left its family": "setsid sh -c 'sleep 1000; true' & exit 0",
    "one that is stopped": "kill -STOP $$",
    "one that starts others": "while :; do sleep 0.001 & done",
}


@pytest.mark.parametrize("script", TOOLS.values(), ids=TOOLS)
def test_nothing_is_left_of_a_killed_caller(start, pipe, script):
    caller = start()
    caller.ask("[g.take_token() for _ in range(3)]")
    caller.ask(f'str(tool("{script}"))')
    wait_until(lambda: processes_of(caller))
    caller.kill()
    os.read(pipe[0], 1)  # what is left in it
    assert select.select([pipe[0]], [], [], 60)[0]
    # The first token is back: the tools must be gone, and the scratch directory.
    assert not processes_of(caller)
    assert not caller.scratch.exists()
    wait_for_end(caller.watchdog)
    os.write(pipe[1], b"d")
    assert tokens_in(pipe) == TOKENS


def test_tools_of_others_live_on(start, tmp_path):
    caller = start()
    with subprocess.Popen(
        ["sleep", "1000"], env={**os.environ, "TMPDIR": f"{caller.scratch}-2/tmp"}
    ) as other:
        caller.kill()
        wait_for_end(caller.watchdog)
        assert other.poll() is None
        other.kill()


def test_a_caller_killed_without_tools_leaves_nothing(start):
    caller = start(with_jobserver=False)
    caller.kill()
    wait_for_end(caller.watchdog)
    assert not caller.scratch.exists()


def test_the_watchdog_runs_nothing_of_its_caller(start):
    caller = start()
    caller.kill()
    wait_for_end(caller.watchdog)
    assert not os.path.exists(f"{caller.scratch}-ended")
    other = start()
    other.ask("g.dismiss()")
    assert not os.path.exists(f"{other.scratch}-ended")
    other.process.stdin.close()
    other.process.wait()
    assert os.path.exists(f"{other.scratch}-ended")


def test_the_watchdog_holds_nothing_of_its_caller(start, tmp_path, pipe):
    caller = start()
    assert caller.ask("g.take_token()")  # so it is up
    files = {
        os.readlink(f"/proc/{caller.watchdog}/fd/{name}")
        for name in os.listdir(f"/proc/{caller.watchdog}/fd")
    }
    own = os.readlink(f"/proc/self/fd/{pipe[0]}")
    assert {file for file in files if not file.startswith("socket:")} == {os.devnull, own}
    assert os.readlink(f"/proc/{caller.watchdog}/cwd") == "/"
    assert os.getsid(caller.watchdog) == caller.watchdog


def test_the_output_of_a_killed_caller_ends_before_its_watchdog(start):
    caller = start()
    caller.ask("g.take_token()")
    os.kill(caller.watchdog, signal.SIGSTOP)
    caller.kill()
    assert select.select([caller.process.stdout], [], [], 60)[0]
    assert caller.process.stdout.read() == ""
    assert is_alive(caller.watchdog)
    os.kill(caller.watchdog, signal.SIGCONT)
    wait_for_end(caller.watchdog)


def test_no_signal_but_the_last_ends_the_watchdog(start, pipe):
    caller = start()
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        os.kill(caller.watchdog, signum)
    assert caller.ask("g.take_token()") is True
    caller.kill()
    wait_for_end(caller.watchdog)
    assert not caller.scratch.exists()
    assert tokens_in(pipe) == TOKENS


def test_a_caller_that_is_stopped_goes_on_with_its_tokens(start, pipe):
    caller = start()
    assert caller.ask("g.take_token()")
    caller.process.send_signal(signal.SIGSTOP)
    caller.tell("g.take_token()")
    assert is_alive(caller.watchdog)
    caller.process.send_signal(signal.SIGCONT)
    assert caller.process.stdout.readline() == "True\n"
    assert len(tokens_in(pipe)) == 2


def test_a_caller_that_is_stopped_can_be_killed(start, pipe):
    caller = start()
    assert caller.ask("g.take_token()")
    caller.process.send_signal(signal.SIGSTOP)
    caller.kill()
    wait_for_end(caller.watchdog)
    assert tokens_in(pipe) == TOKENS
    assert not caller.scratch.exists()


def test_without_its_watchdog_a_caller_returns_the_tokens_itself(start, pipe):
    caller = start()
    assert caller.ask("[g.take_token() for _ in range(3)]") == [True] * 3
    os.kill(caller.watchdog, signal.SIGKILL)
    wait_for_end(caller.watchdog)
    assert caller.ask("g.take_token()") is False
    caller.ask("g.return_token()")
    assert len(tokens_in(pipe)) == 2
    caller.ask("g.dismiss()")
    assert tokens_in(pipe) == TOKENS
    caller.ask("g.dismiss()")
    assert tokens_in(pipe) == TOKENS
    assert not os.path.exists(f"/proc/{caller.watchdog}")


def test_a_token_returned_to_a_watchdog_that_dies_before_it_reads_that_is_not_lost(start, pipe):
    caller = start()
    assert caller.ask("[g.take_token() for _ in range(2)]") == [True] * 2
    os.kill(caller.watchdog, signal.SIGSTOP)
    wait_until(lambda: state_of(caller.watchdog) == b"T")
    caller.ask("setattr(g, '_line', LastWords(g._line))")
    caller.ask("g.return_token()")
    assert len(tokens_in(pipe)) == 3
    caller.ask("g.dismiss()")
    assert tokens_in(pipe) == TOKENS


def test_a_watchdog_that_does_not_answer_is_done_without_and_ends_when_it_goes_on(start, pipe):
    caller = start()
    assert caller.ask("g.take_token()")
    os.kill(caller.watchdog, signal.SIGSTOP)
    wait_until(lambda: state_of(caller.watchdog) == b"T")
    caller.ask("g._line.settimeout(0.01)")
    assert caller.ask("g.take_token()") is False
    caller.ask("globals().update(kept=g._line)")
    caller.ask("setattr(g, '_line', 'not asked again')")
    assert caller.ask("g.take_token()") is False
    caller.ask("g.return_token()")
    caller.ask("setattr(g, '_line', kept)")
    caller.ask("g.dismiss()")
    assert len(tokens_in(pipe)) == 3
    os.kill(caller.watchdog, signal.SIGCONT)
    wait_for_end(caller.watchdog)
    assert tokens_in(pipe) == TOKENS
    assert caller.scratch.exists()


@pytest.mark.parametrize("what", ["fork", "socketpair"])
def test_without_a_process_or_a_socket_there_is_no_watchdog(monkeypatch, tmp_path, what):
    def refuse(*arguments):
        raise BlockingIOError

    monkeypatch.setattr({"fork": "os.fork", "socketpair": "socket.socketpair"}[what], refuse)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert Watchdog.start(str(tmp_path), None) is None
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert tmp_path.exists()


# Many callers in a row, forked by one process that inherits and waits for whatever they leave behind.
MANY = """
import ctypes, os, random, signal, subprocess, sys, time
from nvccache.machine import watchdog as watchdog, jobserver

class Told(BaseException):
    pass

def tell(signum, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Told

def be_called(scratch, found):
    environ = {**os.environ, "TMPDIR": f"{scratch}/tmp"}
    held = None
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        held = watchdog.Watchdog.start(scratch, found)
        os.makedirs(f"{scratch}/tmp")
        while True:
            taken = [held.take_token() for _ in range(3)]
            if ending == signal.SIGKILL:
                subprocess.Popen(["sleep", "1000"], env=environ, stdout=subprocess.DEVNULL)
            for _ in range(sum(taken)):
                held.return_token()
    except Told:
        if held:
            held.dismiss()
        while True:  # what a call that was told to stop does: nothing may be left that does not end
            os.waitpid(-1, 0)

scratch, ending, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
found = jobserver.find(os.environ)
signal.signal(signal.SIGTERM, tell)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
for number in range(rounds):
    pid = os.fork()
    if pid == 0:
        try:
            be_called(f"{scratch}/{number}", found)
        except ChildProcessError:
            os._exit(0)
        finally:
            os._exit(1)
    time.sleep(random.Random(number).random() ** 2 * 0.01)
    os.kill(pid, ending)
    status = os.waitpid(pid, 0)[1]
    assert status == (ending if ending == signal.SIGKILL else 0), (number, status)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    tokens = list(iter(found.take, None))
    assert sorted(tokens) == [b"a", b"b", b"c", b"d"], (number, tokens)
    if ending == signal.SIGKILL:
        assert not os.path.exists(f"{scratch}/{number}"), number
    for token in tokens:
        found.give_back(token)
print("all well")
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_callers_may_be_killed_or_told_to_stop_at_any_moment(tmp_path, pipe, ending):
    command = [sys.executable, "-c", MANY, str(tmp_path), str(int(ending)), "100"]
    environ = {**os.environ, "MAKEFLAGS": f"-j5 --jobserver-auth={pipe[0]},{pipe[1]}"}
    with subprocess.Popen(
        command, env=environ, pass_fds=pipe, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    ) as many:
        assert many.communicate(timeout=300) == (b"all well\n", b"")


SLOW = """
import os, sys, time
from nvccache.machine import watchdog as watchdog, scratch

original = os.setsid

def slowly():
    time.sleep(0.5)
    original()

os.setsid = slowly

def work(held):
    print(os.path.exists(sys.argv[1]), flush=True)
    time.sleep(1000)

scratch.within(sys.argv[1], None, work)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_before_a_directory_is_made_its_watchdog_has_left_the_process_group(tmp_path, signum):
    """Or a kill of the group would leave the directory, and a stop would keep it."""
    path = tmp_path / "scratch"
    command = [sys.executable, "-c", SLOW, str(path)]
    with subprocess.Popen(command, stdout=PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == b"True\n"
        os.killpg(process.pid, signum)
        process.kill()
    wait_until(lambda: not path.exists())


def test_a_watchdog_that_does_not_get_ready_is_no_more(monkeypatch, tmp_path):
    """It would take its call for dead when it goes on."""
    monkeypatch.setattr("nvccache.machine.watchdog._ANSWER_SECONDS", 0.05)
    monkeypatch.setattr("os.setsid", lambda: os.kill(os.getpid(), signal.SIGSTOP))
    assert Watchdog.start(str(tmp_path), None) is None
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    monkeypatch.setattr("os.setsid", lambda: os._exit(1))
    assert Watchdog.start(str(tmp_path), None) is None
    assert tmp_path.exists()


KILLED_IN_MAKE = """
import os, signal, sys
from nvccache.machine import watchdog as watchdog, jobserver
g = watchdog.Watchdog.start(sys.argv[1], jobserver.find(os.environ))
print(sum(g.take_token() for _ in range(9)), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_gets_every_token_of_a_killed_job_back(tmp_path):
    (tmp_path / "job.py").write_text(KILLED_IN_MAKE)
    (tmp_path / "Makefile").write_text(f"all:\n\t+@{sys.executable} job.py {tmp_path}/scratch\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-j3", "--no-print-directory"]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=PIPE, stderr=PIPE, text=True) as make:
        stdout, stderr = make.communicate(timeout=60)
    assert stdout == "2\n"
    assert make.returncode == 2
    assert "INTERNAL" not in stderr

"""The watchdog of a call that is killed, with real processes."""

from __future__ import annotations

import os
import select
import signal
import subprocess

import pytest

from callers import is_alive, processes_of, state_of, tokens_in, wait_for_end, wait_until
from nvccache.machine.watchdog import Watchdog
from watched_calls import TOKENS, pipe, start

__all__ = ["pipe", "start"]  # the fixtures


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

    monkeypatch.setattr({"fork": "os.fork", "socketpair": "_socket.socketpair"}[what], refuse)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert Watchdog.start(str(tmp_path), None) is None
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert tmp_path.exists()


def test_a_watchdog_that_does_not_get_ready_is_no_more(monkeypatch, tmp_path):
    """It would take its call for dead when it goes on."""
    forked = []
    fork = os.fork
    monkeypatch.setattr("os.fork", lambda: forked.append(fork()) or forked[-1])
    monkeypatch.setattr("nvccache.machine.watchdog._ANSWER_SECONDS", 0.05)
    monkeypatch.setattr("os.setsid", lambda: os.kill(os.getpid(), signal.SIGSTOP))
    assert Watchdog.start(str(tmp_path), None) is None
    # By its number: the servers that other tests have started are children of this process too.
    with pytest.raises(ChildProcessError):
        os.waitpid(forked.pop(), os.WNOHANG)
    assert not forked
    monkeypatch.setattr("os.setsid", lambda: os._exit(1))
    assert Watchdog.start(str(tmp_path), None) is None
    assert tmp_path.exists()

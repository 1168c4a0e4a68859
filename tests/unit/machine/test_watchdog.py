"""The watchdog of a call that is killed, with real processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

import pytest

from callers import Caller, is_alive, processes_of, state_of, wait_for_end, wait_until
from nvccache.machine.watchdog import Watchdog


@pytest.fixture
def start(tmp_path):
    """Starts callers; a process of theirs that a failed test leaves behind ends with it."""
    callers = []

    def start_caller():
        callers.append(Caller(tmp_path / f"scratch-{len(callers)}"))
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


TOOLS = {
    "a family": "sleep 1000 & (sleep 1000; true) & wait",
    "one that minds no signal": "trap '' TERM INT HUP; sleep 1000; sleep 1000",
    "one that is stopped": "kill -STOP $$",
    "one that starts others": "while :; do sleep 0.001 & done",
}


@pytest.mark.parametrize("script", TOOLS.values(), ids=TOOLS)
def test_the_watchdog_removes_tools_and_scratch_of_a_killed_caller(start, script):
    caller = start()
    caller.ask(f'str(tool("{script}"))')
    wait_until(lambda: processes_of(caller))
    caller.kill()
    wait_for_end(caller.watchdog)
    assert not processes_of(caller)
    assert not caller.scratch.exists()


def test_the_watchdog_does_not_kill_tools_of_other_calls(start, tmp_path):
    caller = start()
    with subprocess.Popen(
        ["sleep", "1000"], env={**os.environ, "_NVCCACHE_SCRATCH": f"{caller.scratch}-2"}
    ) as other:
        caller.kill()
        wait_for_end(caller.watchdog)
        assert other.poll() is None
        other.kill()


def test_a_server_that_a_tool_has_started_lives_on(start):
    """Later compiles may be using it."""
    caller = start()
    server = caller.ask("globals().setdefault('t', tool('exec setsid sleep 1000')).pid")
    wait_until(lambda: os.getsid(server) == server)
    caller.ask("tool('exec sleep 1000').pid")
    caller.kill()
    wait_for_end(caller.watchdog)
    assert processes_of(caller) == [server]
    os.kill(server, signal.SIGKILL)


def test_tools_may_remove_their_temporary_files(start, tmp_path):
    caller = start()
    script = f"trap 'rm {tmp_path}/left; exit' TERM; touch {tmp_path}/left; while :; do sleep 0.01; done"
    caller.ask(f'str(tool("{script}"))')
    wait_until((tmp_path / "left").exists)
    caller.kill()
    wait_for_end(caller.watchdog)
    assert not (tmp_path / "left").exists()


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


def has_detached(caller):
    return os.readlink(f"/proc/{caller.watchdog}/cwd") == "/"


def test_the_watchdog_holds_nothing_of_its_caller(start):
    caller = start()
    folder = f"/proc/{caller.watchdog}/fd"

    def holds_what_is_its_own():
        files = set()
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # it looks for what others have left
                files.add(os.readlink(f"{folder}/{name}"))
        return os.devnull in files and [file[:5] for file in files - {os.devnull}] == ["pipe:"]

    wait_until(lambda: has_detached(caller) and holds_what_is_its_own())
    assert os.getpgid(caller.watchdog) == caller.watchdog


def test_the_output_of_a_killed_caller_ends_before_its_watchdog(start):
    caller = start()
    wait_until(lambda: has_detached(caller))
    os.kill(caller.watchdog, signal.SIGSTOP)
    caller.kill()
    assert select.select([caller.process.stdout], [], [], 60)[0]
    assert caller.process.stdout.read() == ""
    with contextlib.suppress(ProcessLookupError):  # the kernel may have had it go on
        os.kill(caller.watchdog, signal.SIGCONT)
    wait_for_end(caller.watchdog)


def test_no_signal_but_the_last_ends_the_watchdog(start):
    caller = start()
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        os.kill(caller.watchdog, signum)
    caller.kill()
    wait_for_end(caller.watchdog)
    assert not caller.scratch.exists()


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_watchdog_that_was_killed_or_stopped_can_be_dismissed(start, signum):
    caller = start()
    os.kill(caller.watchdog, signum)
    wait_until(lambda: state_of(caller.watchdog) in (b"T", b"Z", b""))
    for _ in range(2):
        caller.ask("g.dismiss()")
    assert not os.path.exists(f"/proc/{caller.watchdog}")
    assert caller.scratch.exists()


@pytest.mark.parametrize("what", ["fork", "pipe"])
def test_a_failing_fork_or_pipe_gives_no_watchdog(monkeypatch, tmp_path, what):
    def refuse(*arguments):
        raise BlockingIOError

    monkeypatch.setattr(f"os.{what}", refuse)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert Watchdog.start(str(tmp_path)) is None
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert tmp_path.exists()


AT_WORK = """
import os, sys, time
from nvccache.machine import watchdog

def work():
    print(os.path.exists(sys.argv[1]), flush=True)
    time.sleep(1000)

watchdog.within_scratch(sys.argv[1], None, work)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_before_a_directory_is_made_its_watchdog_has_left_the_process_group(tmp_path, signum):
    """Otherwise killing the group would leave the directory behind, and so would stopping it."""
    path = tmp_path / "scratch"
    command = [sys.executable, "-c", AT_WORK, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == b"True\n"
        os.killpg(process.pid, signum)
        process.kill()
    wait_until(lambda: not path.exists())

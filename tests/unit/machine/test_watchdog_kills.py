"""A call or its watchdog is killed at any moment: no tool, directory or token is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from subprocess import DEVNULL, PIPE

import pytest

from callers import wait_until
from watched_calls import pipe, start

__all__ = ["pipe", "start"]  # the fixtures

# Many callers in a row, forked by one process that inherits and waits for whatever they leave behind.
MANY = """
import ctypes, os, random, signal, subprocess, sys, time
from nvccache.machine import jobserver, watchdog

class Terminated(BaseException):
    pass

def tell(signum, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated

def be_called(scratch, found):
    environ = {**os.environ, "_NVCCACHE_SCRATCH": scratch}
    held = None
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        held = watchdog.Watchdog.start(scratch, found)
        os.makedirs(f"{scratch}/tmp")
        while True:
            for _ in range(3):
                found.take()
            if ending == signal.SIGKILL:
                subprocess.Popen(["sleep", "1000"], env=environ, stdout=subprocess.DEVNULL)
                time.sleep(1000)
            found.give_back_all()
    except Terminated:
        found.give_back_all()
        if held:
            held.dismiss()
        while True:  # as a terminated call does: no process may be left that does not end
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
    tokens = os.read(found.descriptor, 9)
    # Of one that is killed between two instructions a token may be lost.
    lost = set(b"abcd") - set(tokens)
    assert len(tokens) + len(lost) == 4 and len(lost) <= (ending == signal.SIGKILL), (number, tokens)
    if ending == signal.SIGKILL:
        assert not os.path.exists(f"{scratch}/{number}"), number
    os.write(found.descriptor, b"abcd")
print("all well")
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_callers_may_be_killed_or_terminated_at_any_moment(tmp_path, pipe, ending):
    command = [sys.executable, "-c", MANY, str(tmp_path), str(int(ending)), "40"]
    environ = {**os.environ, "MAKEFLAGS": f"-j5 --jobserver-auth={pipe[0]},{pipe[1]}"}
    with subprocess.Popen(
        command, env=environ, pass_fds=pipe, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    ) as many:
        assert many.communicate(timeout=300) == (b"all well\n", b"")


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
    with subprocess.Popen(command, stdout=PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == b"True\n"
        os.killpg(process.pid, signum)
        process.kill()
    wait_until(lambda: not path.exists())

"""The client side of make's jobserver, with real pipes and fifos."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import sys

import pytest

from nvccache.machine import jobserver

TOKENS = b"abc"


@pytest.fixture
def opened():
    """Descriptors that a test opens; those still open are closed after it."""
    descriptors = []
    yield descriptors
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


@pytest.fixture
def pipe(opened):
    """The two ends of a pipe with three tokens, inherited as from make."""
    ends = os.pipe()
    opened += ends
    for end in ends:
        os.set_inheritable(end, True)
    os.write(ends[1], TOKENS)
    return ends


@pytest.fixture
def find(opened):
    def find_and_close_later(makeflags):
        found = jobserver.find({"MAKEFLAGS": makeflags})
        if found:
            opened.append(found.descriptor)
        return found

    return find_and_close_later


def take_all(found):
    """Take all tokens; their number."""
    return len(list(iter(found.take, False)))


@pytest.mark.parametrize("option", ["--jobserver-auth", "--jobserver-fds"])
def test_tokens_come_from_the_pipe_and_go_back_to_it_byte_for_byte(find, pipe, option):
    found = find(f"ks -j4 {option}={pipe[0]},{pipe[1]} -- A=b")
    assert take_all(found) == 3
    found.give_back()
    assert os.read(pipe[0], 10) == b"a"
    found.give_back_all()
    assert os.read(pipe[0], 10) == b"bc"
    found.give_back()
    assert not found.take(), "nothing is given back twice"


@pytest.mark.parametrize("name", ["fifo", "a fifo", "back\\slash"])
def test_tokens_come_from_the_fifo_and_go_back_to_it(find, opened, tmp_path, name):
    path = str(tmp_path / name)
    os.mkfifo(path)
    opened.append(os.open(path, os.O_RDWR))
    os.write(opened[0], TOKENS)
    found = find("-j4 --jobserver-auth=fifo:" + path.replace("\\", "\\\\").replace(" ", "\\ "))
    assert take_all(found) == 3
    found.give_back_all()
    assert os.read(opened[0], 10) == TOKENS


def test_the_jobserver_pipe_shared_with_make_stays_blocking(find, pipe):
    before = [fcntl.fcntl(end, fcntl.F_GETFL) for end in pipe]
    found = find(f"--jobserver-auth={pipe[0]},{pipe[1]}")
    take_all(found)
    found.give_back_all()
    assert [fcntl.fcntl(end, fcntl.F_GETFL) for end in pipe] == before
    assert not before[0] & os.O_NONBLOCK


def test_the_last_jobserver_option_in_makeflags_counts(find, pipe):
    good = f"--jobserver-auth={pipe[0]},{pipe[1]}"
    assert find(f"--jobserver-fds=-2,-2 {good}")
    assert not find(f"{good} --jobserver-auth=-2,-2")


@pytest.mark.parametrize(
    "makeflags",
    [
        "",
        "ks -j4",
        "--jobserver-auth=",
        "--jobserver-auth={0}",
        "--jobserver-auth=-3,-4",
        "--jobserver-auth=99999999999999999999,{1}",
        "--jobserver-auth=a,b",
        "--jobserver-auth=³,⁴",
        "--jobserver-auth={1},{0}",
        "--jobserver-auth={0},{2}",  # the ends of two pipes
        "--jobserver-auth={3},{1}",  # not inherited
        "--jobserver-auth={4},{4}",  # an ordinary file
        "--jobserver-auth=fifo:{5}",
        "--jobserver-auth=fifo:{5}/none",
        # variables of the makefile
        "n -- FLAGS=-j\\ --jobserver-auth={0},{1}",
        "n -- --jobserver-auth={0},{1}",
        "FLAGS=-j\\ --jobserver-auth={0},{1}",
    ],
)
def test_invalid_makeflags_give_no_jobserver(find, pipe, opened, tmp_path, makeflags):
    others, path = os.pipe(), tmp_path / "file"
    path.write_bytes(TOKENS)
    opened += (*others, os.dup(pipe[0]), os.open(path, os.O_RDWR))
    for descriptor in (others[1], opened[-1]):
        os.set_inheritable(descriptor, True)
    assert not find(makeflags.format(*pipe, others[1], *opened[-2:], path))
    assert path.read_bytes() == TOKENS


class Interrupted(BaseException):
    """What a signal handler raises."""


def interrupt_at(number, function):
    """Call a function, and raise before its instruction of this number; whether it had ended before."""
    left = [number]

    def trace(frame, event, argument):
        frame.f_trace_opcodes = True
        left[0] -= event == "opcode"
        if left[0] < 0:
            raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except Interrupted:
        return False
    finally:
        sys.settrace(before)
    return True


@pytest.mark.parametrize("taken", [0, 3])
def test_a_signal_at_any_moment_loses_and_duplicates_no_token(find, pipe, taken):
    for number in itertools.count():
        found = find(f"--jobserver-auth={pipe[0]},{pipe[1]}")
        for _ in range(taken):
            found.take()
        has_ended = interrupt_at(number, found.give_back if taken else found.take)
        found.give_back_all()
        assert sorted(os.read(pipe[0], 10)) == sorted(TOKENS)
        os.write(pipe[1], TOKENS)
        if has_ended:
            break
    assert number > 10


def test_giving_back_a_token_waits_while_the_jobserver_pipe_is_full(find, pipe, monkeypatch):
    found = find(f"--jobserver-auth={pipe[0]},{pipe[1]}")
    assert take_all(found) == 3
    size = fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, 4096)
    os.write(pipe[1], b"x" * size)
    monkeypatch.setattr("time.sleep", lambda seconds: os.read(pipe[0], size))
    found.give_back()
    assert os.read(pipe[0], 10) == b"a"

"""Redis as a remote, with a misbehaving server. Real ones: test_real_servers.py."""

from __future__ import annotations

import contextlib
import time

import pytest

from faulty_server import FaultyServer
from opened_remotes import MOST, NAME, fault_of, opened


class Fake(FaultyServer):
    """Answers each received chunk with the next of its `answers`, and finally calls `then`."""

    def __init__(self, *answers, then=None):
        self._answers = list(answers)
        self._then = then
        super().__init__(self._next, ends=b"")

    def server(self, user="", query="", timeout=0.3):
        return opened(f"redis://{user}127.0.0.1:{self.port}/{query}", {}, timeout)

    def _next(self, connection):
        text = self._answers.pop(0) if self._answers else b""
        if text == b"end":
            connection.close()
        connection.sendall(text)
        if not self._answers and self._then:
            self._then(connection)


@pytest.fixture
def fake():
    with contextlib.ExitStack() as ends:
        yield lambda *answers, then=None: ends.enter_context(Fake(*answers, then=then))


def word_of(server):
    return fault_of(server.get, NAME, MOST)


def test_greeting_database_and_question_go_in_one_write(fake):
    there = fake(b"+OK\r\n+OK\r\n$7\r\ncontent\r\n", b"$-1\r\n")
    server = there.server("me:SECRET@", "3?prefix=p")
    assert server.get(NAME, MOST) == b"content"
    assert server.get(NAME, MOST) is None
    key = f"p/{NAME}".encode()
    asked = b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key)
    greeting = b"*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nSECRET\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
    assert there.requests == [(greeting + asked).decode(), asked.decode()]
    assert len(there.connections) == 1


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (b"-NOAUTH Authentication required.\r\n", "bad_credentials"),
        (b"-WRONGPASS SECRET\r\n", "bad_credentials"),
        (b"-NOPERM this user\r\n", "bad_credentials"),
        (b"-OOM command not allowed\r\n", "full"),
        (b"-LOADING the dataset\r\n", "unreachable"),
        (b"-READONLY a replica\r\n", "denied"),
        (b"-ERR max number of clients reached\r\n", "throttled"),
        (b"-ERR something else\r\n", "broken"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "broken"),
        (b"$x\r\n", "broken"),
        (b"x" * 10000, "broken"),
        (b"*1\r\n", "broken"),
        (b"$100\r\nnot all of it", "timeout"),
        (b"", "timeout"),
        (b"end", "unreachable"),
    ],
)
def test_answers_that_are_none(fake, answer, word):
    assert word_of(fake(answer).server()) == word


def test_no_more_is_taken_than_may_come(fake):
    def sends_without_end(connection):
        while True:
            connection.sendall(b"x" * 65536)

    assert fake(b"$1000000000000\r\n", then=sends_without_end).server().get(NAME, MOST) is None
    assert word_of(fake(b"$", then=sends_without_end).server()) == "broken"


def test_sending_to_a_server_that_does_not_read_ends(fake):
    there = fake(then=lambda _: time.sleep(5))
    assert fault_of(there.server().put, NAME, bytes(50 << 20)) == "timeout"


def test_a_name_of_a_host_that_is_none():
    assert word_of(opened(f"redis://{'a' * 70}.example")) == "unreachable"

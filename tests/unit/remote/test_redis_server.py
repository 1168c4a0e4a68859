"""Redis as a remote: a server that misbehaves, and a real one, if installed, with its users and TLS."""

from __future__ import annotations

import time

import pytest

from faulty_server import FaultyServer
from opened_remotes import MOST, NAME, NO_CREDENTIALS, fault_of, opened
from support import certificates, servers, servers_redis
from support.servers_redis import PASSWORD, READER


class Fake(FaultyServer):
    """Answers each received chunk with the next of its `answers`, and finally calls `then`."""

    def __init__(self, *answers, then=None):
        self._answers = list(answers)
        self._then = then
        super().__init__(self._next, ends=b"")

    def service(self, user="", query=""):
        return opened(f"redis://{user}127.0.0.1:{self.port}/{query}", {}, 0.3)

    def word(self):
        return fault_of(self.service().get, NAME, MOST)

    def _next(self, connection):
        text = self._answers.pop(0) if self._answers else b""
        if text == b"end":
            connection.close()
        connection.sendall(text)
        if not self._answers and self._then:
            self._then(connection)


def test_greeting_database_and_question_go_in_one_write():
    with Fake(b"+OK\r\n+OK\r\n$7\r\ncontent\r\n", b"$-1\r\n") as server:
        service = server.service("me:SECRET@", "3?prefix=p")
        assert service.get(NAME, MOST) == b"content"
        assert service.get(NAME, MOST) is None
        key = f"p/{NAME}".encode()
        question = b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key)
        greeting = b"*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nSECRET\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
        assert server.requests == [(greeting + question).decode(), question.decode()]
        assert len(server.connections) == 1


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (b"-NOAUTH Authentication required.\r\n", "bad_credentials"),
        (b"-WRONGPASS SECRET\r\n", "bad_credentials"),
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
        (b"end", "unreachable"),
    ],
)
def test_each_wrong_answer_has_its_word(answer, word):
    with Fake(answer) as server:
        assert server.word() == word


def _sends_without_end(connection):
    while True:
        connection.sendall(b"x" * 65536)


def test_reading_an_endless_answer_of_redis_stops_at_the_size_limit():
    with Fake(b"$1000000000000\r\n", then=_sends_without_end) as server:
        assert server.service().get(NAME, MOST) is None
    with Fake(b"$", then=_sends_without_end) as server:
        assert server.word() == "broken"


def test_sending_to_a_server_that_does_not_read_ends():
    with Fake(then=lambda _: time.sleep(5)) as server:
        assert fault_of(server.service().put, NAME, bytes(50 << 20)) == "timeout"


def test_a_host_name_that_is_too_long_is_unreachable():
    assert fault_of(opened(f"redis://{'a' * 70}.example").get, NAME, MOST) == "unreachable"


CONTENT = b"body" * 1000


def check_round_trip(text, environ=NO_CREDENTIALS):
    service = opened(text, environ, 5)
    assert service.get(NAME, 10**6) is None
    for _ in ("written", "replaced"):
        service.put(NAME, CONTENT)
    assert service.get(NAME, 10**6) == CONTENT
    assert service.get(NAME, 10) is None


def test_a_real_server_with_a_database_a_prefix_and_an_expiry(tmp_path):
    with servers_redis.redis(tmp_path / "redis") as redis:
        place = f"127.0.0.1:{redis.port}"
        check_round_trip(f"redis://:{PASSWORD}@{place}/1?prefix=a/b&ttl=100,rw")
        check_round_trip(f"redis://{place}/2", {"REDISCLI_AUTH": PASSWORD})
        reader = opened(f"redis://{READER}:{PASSWORD}@{place}", {}, 2)
        assert reader.get(NAME, 10) is None
        assert fault_of(reader.put, NAME, CONTENT) == "bad_credentials"
        for url in (f"redis://{place}", f"redis://:{PASSWORD}S@{place}"):
            assert fault_of(opened(url, timeout=2).get, NAME, 10) == "bad_credentials"


def test_a_real_server_with_tls(tmp_path):
    trusted, other = certificates.authority(tmp_path / "a"), certificates.authority(tmp_path / "b")
    certificate, key = trusted.sign("redis")
    port = servers.free_port()
    argv = [servers.program("redis-server", "apt install redis-server"), "--tls-port", port, "--port", "0"]
    argv += ["--bind", servers.HOST, "--save", "", "--tls-auth-clients", "no", "--tls-cert-file", certificate]
    argv += ["--tls-key-file", key, "--tls-ca-cert-file", trusted.certificate]
    with servers.running(argv, tmp_path, port):
        check_round_trip(f"rediss://127.0.0.1:{port}", {"SSL_CERT_FILE": str(trusted.certificate)})
        for file in (other.certificate, key, tmp_path / "nowhere"):
            service = opened(f"rediss://127.0.0.1:{port}", {"SSL_CERT_FILE": str(file)}, 2)
            assert fault_of(service.get, NAME, 10) == "tls"
        assert fault_of(opened(f"redis://127.0.0.1:{port}", timeout=2).get, NAME, 10) in (
            "unreachable",
            "broken",
        )

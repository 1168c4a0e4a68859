"""A real Redis, if installed, with its users and TLS."""

from __future__ import annotations

from nvccache.remote import envelope
from opened_remotes import NO_CREDENTIALS, fault_of, opened
from support import certificates, servers, servers_redis
from support.servers_redis import PASSWORD, READER

KEY = "ab" * 32
NAME = envelope.name_of("blob", KEY)
CONTENT = envelope.seal("blob", KEY, b"body" * 1000)


def round_trip(service):
    assert service.get(NAME, 10**6) is None
    service.put(NAME, CONTENT)
    service.put(NAME, CONTENT)
    assert service.get(NAME, 10**6) == CONTENT
    assert service.get(NAME, 10) is None


def word_of(text, environ=NO_CREDENTIALS):
    return fault_of(opened(text, environ, 2).get, NAME, 10)


def test_redis_with_a_database_a_prefix_and_an_expiry(tmp_path):
    with servers_redis.redis(tmp_path / "redis") as redis:
        round_trip(opened(f"redis://:{PASSWORD}@127.0.0.1:{redis.port}/1?prefix=a/b&ttl=100,rw", {}, 5))
        round_trip(opened(f"redis://127.0.0.1:{redis.port}/2", {"REDISCLI_AUTH": PASSWORD}, 5))
        reader = f"redis://{READER}:{PASSWORD}@127.0.0.1:{redis.port}"
        assert opened(reader, {}, 2).get(NAME, 10) is None
        assert fault_of(opened(reader, {}, 2).put, NAME, CONTENT) == "bad_credentials"
        for url in (f"redis://127.0.0.1:{redis.port}", f"redis://:{PASSWORD}S@127.0.0.1:{redis.port}"):
            assert word_of(url) == "bad_credentials"


def test_redis_with_tls(tmp_path):
    trusted, other = certificates.authority(tmp_path / "a"), certificates.authority(tmp_path / "b")
    certificate, key = trusted.sign("redis")
    port = servers.free_port()
    argv = [servers.program("redis-server", "apt install redis-server"), "--tls-port", port, "--port", "0"]
    argv += ["--bind", servers.HOST, "--save", "", "--tls-auth-clients", "no", "--tls-cert-file", certificate]
    argv += ["--tls-key-file", key, "--tls-ca-cert-file", trusted.certificate]
    with servers.running(argv, tmp_path, port):
        there = f"rediss://127.0.0.1:{port}"
        round_trip(opened(there, {"SSL_CERT_FILE": str(trusted.certificate)}, 5))
        for file in (other.certificate, key, tmp_path / "nowhere"):
            assert word_of(there, {"SSL_CERT_FILE": str(file)}) == "tls"
        assert word_of(f"redis://127.0.0.1:{port}") in ("unreachable", "broken")

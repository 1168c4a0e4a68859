"""Real servers, if installed: redis with its users, and S3 by moto."""

from __future__ import annotations

import pytest

from nvccache.remote import envelope
from opened_remotes import NO_CREDENTIALS, fault_of, opened
from support import certificates, servers, servers_redis, servers_s3
from support.servers_redis import PASSWORD, READER

pytest.importorskip("opendal", reason="opendal is not installed: pip install 'nvccache[remote]'")

KEY = "ab" * 32
NAME = envelope.name_of("blob", KEY)
CONTENT = envelope.seal("blob", KEY, b"body" * 1000)


@pytest.fixture
def redis(tmp_path):
    """Its port."""
    with servers_redis.redis(tmp_path / "redis") as server:
        yield server.port


def round_trip(service):
    assert service.get(NAME, 10**6) is None
    service.put(NAME, CONTENT)
    service.put(NAME, CONTENT)
    assert service.get(NAME, 10**6) == CONTENT
    assert service.get(NAME, 10) is None


def word_of(text, does, environ=NO_CREDENTIALS):
    service = opened(text, environ, 2)
    return fault_of(service.put, NAME, CONTENT) if does == "put" else fault_of(service.get, NAME, 10)


def test_redis(redis):
    round_trip(opened(f"redis://:{PASSWORD}@127.0.0.1:{redis}/1?prefix=a/b&ttl=100,rw", {}, 5))
    round_trip(opened(f"redis://127.0.0.1:{redis}/2", {"REDISCLI_AUTH": PASSWORD}, 5))


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
            assert word_of(there, "get", {"SSL_CERT_FILE": str(file)}) == "tls"
        assert word_of(f"redis://127.0.0.1:{port}", "get") in ("unreachable", "broken")


def test_users_of_redis(redis):
    reader = f"redis://{READER}:{PASSWORD}@127.0.0.1:{redis}"
    assert opened(reader, {}, 2).get(NAME, 10) is None
    assert word_of(reader, "put") == "bad_credentials"
    assert word_of(f"redis://127.0.0.1:{redis}", "get") == "bad_credentials"
    assert word_of(f"redis://:{PASSWORD}S@127.0.0.1:{redis}", "get") == "bad_credentials"


def test_s3(tmp_path, monkeypatch):
    with servers_s3.moto(tmp_path / "moto") as bucket:
        for name, value in bucket.environ().items():
            monkeypatch.setenv(name, value)
        round_trip(opened(bucket.url(), bucket.environ(), 5))


def test_directory(tmp_path):
    (tmp_path / "cache").mkdir()
    round_trip(opened(f"file://{tmp_path}/cache"))

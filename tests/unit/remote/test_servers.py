"""Redis and memcached as remotes, if they are installed, and a small server like GitHub's cache."""

from __future__ import annotations

import pytest

from faulty_server import FaultyServer, is_silent
from opened_remotes import NAME, NO_CREDENTIALS, fault_of, opened
from support import certificates, servers, servers_github, servers_memcached, servers_redis
from support.servers_redis import PASSWORD, READER

pytest.importorskip("opendal", reason="opendal is not installed: pip install 'nvccache[remote]'")

CONTENT = bytes(range(256)) * 2000


def check_round_trip(text, environ=NO_CREDENTIALS):
    backend = opened(text, environ, 5)
    assert backend.get(NAME, 10**6) is None
    for _ in ("written", "replaced"):
        backend.put(NAME, CONTENT)
    assert backend.get(NAME, len(CONTENT)) == CONTENT
    assert backend.get(NAME, len(CONTENT) - 1) is None


def test_redis_stores_objects_in_a_database_with_a_prefix_and_an_expiry(tmp_path):
    with servers_redis.redis(tmp_path / "redis", "--maxmemory", "8mb") as redis:
        place = f"127.0.0.1:{redis.port}"
        check_round_trip(f"redis://:{PASSWORD}@{place}/1?prefix=a/b")
        check_round_trip(f"redis://{place}?ttl=100", {"REDISCLI_AUTH": PASSWORD})
        assert redis.command("KEYS", "*") == NAME  # of database 0
        assert redis.command("TTL", NAME) in ("99", "100")
        reader = opened(f"redis://{READER}:{PASSWORD}@{place}", {}, 2)
        assert reader.get("absent", 10) is None
        assert fault_of(reader.put, NAME, CONTENT) == "bad_credentials"
        assert fault_of(opened(f"redis://{place}", timeout=2).get, NAME, 10) == "bad_credentials"
        writer = opened(f"redis://:{PASSWORD}@{place}", {}, 2)
        assert fault_of(writer.put, "large", CONTENT * 20) == "full"


def test_redis_over_tls_needs_a_trusted_certificate_and_the_password(tmp_path):
    pytest.importorskip("redis", reason="redis is not installed: pip install 'nvccache[remote]'")
    authority = certificates.authority(tmp_path / "authority")
    certificate, key = map(str, authority.sign("server"))
    port = servers.free_port()
    options = ["--tls-port", str(port), "--tls-cert-file", certificate, "--tls-key-file", key]
    options += ["--tls-auth-clients", "no", "--maxmemory", "8mb"]
    with servers_redis.redis(tmp_path / "redis", *options) as redis:
        trusted = {"SSL_CERT_FILE": str(authority.certificate)}
        place = f"localhost:{port}"
        check_round_trip(f"rediss://:{PASSWORD}@{place}/1?prefix=a/b", trusted)
        check_round_trip(f"rediss://{place}?ttl=100", {**trusted, "REDISCLI_AUTH": PASSWORD})
        assert redis.command("KEYS", "*") == NAME
        assert redis.command("TTL", NAME) in ("99", "100")
        reader = opened(f"rediss://{READER}:{PASSWORD}@{place}", trusted, 2)
        assert fault_of(reader.put, NAME, CONTENT) == "bad_credentials"
        for text, environ, word in (
            (f"rediss://{place}", trusted, "bad_credentials"),
            (f"rediss://:wrong@{place}", trusted, "bad_credentials"),
            (f"rediss://:{PASSWORD}@{place}", {}, "tls"),
            (f"rediss://:{PASSWORD}@{place}", {"SSL_CERT_FILE": "/nowhere"}, "tls"),
            ("rediss://localhost:1", trusted, "unreachable"),
        ):
            assert fault_of(opened(text, environ, 2).get, NAME, 10) == word, (text, environ)
        writer = opened(f"rediss://:{PASSWORD}@{place}?ttl=soon", trusted, 2)
        assert fault_of(writer.put, NAME, CONTENT) == "broken"
        writer = opened(f"rediss://:{PASSWORD}@{place}", trusted, 2)
        assert fault_of(writer.put, "large", CONTENT * 20) == "full"


def test_a_silent_redis_with_tls_is_a_timeout():
    pytest.importorskip("redis", reason="redis is not installed: pip install 'nvccache[remote]'")
    with FaultyServer(is_silent, ends=b"") as server:
        backend = opened(f"rediss://127.0.0.1:{server.port}", timeout=0.2)
        assert fault_of(backend.get, NAME, 10) == "timeout"


def test_memcached_stores_objects_with_a_prefix_up_to_its_size_limit(tmp_path):
    with servers_memcached.memcached(tmp_path / "memcached", "-I", "1m") as url:
        check_round_trip(url)
        check_round_trip(f"{url}2&ttl=100")
        backend = opened(url, timeout=5)
        assert fault_of(backend.put, "large", CONTENT * 4) == "broken"
        assert backend.get(NAME, 10**6) == CONTENT


def test_each_request_to_memcached_has_a_connection_of_its_own(tmp_path):
    with FaultyServer(is_silent, ends=b"") as server:
        backend = opened(f"memcached://127.0.0.1:{server.port}", timeout=0.2)
        assert [fault_of(backend.get, NAME, 10) for _ in range(2)] == ["timeout", "timeout"]
        assert len(server.connections) == 2


@pytest.mark.parametrize("host", ["127.0.0.1:1", "nowhere.invalid:1"])
def test_a_missing_memcached_server_is_unreachable(host):
    assert fault_of(opened(f"memcached://{host}", timeout=5).get, NAME, 10) == "unreachable"


def test_an_entry_of_the_github_cache_is_never_replaced(monkeypatch):
    with servers_github.actions_cache() as cache:
        for name, value in cache.environ().items():
            monkeypatch.setenv(name, value)
        check_round_trip("ghac:///pr-1")
        backend = opened("ghac://", timeout=5)
        assert backend.get(NAME, 10**6) is None
        backend.put(NAME, b"first")
        backend.put(NAME, b"second")
        assert backend.get(NAME, 10) == b"first"


def test_missing_or_wrong_credentials_of_the_github_cache_are_reported(monkeypatch):
    assert fault_of(opened, "ghac://") == "bad_credentials"
    with servers_github.actions_cache() as cache:
        for name, value in cache.environ(token="SECRET").items():
            monkeypatch.setenv(name, value)
        assert fault_of(opened("ghac://", timeout=5).get, NAME, 10) == "bad_credentials"
        assert fault_of(opened("ghac://", timeout=5).put, NAME, b"x") == "bad_credentials"

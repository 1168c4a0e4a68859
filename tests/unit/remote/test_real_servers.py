"""Real servers where they are installed: redis with its users, and S3 by moto."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

from nvccache import remote_url
from nvccache.remote import envelope
from nvccache.remote.kinds import connect
from nvccache.remote.service import ServiceError
from support import certificates

pytest.importorskip("opendal", reason="opendal is not installed: pip install 'nvccache[remote]'")

KEY = "ab" * 32
NAME = envelope.name_of("blob", KEY)
CONTENT = envelope.seal("blob", KEY, b"body" * 1000)


def started(program, *words):
    """The port of a server, for which `{port}` stands; ended with the test."""
    path = shutil.which(program)
    if not path:
        pytest.skip(f"{program} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [path, *[word.replace("{port}", str(port)) for word in words]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield port
        finally:
            process.kill()


@pytest.fixture
def redis():
    reader = ("--user", "reader", "on", ">SECRET", "~*", "+get", "+exists", "+strlen", "+select", "+ping")
    options = ("--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--requirepass", "SECRET")
    yield from started("redis-server", *options, *reader, "+client", "+hello", "+auth")


@pytest.fixture
def bucket():
    for port in started("moto_server", "-H", "127.0.0.1", "-p", "{port}"):
        endpoint = f"http://127.0.0.1:{port}"
        request = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
        with urllib.request.urlopen(request):
            yield f"s3://bucket/prefix?endpoint={endpoint}"


def round_trip(service):
    assert service.get(NAME, 10**6) is None
    assert not service.has(NAME)
    service.put(NAME, CONTENT)
    service.put(NAME, CONTENT)
    assert service.has(NAME)
    assert service.has(NAME, len(CONTENT))
    assert not service.has(NAME, len(CONTENT) - 1)
    assert service.get(NAME, 10**6) == CONTENT
    assert service.get(NAME, 10) is None


def word_of(text, does, environ=None):
    with pytest.raises(ServiceError) as raised:
        service = connect(remote_url.parse(text)[0], environ or {}, 2)
        service.put(NAME, CONTENT) if does == "put" else service.get(NAME, 10)
    assert "SECRET" not in raised.value.text
    return raised.value.word


def test_redis(redis):
    service = connect(
        remote_url.parse(f"redis://:SECRET@127.0.0.1:{redis}/1?prefix=a/b&ttl=100,rw")[0], {}, 5
    )
    round_trip(service)
    service.delete(NAME)
    assert not service.has(NAME)
    round_trip(connect(remote_url.parse(f"redis://127.0.0.1:{redis}/2")[0], {"REDISCLI_AUTH": "SECRET"}, 5))


def test_what_redis_has(redis):
    service = connect(remote_url.parse(f"redis://:SECRET@127.0.0.1:{redis}?prefix=a*,rw")[0], {}, 5)
    names = [f"1/{number:02x}/{number:064x}" for number in range(1500)]
    for name in names:
        service.put(name, CONTENT)
    service.put("2/other", CONTENT)
    other = connect(remote_url.parse(f"redis://:SECRET@127.0.0.1:{redis}?prefix=ab,rw")[0], {}, 5)
    other.put(names[0], CONTENT)
    found = list(service.list("1/"))
    assert sorted(name for name, _, _ in found) == sorted(names)
    assert {size for _, size, _ in found} == {len(CONTENT)}
    assert all(abs(used - time.time()) < 60 for _, _, used in found)
    assert [name for name, _, _ in other.list("")] == names[:1]


def test_redis_with_tls(tmp_path):
    trusted, other = certificates.authority(tmp_path / "a"), certificates.authority(tmp_path / "b")
    certificate, key = trusted.sign("redis")
    options = (
        "--tls-port",
        "{port}",
        "--port",
        "0",
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--tls-auth-clients",
        "no",
    )
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    for port in started("redis-server", *options, *files, "--tls-ca-cert-file", str(trusted.certificate)):
        there = f"rediss://127.0.0.1:{port}"
        round_trip(connect(remote_url.parse(there)[0], {"SSL_CERT_FILE": str(trusted.certificate)}, 5))
        for file in (other.certificate, key, tmp_path / "nowhere"):
            assert word_of(there, "get", {"SSL_CERT_FILE": str(file)}) == "tls"
        assert word_of(f"redis://127.0.0.1:{port}", "get") in ("unreachable", "broken")


def test_users_of_redis(redis):
    reader = f"redis://reader:SECRET@127.0.0.1:{redis}"
    assert connect(remote_url.parse(reader)[0], {}, 2).get(NAME, 10) is None
    assert word_of(reader, "put") == "bad_credentials"
    assert word_of(f"redis://127.0.0.1:{redis}", "get") == "bad_credentials"
    assert word_of(f"redis://:SECRETS@127.0.0.1:{redis}", "get") == "bad_credentials"


def test_s3(bucket, monkeypatch):
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "SECRET"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    service = connect(remote_url.parse(bucket)[0], keys, 5)
    round_trip(service)
    ((name, size, changed),) = service.list("1/")
    assert (name, size) == (NAME, len(CONTENT))
    assert abs(changed - time.time()) < 600
    service.delete(NAME)
    assert not service.has(NAME)


def test_directory(tmp_path):
    service = connect(remote_url.parse(f"file://{tmp_path}/cache")[0], {})
    round_trip(service)
    assert [name for name, _, _ in service.list("1/")] == [NAME]

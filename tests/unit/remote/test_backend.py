"""Messages of remotes, and their faults in the words of outcomes.REMOTE_FAULTS."""

from __future__ import annotations

import base64
import os
import sys
from types import SimpleNamespace

import pytest

import faulty_server
from faulty_server import FaultyServer, says
from nvccache import outcomes, remote_url
from nvccache.remote import backend as backends
from nvccache.remote import object_store
from opened_remotes import MOST, NAME, NO_CREDENTIALS, fault_of, opened

pytest.importorskip("opendal", reason="opendal is not installed: pip install 'nvccache[remote]'")


def backend(server, kind="http"):
    return opened(f"{server.url}/p" if kind == "http" else f"s3://b/p?endpoint={server.url}&anonymous=1")


def s3_error(status, code):
    return says(status, f"<Error><Code>{code}</Code><Message>of SECRET</Message></Error>".encode())


def test_every_remote_fault_has_a_message_and_a_counter():
    # A remote that is not used sends no message.
    assert set(backends.TEXTS) == set(outcomes.REMOTE_FAULTS) - {"left_alone"}
    assert {*backends._CODES, *backends._PHRASES} <= set(outcomes.REMOTE_FAULTS)


@pytest.mark.parametrize(
    ("message", "word", "code"),
    [
        ("url: http://tls/x, headers: timed out, odd", "broken", ""), ("DNS", "unreachable", ""),
        ("odd\n\nBacktrace: connect", "broken", ""), ("OOM", "full", "OOM"),
        ('status: 500, code: "SlowDown"', "throttled", "SlowDown"), ("status: 413", "full", "status 413"),
    ],
)  # fmt: skip
def test_a_message_of_the_client_is_shortened_to_a_fault_and_its_code(message, word, code):
    found = backends.error_of(message)
    assert (found.word, found.text) == (word, backends.TEXTS[word] + (f" ({code})" if code else ""))


@pytest.mark.parametrize("kind", ["http", "s3"])
def test_fetching_a_remote_object_is_one_request(kind):
    with FaultyServer(says(200, b"content")) as server:
        assert backend(server, kind).get(NAME, 7) == b"content"
        assert len(server.requests) == 1
        assert server.requests[0].startswith("GET ")
        assert NAME in server.requests[0]
        assert backend(server, kind).get(NAME, 6) is None


@pytest.mark.parametrize(
    "answer", [says(404), says(403), s3_error(403, "AccessDenied"), s3_error(404, "NoSuchKey")]
)
@pytest.mark.parametrize("kind", ["http", "s3"])
def test_fetching_an_absent_remote_object_returns_none(kind, answer):
    with FaultyServer(answer) as server:
        assert backend(server, kind).get(NAME, MOST) is None


@pytest.mark.parametrize(
    ("kind", "answer", "word"),
    [
        ("http", says(401), "bad_credentials"),
        ("http", says(407), "bad_credentials"),
        ("http", says(429), "throttled"),
        ("http", says(503), "throttled"),
        ("http", says(500), "broken"),
        ("http", says(502), "unreachable"),
        ("http", says(301), "broken"),
        ("http", says(405), "denied"),
        ("http", says(501), "denied"),
        ("http", faulty_server.closes, "unreachable"),
        ("http", faulty_server.writes_garbage, "unreachable"),
        ("http", faulty_server.truncates, "broken"),
        ("http", faulty_server.never_ends, "broken"),
        ("http", faulty_server.is_silent, "timeout"),
        ("s3", s3_error(403, "SignatureDoesNotMatch"), "bad_credentials"),
        ("s3", s3_error(403, "InvalidAccessKeyId"), "bad_credentials"),
        ("s3", s3_error(400, "ExpiredToken"), "bad_credentials"),
        ("s3", s3_error(503, "SlowDown"), "throttled"),
        ("s3", s3_error(500, "InternalError"), "broken"),
        ("s3", s3_error(404, "NoSuchBucket"), "denied"),
    ],
)
def test_each_http_error_of_a_remote_has_its_fault_word(kind, answer, word):
    with FaultyServer(answer) as server:
        assert fault_of(backend(server, kind).get, NAME, MOST) == word


@pytest.mark.parametrize(
    ("url", "word"),
    [("http://127.0.0.1:1/p", "unreachable"), ("redis://127.0.0.1:1", "timeout"), ("{}/p", "tls")],
)
def test_unreachable_and_unencrypted_servers_have_their_fault_words(url, word):
    with FaultyServer(says(400), ends=b"") as server:
        url = url.format(server.url.replace("http:", "https:"))
        assert fault_of(opened(url, timeout=2).get, NAME, MOST) == word


def test_reading_a_remote_object_stops_at_the_size_limit():
    def sends_a_terabyte(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with FaultyServer(sends_a_terabyte) as server:
        assert backend(server).get(NAME, MOST) is None


def test_a_redirect_to_another_host_does_not_send_the_password():
    """Wherever it redirects. With one, a refusal is no absence."""
    with FaultyServer(says(200, b"content")) as elsewhere:
        with FaultyServer(faulty_server.leads_to(f"http://localhost:{elsewhere.port}/x")) as server:
            there = opened(f"http://you:OTHER@127.0.0.1:{server.port}/p")
            assert there.get(NAME, MOST) == b"content"
            server.answer = says(403)
            assert fault_of(there.get, NAME, MOST) == "denied"
        assert base64.b64encode(b"you:OTHER").decode() in server.requests[0]
        assert "authorization" not in elsewhere.requests[0].lower()


def test_missing_credentials_do_not_mean_anonymous_access():
    with FaultyServer(says(200, b"x")) as server:
        url = f"s3://b/p?endpoint={server.url}"
        assert fault_of(opened(url).get, NAME, MOST) == "bad_credentials"
        assert opened(f"{url}&anonymous=1").get(NAME, MOST) == b"x"
        assert "authorization" not in server.requests[0].lower()


AZURE = {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_ACCOUNT_KEY": "k", "AZURE_STORAGE_SAS_TOKEN": "?t"}


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("http://u:w@h:1/p", {}, "http / endpoint=http://h:1 password=w root=/p username=u"),
        ("https://h", {}, "http / endpoint=https://h:443 root=/"),
        ("https://u@h", {}, "http / endpoint=https://h:443 password= root=/ username=u"),
        ("https://:w@h", {}, "http / endpoint=https://h:443 password=w root=/ username="),
        ("http://h,rw", {}, "webdav / disable_create_dir=true endpoint=http://h:80 root=/"),
        ("redis://:w@h/2?ttl=9", {"REDISCLI_AUTH": "x"},
         "redis / db=2 default_ttl=9s endpoint=redis://h:6379 password=w root=/"),
        ("redis://h", {}, "redis / db=0 endpoint=redis://h:6379 root=/"),
        ("redis://h?prefix=p", {"REDISCLI_AUTH": "x"},
         "redis / db=0 endpoint=redis://h:6379 password=x root=/p"),
        ("memcached://h:2", {"REDISCLI_AUTH": "x"}, "memcached / endpoint=tcp://h:2 root=/"),
        ("memcached://u:w@h:2?prefix=p,rw", {},
         "memcached / endpoint=tcp://h:2 password=w root=/p username=u"),
        ("ghac:///p", {}, "ghac / root=/p version=nvccache"),
        ("azblob://c/p", AZURE, "azblob / account_key=k account_name=a container=c"
         " endpoint=https://a.blob.core.windows.net root=/p sas_token=t"),
        ("azblob://c?account=b&endpoint=http://e", {"AZURE_STORAGE_ACCOUNT": "a"},
         "azblob / account_name=b container=c endpoint=http://e root=/"),
        ("gs://b?metadata=1", {}, "gcs / bucket=b root=/"),
        ("gs://b/p?anonymous=1&endpoint=http://e", {},
         "gcs / bucket=b disable_vm_metadata=true endpoint=http://e root=/p skip_signature=true"),
        ("s3://b?anonymous=1&region=r&endpoint=http://h", {"AWS_REGION": "one", "AWS_ENDPOINT_URL": "http://e"},
         "s3 / bucket=b disable_ec2_metadata=true endpoint=http://h region=r root=/ skip_signature=true"),
        ("s3://b", {"AWS_REGION": "one", "AWS_DEFAULT_REGION": "two"},
         "s3 / bucket=b disable_ec2_metadata=true region=one root=/"),
        ("s3://b/p", {"AWS_DEFAULT_REGION": "two", "AWS_ENDPOINT_URL": "http://e"},
         "s3 / bucket=b disable_ec2_metadata=true endpoint=http://e region=two root=/p"),
        ("s3://b?profile=me&virtual_host=1&ec2=1", {},
         "s3 / bucket=b enable_virtual_host_style=true profile=me region=us-east-1 root=/"),
    ],
)  # fmt: skip
def test_client_options_follow_from_the_remote_url_and_the_environment(url, environ, expected):
    remote, environ = remote_url.parse(url)[0], {**NO_CREDENTIALS, **environ}
    service, options = object_store.options_of(remote, environ, remote.is_writable)
    shown = [f"{name}={value}" for name, value in sorted(options.items())]
    assert " ".join([service, "/", *shown]) == expected


def test_opendal_uses_two_threads_without_setting_a_variable_for_tools(monkeypatch):
    variables = {}
    monkeypatch.setattr("os.putenv", variables.__setitem__)
    opened("http://127.0.0.1:1")
    assert variables == {"TOKIO_WORKER_THREADS": "2"}
    assert "TOKIO_WORKER_THREADS" not in os.environ
    monkeypatch.setitem(os.environ, "TOKIO_WORKER_THREADS", "7")
    variables.clear()
    opened("http://127.0.0.1:1")
    assert "2" not in variables.values()


def test_missing_folders_are_created_on_a_webdav_server_that_requires_them():
    def answers(connection):
        request = server.requests[-1]
        has_asked_for_folders = any(each.startswith(("PROPFIND", "MKCOL")) for each in server.requests)
        if request.startswith("PUT"):
            says(201 if has_asked_for_folders else 409)(connection)
        else:
            says(404 if request.startswith("PROPFIND") else 201)(connection)

    with FaultyServer(answers) as server:
        opened(f"{server.url}/p,rw").put("1/ab/x", b"")
        assert server.requests[-1].startswith("PUT")


@pytest.mark.parametrize(
    ("url", "message", "word"),
    [
        ("ghac:///p,rw", "status: 409", ""), ("ghac:///p,rw", object_store._EXISTS, ""),
        ("ghac:///p,rw", "status: 500", "broken"), ("s3://b,rw", "status: 409", "broken"),
        ("s3://b,rw", object_store._EXISTS, "broken"),
    ],
)  # fmt: skip
def test_only_of_githubs_cache_an_entry_that_exists_already_is_no_fault(monkeypatch, url, message, word):
    def write(name, content):
        raise ValueError(message)

    monkeypatch.setattr(
        object_store.ObjectStore, "_operator", lambda self, for_writing=False: SimpleNamespace(write=write)
    )
    if word:
        assert fault_of(opened(url).put, NAME, b"x") == word
    else:
        opened(url).put(NAME, b"x")


@pytest.fixture
def redis(monkeypatch):
    """In place of redis-py's client: how it was made, what it was asked, and what it answers or raises."""
    seen = SimpleNamespace(made=[], asked=[], answer=b"content")

    def ask(*given, **options):
        seen.asked.append((*given, *options.items()))
        if isinstance(seen.answer, Exception):
            raise seen.answer
        return seen.answer

    def make(*given, **options):
        seen.made = [*given, {name: value for name, value in options.items() if value is not None}]
        return SimpleNamespace(getrange=ask, set=ask)

    monkeypatch.setitem(sys.modules, "redis", SimpleNamespace(Redis=make))
    return seen


def test_a_url_and_variables_give_the_options_of_the_redis_client(redis):
    options = {"protocol": 2, "ssl": True, "ssl_check_hostname": True}
    options |= {"socket_timeout": 3.0, "socket_connect_timeout": 3.0}
    opened("rediss://h/3", {}, 3.0)
    assert redis.made == ["h", 6379, 3, options]
    opened("rediss://h", {"REDISCLI_AUTH": "x", "SSL_CERT_FILE": "/c"}, 3.0)
    assert redis.made[3] == {**options, "password": "x", "ssl_ca_certs": "/c"}
    opened("rediss://u:w@[::1]:7", {"REDISCLI_AUTH": "x"}, 3.0)
    assert redis.made == ["::1", 7, 0, {**options, "username": "u", "password": "w"}]


def test_redis_gets_one_range_of_an_object_and_stores_it_with_its_expiry(redis):
    assert opened("rediss://h").get(NAME, 7) == b"content"
    assert opened("rediss://h?prefix=p").get(NAME, 6) is None
    redis.answer = b""
    assert opened("rediss://h?prefix=p").get(NAME, 6) is None
    opened("rediss://h?prefix=p&ttl=9,rw").put(NAME, b"x")
    ranges = [(NAME, 0, 7), (f"p/{NAME}", 0, 6), (f"p/{NAME}", 0, 6)]
    assert redis.asked[:3] == ranges
    assert redis.asked[3] == (f"p/{NAME}", b"x", ("ex", "9"))


def error(name, *bases, text="", context=None):
    made = type(name, bases or (Exception,), {})(text)
    made.__context__ = context
    return made


@pytest.mark.parametrize(
    ("raised", "word"),
    [
        (error("AuthenticationError", ConnectionError), "bad_credentials"),
        (error("NoPermissionError"), "bad_credentials"), (error("Slow", TimeoutError), "timeout"),
        (error("Lost", ConnectionError), "unreachable"), (error("OutOfMemoryError"), "full"),
        (error("ReadOnlyError"), "denied"), (error("Odd"), "broken"),
        (error("Lost", ConnectionError, text="SSL: no"), "tls"),
        (error("Lost", ConnectionError, context=FileNotFoundError()), "tls"),
    ],
    ids=repr,
)  # fmt: skip
def test_each_exception_of_the_redis_client_has_its_fault_word(redis, raised, word):
    redis.answer = raised
    assert fault_of(opened("rediss://h").get, NAME, MOST) == word
    assert fault_of(opened("rediss://h,rw").put, NAME, b"x") == word


def test_without_its_client_redis_over_tls_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    assert fault_of(opened, "rediss://h") == "not_installed"

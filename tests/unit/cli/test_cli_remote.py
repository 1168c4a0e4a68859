"""`nvccache remote`: its reports on remotes, and what it sends."""

from __future__ import annotations

import json
import os
import re

import pytest

from nvccache import remote_url
from nvccache.cli import remotes
from nvccache.files import keys
from nvccache.remote import outages, service, uploads
from nvccache.remote.service import ServiceError
from nvccache.remote.shared_directory import SharedDirectory
from nvccache.store import store
from nvccache.store.store import Store

CONTENTS = (b"an object", b"another one", os.urandom(80_000))


@pytest.fixture
def far(tmp_path, own_pool, monkeypatch):
    """A directory that is written to as a remote."""
    (tmp_path / "far").mkdir()
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw")
    return tmp_path / "far"


@pytest.fixture
def identity(far):
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    return remote.identity


@pytest.fixture
def queued(cache_dir, identity):
    """Three objects in the cache and in the queue."""
    cache = Store(cache_dir)
    for content in CONTENTS:
        cache.add_blob(keys.digest_bytes(content), content, compress=False)
    items = [(store.BLOB, keys.digest_bytes(content)) for content in CONTENTS]
    assert uploads.enqueue(cache.directory, [identity], items)
    return cache


def printed(result):
    return json.loads(result.stdout)["remotes"][0]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def fail(word, *names):
    def raised(*_):
        raise ServiceError(word)

    return lambda patch: [patch.setattr(SharedDirectory, name, raised) for name in names]


@pytest.mark.parametrize("command", ["status", "push"])
def test_without_a_remote_each_command_says_how_to_set_one(nvccache, command):
    result = nvccache("remote", command)
    assert result.exit_code == 1
    assert "no remote is set" in result.stderr
    assert "NVCCACHE_REMOTE=s3://bucket/prefix`\n" in result.stderr  # only read: few users should write


def test_push_needs_a_writable_remote(nvccache, far, monkeypatch):
    assert "`readonly` is on" in nvccache("remote", "push", NVCCACHE_READONLY="1").stderr
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}")
    result = nvccache("remote", "push")
    assert (result.exit_code, "`,rw`" in result.stderr) == (1, True)


def test_wrong_setting_is_shown_without_its_value(nvccache, monkeypatch):
    monkeypatch.setenv("NVCCACHE_REMOTE", "s3://me:sesame@bucket")
    result = nvccache("remote", "status")
    assert result.exit_code == 1
    assert "sesame" not in result.output
    assert "NVCCACHE_REMOTE=" not in result.stderr  # the problem was reported, and a remote is set already


def test_status_says_how_fast_the_remote_answers_and_what_waits(nvccache, far, queued):
    result = nvccache("remote", "status", "--json")
    found = printed(result)
    assert result.exit_code == 0
    assert (found["url"], found["is_writable"], found["fault"]) == (f"file://{far}", True, "")
    assert (found["seconds"] >= 0, found["pending"], found["outage"]) == (True, 3, None)
    text = nvccache("remote", "status").stdout
    assert text.startswith("ok ") and "read and written" in text and "answers in" in text
    assert "3 objects still to be sent, as by `nvccache remote push`" in text


def test_status_shows_an_outage_and_a_fault(nvccache, identity, monkeypatch):
    outages.begin(identity, "timeout", "no answer in time")
    fail("bad_credentials", "get")(monkeypatch)
    result = nvccache("remote", "status")
    assert result.exit_code == 1
    assert "skipped by compiles until" in result.stdout
    assert "no answer in time" in result.stdout
    assert "it rejects the credentials" in result.stdout
    found = printed(nvccache("remote", "status", "--json"))
    assert (found["outage"]["word"], found["fault"]) == ("timeout", "bad_credentials")


@pytest.mark.parametrize(
    ("rights", "failing", "is_left"),
    [
        ("", "", [False, True]),
        (",rw", "", [False, False]),
        (",rw", "get", [True, True]),
        (",rw", "put", [False, True]),
    ],
)
def test_status_ends_the_outages_of_what_works(
    nvccache, far, identity, monkeypatch, rights, failing, is_left
):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}{rights}")
    names = [identity, outages.OF_WRITING.format(identity)]
    for name in names:
        outages.begin(name, "unreachable", "no connection")
    if failing:
        fail("denied", failing)(monkeypatch)
    result = nvccache("remote", "status")
    assert result.exit_code == bool(failing)
    assert [bool(outages.current(name)) for name in names] == is_left
    assert ("not written to by compiles" in result.stdout) == (is_left[1] and bool(rights))


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        ("s3://bucket", "AWS_ACCESS_KEY_ID"),
        ("redis://host", "REDISCLI_AUTH"),
        ("rediss://host", "REDISCLI_AUTH"),
        ("https://host", "in the URL"),
        ("http://host", "in the URL"),
        ("gs://bucket", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("azblob://container", "AZURE_STORAGE_SAS_TOKEN"),
    ],
)
def test_advice_on_credentials_fits_the_service(shown, word):
    assert word in remotes.advice("bad_credentials", shown, "it rejects the credentials")
    assert all(word not in remotes.advice(other, shown, "") for other in ("timeout", "denied", "broken"))


def test_end_of_a_message_decides_on_the_advice():
    no_rights = service.error_of("NOPERM this user")
    assert "the keys of the prefix" in remotes.advice(no_rights.word, "redis://host", no_rights.text)
    no_bucket = service.error_of('ConfigInvalid (permanent) at read => S3Error { code: "NoSuchBucket"')
    assert "check the bucket" in remotes.advice(no_bucket.word, "s3://bucket", no_bucket.text)


@pytest.mark.parametrize("rights", ["", ",rw"])
def test_missing_directory_is_a_fault_and_not_made(nvccache, far, monkeypatch, rights):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}/mounted{rights}")
    result = nvccache("remote", "status")
    assert (result.exit_code, "the directory cannot be used" in result.stdout) == (1, True)
    assert "mount its file system" in result.stdout
    assert list(far.iterdir()) == []


@pytest.mark.parametrize("path", ["/proc/self/fdinfo", "/proc/version"])
def test_faults_of_a_directory_mention_no_server(nvccache, far, monkeypatch, path):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{path},rw")
    result = nvccache("remote", "status")
    assert result.exit_code == 1
    assert "to fix it: " in result.stdout
    assert not re.search("connection|server", result.stdout)


@pytest.mark.parametrize("word", ["timeout", "broken", "unusable_directory"])
def test_advice_on_a_directory_mentions_no_server(word):
    assert "server" not in remotes.advice(word, "file:///mnt", "")


def test_status_tries_to_write_if_compiles_do(nvccache, far, monkeypatch):
    assert nvccache("remote", "status").exit_code == 0
    assert len(files(far)) == 1
    fail("denied", "put")(monkeypatch)
    result = nvccache("remote", "status")
    assert result.exit_code == 1
    assert result.stdout.startswith("bad ") and "answers in" in result.stdout
    assert "cannot be written to: it denies access" in result.stdout and "to fix it:" in result.stdout
    assert printed(nvccache("remote", "status", "--json"))["write_fault"] == "denied"
    assert nvccache("remote", "status", NVCCACHE_READONLY="1").exit_code == 0
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}")
    assert nvccache("remote", "status").stdout.startswith("ok ")


def test_object_that_returns_changed_is_a_fault(nvccache, far, monkeypatch):
    monkeypatch.setattr(SharedDirectory, "get", lambda *_: b"something else")
    assert "it does not return what was written" in nvccache("remote", "status").stdout


def test_status_does_not_wait_as_long_as_an_upload(nvccache, far, monkeypatch):
    waited = []

    def asked(remote, environ, seconds):
        waited.append(seconds)
        raise ServiceError("timeout")

    monkeypatch.setattr("nvccache.cli.remotes.connect", asked)
    assert nvccache("remote", "status").exit_code == 1
    assert waited == [5]


def test_push_sends_what_is_queued_and_waits(nvccache, far, queued):
    result = nvccache("remote", "push", "--json")
    assert (result.exit_code, printed(result)["objects"], printed(result)["left"]) == (0, 3, 0)
    assert len(files(far)) == 3
    nothing = "no objects wait to be sent: compiles send theirs in the background"
    assert nvccache("remote", "push").stdout == f"`file://{far}`: {nothing}\n"


def test_failed_push_keeps_the_queue(nvccache, far, queued, monkeypatch):
    with monkeypatch.context() as patch:
        fail("full", "put")(patch)
        result = nvccache("remote", "push")
        assert result.exit_code == 1
        assert "it is full" in result.stdout and "make room there" in result.stdout
        assert "; 3 left" in result.stdout
    assert nvccache("remote", "push").exit_code == 0
    assert len(files(far)) == 3


def test_push_ignores_outages(nvccache, identity, queued):
    """A user who runs it wants a result now."""
    outages.begin(outages.OF_WRITING.format(identity), "timeout", "no answer in time")
    assert nvccache("remote", "push").exit_code == 0
    assert outages.current(outages.OF_WRITING.format(identity)) is None

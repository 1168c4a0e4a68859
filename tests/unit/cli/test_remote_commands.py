"""`nvccache remote`: what `status` tries and what `push` sends. For what they print see golden/."""

from __future__ import annotations

import json
import os

import pytest

from nvccache import remote_url
from nvccache.cli.install import install_command
from nvccache.files import keys
from nvccache.remote import outages, uploads
from nvccache.remote.backend import BackendError
from nvccache.remote.shared_directory import SharedDirectory
from nvccache.store import store
from nvccache.store.store import Store


@pytest.fixture
def far(tmp_path, own_pool, monkeypatch):
    """A directory that is written to as a remote."""
    (tmp_path / "far").mkdir()
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw")
    return tmp_path / "far"


@pytest.fixture
def identity(far):
    return remote_url.parse(os.environ["NVCCACHE_REMOTE"])[0].identity


@pytest.fixture
def queued(cache_dir, identity):
    """Two objects in the cache and in the queue."""
    cache = Store(cache_dir)
    contents = (b"an object", os.urandom(80_000))
    for content in contents:
        cache.add_blob(keys.digest_bytes(content), content, compress=False)
    items = [(store.BLOB, keys.digest_bytes(content)) for content in contents]
    assert uploads.enqueue(cache.directory, [identity], items)


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def fail(patch, word, name):
    def raised(*_):
        raise BackendError(word)

    patch.setattr(SharedDirectory, name, raised)


@pytest.mark.parametrize(
    ("rights", "failing", "is_left", "states"),
    [
        ("", "", [False, True], ["ok"]),
        (",rw", "", [False, False], ["ok"]),
        (",rw", "get", [True, True], ["bad", "note", "note"]),
        (",rw", "put", [False, True], ["ok", "bad", "note"]),
    ],
)
def test_remote_status_tries_reads_and_writes_and_ends_outages(
    nvccache, far, identity, monkeypatch, rights, failing, is_left, states
):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}{rights}")
    names = [identity, outages.OF_WRITING.format(identity)]
    for name in names:
        outages.begin(name, "unreachable", "there is no connection to the remote")
    if failing:
        fail(monkeypatch, "denied", failing)
    result = nvccache("remote", "status", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["is_bad"]) == (bool(failing), bool(failing))
    assert [finding["state"] for finding in found["findings"]] == states
    assert {finding["topic"] for finding in found["findings"]} == {"remote"}
    assert [bool(outages.current(name)) for name in names] == is_left
    text = nvccache("remote", "status").stdout
    assert ("compiles skip it until" in text) == is_left[0]
    assert ("compiles do not write to it until" in text) == (is_left[1] and bool(rights))
    assert ("to fix it: give this user access to the bucket" in text) == bool(failing)


def test_remote_status_writes_one_object_and_reads_it_back_but_not_in_readonly_mode(
    nvccache, far, monkeypatch
):
    assert nvccache("remote", "status", NVCCACHE_READONLY="1").exit_code == 0
    assert files(far) == []
    assert nvccache("remote", "status").exit_code == 0
    assert len(files(far)) == 1
    monkeypatch.setattr(SharedDirectory, "get", lambda *_: b"something else")
    assert "what was read is not what was written" in nvccache("remote", "status").stdout


@pytest.mark.parametrize("command", [["remote", "status"], ["doctor"]])
def test_remote_status_and_doctor_wait_at_most_five_seconds_for_a_remote(nvccache, far, monkeypatch, command):
    waited = []

    def connect(remote, environ, seconds):
        waited.append(seconds)
        raise BackendError("timeout")

    monkeypatch.setattr("nvccache.cli.remotes.connect", connect)
    monkeypatch.setattr("nvccache.cli.doctor.discovery.find_nvcc", lambda *_: None)
    assert nvccache(*command).exit_code == 1
    assert waited == [5]


def test_push_uploads_the_queue_and_keeps_it_after_a_fault(nvccache, far, identity, queued, monkeypatch):
    with monkeypatch.context() as patch:
        fail(patch, "full", "put")
        result = nvccache("remote", "push")
        assert result.exit_code == 1 and "sent 0 objects, 0 bytes; 2 left" in result.stdout
    # It ignores the outage that this began: who runs it wants a result now.
    assert "sent 2 objects" in nvccache("remote", "push").stdout
    assert "nothing is left to send" in "".join(nvccache.lines("remote", "push"))
    assert len(files(far)) == 2 and outages.current(outages.OF_WRITING.format(identity)) is None
    outages.begin(outages.OF_WRITING.format(identity), "full", "it is full")
    nvccache.lines("remote", "push")  # which tries nothing
    assert outages.current(outages.OF_WRITING.format(identity))
    fail(monkeypatch, "not_installed", "get")
    assert f"to fix it: `{install_command('remote')}`" in nvccache("remote", "status").stdout

"""`doctor`'s findings about remotes."""

from __future__ import annotations

import os

import pytest

from nvccache import config, remote_url
from nvccache.cli import remote_checks
from nvccache.cli.install import adding
from nvccache.cli.output import BAD, GOOD, ODD
from nvccache.remote import outages, uploads
from nvccache.remote.service import ServiceError
from nvccache.remote.shared_directory import SharedDirectory
from nvccache.store.directory import Directory


@pytest.fixture
def far(tmp_path, own_pool, monkeypatch, cache_dir):
    (tmp_path / "far").mkdir()
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw")
    return remote_url.parse(os.environ["NVCCACHE_REMOTE"])[0]


def found():
    return list(remote_checks.of_remotes(config.load(os.environ)))


def test_without_remotes_there_is_no_finding(cache_dir):
    assert found() == []


def test_no_password_is_shown(far, monkeypatch):
    monkeypatch.setenv("NVCCACHE_REMOTE", "redis://me:SECRET@localhost:1,rw")
    (finding,) = found()
    assert finding.state == BAD
    assert "redis://***@localhost:1" in finding.text
    assert "SECRET" not in str(finding)


def test_a_remote_that_answers_is_good(far):
    (finding,) = found()
    assert finding.state == GOOD
    assert "read and written" in finding.text


@pytest.mark.parametrize("word", ["unreachable", "timeout", "bad_credentials", "tls", "throttled", "broken"])
def test_one_that_cannot_be_used_is_bad_and_has_advice(far, monkeypatch, word):
    def raised(*_):
        raise ServiceError(word)

    monkeypatch.setattr(SharedDirectory, "get", raised)
    (finding,) = found()
    assert finding.state == BAD
    assert str(ServiceError(word)) in finding.text
    assert finding.details[0].startswith("to fix it: ")


def test_a_missing_client_is_fixed_by_a_command(far, monkeypatch):
    def raised(*_):
        raise ServiceError("not_installed")

    monkeypatch.setattr(SharedDirectory, "get", raised)
    assert found()[0].mend == (adding("remote"),)


def test_a_server_that_hangs_is_not_waited_for_as_long_as_an_upload(far, monkeypatch):
    waited = []

    def asked(remote, environ, seconds):
        waited.append(seconds)
        raise ServiceError("timeout")

    monkeypatch.setattr("nvccache.cli.remotes.connect", asked)
    assert found()[0].state == BAD
    assert waited == [5]


@pytest.mark.parametrize("for_writing", [False, True])
def test_an_outage_ends_if_the_remote_works(far, for_writing):
    name = outages.OF_WRITING.format(far.identity) if for_writing else far.identity
    outages.begin(name, "timeout", "no answer in time")
    (finding,) = found()
    assert finding.state == GOOD
    assert outages.current(name) is None


def test_one_that_cannot_be_written_to_is_bad_before_an_upload_fails(far, monkeypatch):
    def raised(*_):
        raise ServiceError("denied", "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(SharedDirectory, "put", raised)
        reading, finding = found()
        assert (finding.state, finding.topic) == (BAD, "uploads")
        assert "written" not in reading.text
        assert "cannot be written to: it denies access (Permission denied)" in finding.text
        assert "write access" in finding.details[0]
        monkeypatch.setenv("NVCCACHE_READONLY", "1")
        assert len(found()) == 1


def test_pending_uploads_are_shown(far, cache_dir, monkeypatch):
    uploads.enqueue(Directory(cache_dir), [far.identity], [("blob-v1", "a" * 64)])
    finding = found()[1]
    assert (finding.state, finding.mend) == (ODD, ("nvccache remote push",))
    with monkeypatch.context() as patch:
        patch.setenv("NVCCACHE_REMOTE", f"{far}/missing,rw")
        assert [each.state for each in found()] == [BAD]  # it could not be pushed either
    monkeypatch.setenv("NVCCACHE_READONLY", "1")
    assert len(found()) == 1

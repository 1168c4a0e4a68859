"""A URL of a remote is shown without its password, by every command that shows settings."""

from __future__ import annotations

import json
import os

import pytest

from nvccache import config
from nvccache.cli import remote_checks
from nvccache.cli.finding import BAD, GOOD, ODD
from nvccache.remote import service, url
from nvccache.remote.breaker import Breaker

URL = "https://user:SECRET@host/cache,rw"
SHOWN = "https://***@host/cache,rw"


@pytest.mark.parametrize("words", [["config"], ["config", "--json"], ["--version", "--verbose"]])
def test_password_is_not_shown(nvccache, words):
    result = nvccache(*words, NVCCACHE_REMOTE=URL)
    assert SHOWN in result.output
    assert "SECRET" not in result.output


@pytest.mark.parametrize("words", [["config"], ["config", "--json"], ["--version", "--verbose"]])
def test_password_of_a_wrong_url_is_not_shown(nvccache, words):
    result = nvccache(*words, NVCCACHE_REMOTE=URL + ",SECRET")
    assert "comma" in result.output
    assert "SECRET" not in result.output


@pytest.mark.parametrize("json_words", [[], ["--json"]])
def test_set(nvccache, json_words):
    result = nvccache("config", "set", "remote", URL, *json_words)
    assert SHOWN in result.output
    assert "SECRET" not in result.output
    assert config.load(os.environ).remote == URL


def test_wrong_url_is_not_set(nvccache):
    result = nvccache("config", "set", "remote", "ftp://user:SECRET@host")
    assert result.exit_code == 1
    assert "unknown scheme `ftp`" in result.output
    assert "SECRET" not in result.output
    assert config.load(os.environ).remote == ""


def test_timeout_is_shown_with_its_unit(nvccache):
    assert "2 s" in nvccache("config").output
    assert json.loads(nvccache("config", "--json").stdout)["settings"]["remote_timeout"]["value"] == 2.0


def found(text):
    settings = config.load({"HOME": "/nonexistent", "NVCCACHE_REMOTE": text})
    return list(remote_checks.of_remotes(settings))


@pytest.fixture
def pool(tmp_path, monkeypatch):
    monkeypatch.setattr("nvccache.machine.slots.pool_directory", lambda: str(tmp_path))


def test_doctor_has_nothing_to_say_without_remotes():
    assert found("") == []


def test_doctor_without_the_extra(monkeypatch, pool):
    monkeypatch.setattr(service, "is_installed", lambda: False)
    missing, directory = found("s3://bucket file:///mnt/x")
    assert (missing.state, missing.mend) == (BAD, ("pip install 'nvccache[remote]'",))
    assert directory.state == GOOD


@pytest.mark.parametrize(
    ("word", "for_writing", "state"),
    [("timeout", False, ODD), ("bad_credentials", False, BAD), ("full", True, ODD)],
)
def test_doctor_knows_outages(monkeypatch, pool, word, for_writing, state):
    monkeypatch.setattr(service, "is_installed", lambda: True)
    assert [finding.state for finding in found(URL)] == [GOOD]
    Breaker(url.parse(URL)[0].identity, for_writing=for_writing).trip(word, "why it is")
    (finding,) = found(URL)
    assert finding.state == state
    assert "why it is" in finding.text
    assert "SECRET" not in finding.text

"""A URL of a remote is shown without its password, by every command that shows settings."""

from __future__ import annotations

import os

import pytest

from nvccache import config

URL = "https://user:SECRET@host/cache,rw"
SHOWN = "https://***@host/cache,rw"


@pytest.mark.parametrize(("more", "shown"), [("", SHOWN), (",SECRET", "comma")], ids=["right", "wrong"])
@pytest.mark.parametrize("words", [["config"], ["config", "--json"], ["--version", "--verbose"]])
def test_password_is_not_shown(nvccache, words, more, shown):
    result = nvccache(*words, NVCCACHE_REMOTE=URL + more)
    assert shown in result.output
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
    assert nvccache("config", "set", "executor_min_seconds", "0").exit_code == 0
    (line,) = [line for line in nvccache("config").output.splitlines() if "min_seconds" in line]
    assert line.split()[1:3] == ["0", "s"]
    assert nvccache.json("config")["settings"]["remote_timeout"]["value"] == 2.0

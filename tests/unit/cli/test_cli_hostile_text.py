"""Hostile names, values and records through every command: no control sequence for a terminal is printed.

An attacker may choose a file name, a record, a field of the event log or a variable. It never adds a line to
a command's output, so no line can be forged.
"""

from __future__ import annotations

import os

import pytest

from made_events import event
from nvccache import config, outcomes, remote_url
from nvccache.cli.names import COMMANDS
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.remote import outages
from nvccache.store import event_line
from nvccache.store.event_line import RemoteUse
from nvccache.store.store import Store

HOSTILE = "x\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202eba\u2066\rok\n\x85ok    nvcc\tforged\udc9b\u2028"
COMMAND_LINES = {
    "stats": [
        ["stats"],
        ["stats", "--json"],
        *([["stats", "--by", by] for by in ("source", "reason", "architecture", HOSTILE)]),
        ["stats", "--since", HOSTILE],
    ],
    "events": [["events"], ["events", "--json"]],
    "explain": [
        ["explain"],
        ["explain", HOSTILE],
        ["explain", HOSTILE, "--json"],
    ],
    "config": [
        ["config"],
        ["config", "--json"],
        ["config", HOSTILE, "1"],
        ["config", HOSTILE],
        ["config", "max_size", HOSTILE],
    ],
    "clean": [
        ["clean"],
        ["clean", "--max-size", HOSTILE],
        ["clean", "--older-than", HOSTILE],
        ["clean", HOSTILE],
        ["clean", "--matching", HOSTILE],
    ],
    "install": [["install", "--" + HOSTILE]],
    "doctor": [["doctor"], ["doctor", HOSTILE]],
    "remote": [
        ["remote", HOSTILE],
        ["remote", "status"],
        ["remote", "status", "--json"],
        ["remote", "push"],
    ],
    "report": [["report", "-o", "-"], ["report", "-o", "/"], ["report", "--trace", f"/{HOSTILE}/x"]],
}


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n")) and "\nok    nvcc forged" not in text


@pytest.fixture
def hostile_cache(cache_dir, tmp_path, monkeypatch):
    """A cache, a settings file and an environment that an attacker has filled."""
    root = f"{cache_dir}{HOSTILE}"
    monkeypatch.setenv("NVCCACHE_DIR", root)
    cache = Store(root)
    product = os.path.abspath(HOSTILE)
    record = ObjectRecord(HOSTILE, HOSTILE, reason_against_record=HOSTILE)
    record.details, record.stage_reasons = [HOSTILE], [(HOSTILE, HOSTILE)]
    object_record.add([product], record, cache)
    word = HOSTILE.replace("\n", "").replace("\t", "")
    for outcome in (outcomes.MISS, outcomes.BYPASS, word):
        call = event(outcome, word, [(word, True, 1.0)])
        call.product, call.store_fault, call.wrong_settings = product, word, word
        call.directory, call.sources, call.cause = product, [product], HOSTILE
        call.stages[0].architecture, call.stages[0].why = word, HOSTILE
        call.remote = RemoteUse(1, 1, 1, 1.0, (word.replace(",", ""),))
        event_line.append(root, call)
    for variable in ("NVCCACHE_MAX_SIZE", "NVCCACHE_JOBS", "NVCCACHE_STRICT", f"NVCCACHE_{HOSTILE}"):
        monkeypatch.setenv(variable, HOSTILE)
    monkeypatch.setenv("NVCCACHE_NVCC", f"/{HOSTILE}")
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw")
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    monkeypatch.setattr(outages.slots, "pool_directory", lambda: str(tmp_path))
    for name in (remote.identity, outages.OF_WRITING.format(remote.identity)):
        outages.begin(name, word, word)
    path = config.config_file(os.environ)
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(
            '"'
            + HOSTILE.encode("unicode_escape", "ignore").decode("ascii").replace("\\x", "\\u00")
            + '" = 1\n'
        )
    return root


def test_the_text_is_hostile():
    assert not is_harmless(HOSTILE) and set(COMMAND_LINES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_a_terminal_obeys_is_printed(nvccache, hostile_cache, name):
    for argv in COMMAND_LINES[name]:
        result = nvccache(*argv)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert is_harmless(result.stdout), argv
        assert is_harmless(result.stderr), argv
        assert result.stdout.isascii() or "--json" not in argv
        assert "title" in result.output or name in ("config", "doctor")


def test_a_command_that_is_none_is_named_harmlessly(nvccache, hostile_cache):
    for argv in ([HOSTILE], ["--" + HOSTILE], ["stats", "--" + HOSTILE]):
        result = nvccache(*argv)
        assert result.exit_code == 2
        assert is_harmless(result.output)


def test_a_cache_that_cannot_be_used_is_named_harmlessly(nvccache, hostile_cache, tmp_path, monkeypatch):
    in_the_way = tmp_path / HOSTILE
    in_the_way.write_text("")
    for name in ("stats", "explain", "clean", "doctor"):
        result = nvccache(name, NVCCACHE_DIR=str(in_the_way))
        assert result.exit_code == 1
        assert is_harmless(result.output)
        assert "title" in result.output

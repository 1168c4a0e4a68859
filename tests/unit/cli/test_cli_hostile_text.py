"""Hostile names, values and records through every command: no control sequence for a terminal is printed.

An attacker may choose a file name, a record, a field of the event log or a variable. It never adds a line to
a command's output, so no line can be forged.
"""

from __future__ import annotations

import os

import pytest

from nvccache import config, outcomes, remote_url
from nvccache.cli.names import COMMANDS
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.remote import outages
from nvccache.store import event_line
from nvccache.store.event_line import RemoteUse
from nvccache.store.store import Store
from sample_events import event

HOSTILE = "x\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202eba\u2066\rok\n\x85ok    nvcc\tforged\udc9b\u2028"
# What is typed after each command; X stands for the hostile text.
ARGUMENTS = {
    "stats": ["", "--json", "--by source", "--by reason", "--by architecture", "--by X", "--since X", "--X"],
    "events": ["", "--json"],
    "explain": ["", "X", "X --json"],
    "config": ["", "--json", "X 1", "X", "max_size X"],
    "clean": ["", "--max-size X", "--older-than X", "X", "--matching X"],
    "install": ["--X"],
    "doctor": ["", "X"],
    "remote": ["X", "status", "status --json", "push"],
    "report": ["-o -", "-o /", "--trace /X/x"],
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
    escaped = HOSTILE.encode("unicode_escape", "ignore").decode("ascii").replace("\\x", "\\u00")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f'"{escaped}" = 1\n')
    return root


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_a_terminal_obeys_is_printed(nvccache, hostile_cache, name):
    assert not is_harmless(HOSTILE)
    for typed in ARGUMENTS[name]:
        result = nvccache(name, *(word.replace("X", HOSTILE) for word in typed.split()))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert is_harmless(result.stdout) and is_harmless(result.stderr), typed
        assert result.stdout.isascii() or "--json" not in typed
        assert "title" in result.output or name in ("config", "doctor")


def test_names_that_are_no_command_and_no_cache_are_printed_harmlessly(nvccache, hostile_cache, tmp_path):
    for argv in ([HOSTILE], ["--" + HOSTILE]):
        result = nvccache(*argv)
        assert result.exit_code == 2 and is_harmless(result.output)
    in_the_way = tmp_path / HOSTILE
    in_the_way.write_text("")
    for name in ("stats", "clean", "doctor"):
        result = nvccache(name, NVCCACHE_DIR=str(in_the_way))
        assert result.exit_code == 1
        assert is_harmless(result.output) and "title" in result.output

"""Hostile names, values and records through every command: no control sequence for a terminal is printed.

An attacker may choose a file name, a record, a field of the event log or a variable. It never adds a line to
a command's output, so no line can be forged.
"""

from __future__ import annotations

import os

from nvccache import outcomes, remote_url
from nvccache.remote import outages
from nvccache.store import event_line
from nvccache.store.event_line import RemoteUse
from sample_events import event

HOSTILE = "x\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202eba\u2066\rok\n\x85ok    nvcc\tforged\udc9b\u2028"
# What is typed; X stands for the hostile text.
LINES = """
    X;--X;stats;stats --json;stats --by source;stats --by reason;stats --by architecture;stats --since X
    events;events --json;explain;explain X;explain X --json;config;config --json;config X 1;config max_size X
    clean;clean --max-size X;clean --matching X;doctor X;remote X;remote status;remote status --json
    report -o /
"""


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n")) and "\nok    nvcc forged" not in text


def test_commands_print_no_control_characters_from_names_or_settings(
    nvccache, cache_dir, tmp_path, monkeypatch, own_pool
):
    assert not is_harmless(HOSTILE)
    root = f"{cache_dir}{HOSTILE}"
    product, word = os.path.abspath(HOSTILE), HOSTILE.replace("\n", "").replace("\t", "")
    for outcome in (outcomes.MISS, outcomes.BYPASS, word):
        call = event(outcome, word, [(word, True, 1.0)], product=product, store_fault=word)
        call.directory, call.sources, call.cause = product, [product], HOSTILE
        call.stages[0].architecture, call.details = word, [HOSTILE]
        call.remote = RemoteUse(1, 1, 1, 1.0, (word.replace(",", ""),))
        event_line.append(root, call)
    for variable in ("MAX_SIZE", "JOBS", "STRICT", HOSTILE):
        monkeypatch.setenv(f"NVCCACHE_{variable}", HOSTILE)
    monkeypatch.setenv("NVCCACHE_NVCC", f"/{HOSTILE}")
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw")
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    outages.begin(remote.identity, word, word)
    for line in LINES.replace("\n", ";").split(";"):
        for folder in (root, f"{root}/CACHEDIR.TAG"):
            argv = [typed.replace("X", HOSTILE) for typed in line.split()]
            result = nvccache(*argv, NVCCACHE_DIR=folder)
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            assert is_harmless(result.stdout) and is_harmless(result.stderr), line
            assert result.stdout.isascii() or "--json" not in line
            assert "title" in result.output or "config" in line or not argv

"""The event log and its totals under many processes, some of which are killed."""

from __future__ import annotations

import os
import subprocess
import sys

from nvccache.store import event_line, event_totals, events

WRITER = """
import os, sys
from nvccache.store import event_line, event_totals
cache, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    call = event_line.Event("miss", started=1000.0 + number)
    call.product, call.sources = f"/{name}/{number}.o", ["a.cu"] * 8
    call.stages = [event_line.StageEvent("cicc", event_line.RAN, 1.0, "compute_80")]
    is_large = event_line.append(cache, call)
    os.write(1, b".")  # so many are certain to be there
    if is_large:
        event_totals.fold(cache)
"""


def test_every_call_is_counted_once_even_if_some_calls_are_killed(tmp_path, monkeypatch):
    """Some fold a log that is large, and one folds as fast as it can."""
    processes, each = 8, 50
    cache = str(tmp_path / "cache")
    # The log is renamed once: what is written to one that was added to the totals is lost.
    large = 100 * processes * each
    monkeypatch.setattr(event_line, "LARGE", large)
    program = f"from nvccache.store import event_line; event_line.LARGE = {large}\n{WRITER}"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, cache, str(number), str(each)], stdout=subprocess.PIPE
        )
        for number in range(processes)
    ]
    for child in children[:2]:
        assert child.stdout
        os.read(child.stdout.fileno(), 1)  # it is under way
        child.kill()
    while any(child.poll() is None for child in children):
        event_totals.fold(cache)
        assert event_totals.read(cache)["calls"]["miss"] <= processes * each
    assert [child.wait() for child in children[2:]] == [0] * (processes - 2)
    for child in children:
        child.communicate()
    found = [event.product for event in events.read(cache)]
    assert len(set(found)) == len(found)
    totals = event_totals.read(cache, ["cicc"])
    assert totals["calls"]["miss"] == totals["stages"]["cicc"]["miss"] == len(found)
    for number in range(processes):
        written = [product for product in found if product.startswith(f"/{number}/")]
        assert written == [f"/{number}/{index}.o" for index in range(len(written))]
        assert number < 2 or len(written) == each

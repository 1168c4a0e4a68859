"""The event log and its totals under many processes, some of which are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

from nvccache.store import directory, event_line, event_totals, events

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


def test_every_call_is_counted_once_whichever_is_killed(tmp_path, monkeypatch):
    """A killed process may have written its line without reporting it.

    Some fold a log that is large, and one folds as fast as it can.
    """
    processes, calls = 8, 400
    cache = str(tmp_path / "cache")
    each = calls // processes
    # The log is renamed once: what is written to one that was added to the totals is lost.
    large = 100 * calls
    monkeypatch.setattr(event_line, "LARGE", large)
    program = f"from nvccache.store import event_line; event_line.LARGE = {large}\n{WRITER}"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, cache, str(number), str(each)], stdout=subprocess.PIPE
        )
        for number in range(processes)
    ]
    victims = random.Random(processes).sample(children, processes // 4)
    for child in victims:
        assert child.stdout
        os.read(child.stdout.fileno(), 1)  # it is under way
        child.send_signal(signal.SIGKILL)
        event_totals.fold(cache)
    while any(child.poll() is None for child in children):
        event_totals.fold(cache)
        assert event_totals.read(cache)["calls"]["miss"] <= calls
    acknowledged = {number: len(child.communicate()[0]) for number, child in enumerate(children)}
    for number, child in enumerate(children):
        acknowledged[number] += child in victims  # what was read above
        assert (
            child.returncode == (-signal.SIGKILL if child in victims else 0) or acknowledged[number] == each
        )
    found = [event.product for event in events.read(cache)]
    assert len(set(found)) == len(found)
    assert len(events.logs(directory.at(cache))) == 2
    totals = event_totals.read(cache, ["cicc"])
    assert totals["calls"]["miss"] == totals["stages"]["cicc"]["miss"] == len(found)
    assert totals["stages"]["cicc"]["seconds"] == len(found)
    for number, child in enumerate(children):
        written = [product for product in found if product.startswith(f"/{number}/")]
        assert written == [f"/{number}/{index}.o" for index in range(len(written))]
        assert acknowledged[number] <= len(written) <= acknowledged[number] + (child in victims)

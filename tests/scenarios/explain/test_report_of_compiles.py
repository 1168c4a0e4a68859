"""`nvccache report` of compiles that took place."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.light_by_default


def test_compiles_are_in_the_page_and_the_trace(workspace):
    workspace.write("a.cu", "__global__ void kernel(int *p) { *p = 1; }\n")
    line = ("-c", "a.cu", "-o")
    for product in ("a.o", "b.o"):
        assert workspace.cached(*line, product).status == 0
    ours = (sys.executable, "-m", "nvccache", "report")
    written = workspace.run([*ours, "-o", "build.html", "--trace", "trace.json"])
    assert (written.status, written.stderr) == (0, b"")
    assert b"1 of 2 compiles was a hit; " in written.stdout
    page = (workspace.directory / "build.html").read_text()
    assert "2 calls" in page
    events = json.loads((workspace.directory / "trace.json").read_text())["traceEvents"]
    categories = [event["cat"] for event in events if event["ph"] == "X"]
    assert [each for each in categories if each.startswith("call")] == ["call,miss", "call,direct_hit"]
    ran = {event["name"].split()[0] for event in events if event.get("cat") == "stage,ran"}
    assert {"cudafe", "cicc", "ptxas", "host_compile"} <= ran

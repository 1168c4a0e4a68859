"""`nvccache report` of compiles that took place."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.light_by_default


def test_compiles_are_in_the_page_the_trace_and_the_figures(workspace):
    workspace.write("a.cu", "__global__ void kernel(int *p) { *p = 1; }\n")
    line = ("-c", "a.cu", "-o", "a.o")
    for _ in range(2):
        assert workspace.cached(*line).status == 0
    assert workspace.cached("--version").status == 0
    ours = (sys.executable, "-m", "nvccache", "report", "--since", "all")
    written = workspace.run([*ours, "-o", "build.html", "--trace", "trace.json"])
    assert (written.status, written.stderr) == (0, b"")
    report = json.loads(workspace.run([*ours, "--json"]).stdout)
    counts = {outcome: count for outcome, count in report["by_outcome"].items() if count}
    assert counts == {"miss": 1, "direct_hit": 1, "query_miss": 1}
    assert report["hit_rate"] == 0.5
    assert {"cudafe", "cicc", "ptxas", "host_compile"} <= {tally["name"] for tally in report["stages"]}
    assert report["reasons"] == []
    page = (workspace.directory / "build.html").read_text()
    assert "3 calls in" in page and str(workspace.directory) in page
    trace = json.loads((workspace.directory / "trace.json").read_text())
    assert sum(event["ph"] == "X" and event["cat"].startswith("call") for event in trace["traceEvents"]) == 3

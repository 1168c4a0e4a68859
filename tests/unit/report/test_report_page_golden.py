"""The report's page of a small build, without style and scripts, and its trace, as in `golden/`.

Run with NVCCACHE_TEST_REGENERATE=1 to write it again; read the difference.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import made_builds
from made_builds import bypass, call, calls_of, hit, stage
from nvccache import __version__
from nvccache.report import lanes, page

GOLDEN = Path(__file__).parent / "golden"
BUILD = [
    call(
        stage(kind="host_preprocess", seconds=0.3),
        stage(seconds=2.5),
        cause="`../src/a.h` changed",
        overhead=0.2,
    ),
    call(
        hit(seconds=3.0),
        stage(kind="ptxas", result="failed", slot=2),
        outcome="failed",
        started=made_builds.BEGUN + 1,
    ),
    call(
        hit(), outcome="direct_hit", tool_saved=2.0, sources=["b.cu", "c<d.cu"], started=made_builds.BEGUN + 2
    ),
    call(
        made_builds.away(), made_builds.away(was_cached=True), stage(kind="tomorrows"), cause="`x.h` changed"
    ),
    *[call(stage(seconds=0.01), cause=f"`{n}.h` changed", product=f"/b/{n}.o") for n in range(17)],
    bypass(sources=[], product=""),
    call(outcome="tomorrows"),
]


def test_the_report_page_of_a_build_matches_the_golden_file(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    printed = page.render(calls_of(BUILD), calls_of([call(seconds=7.0)]), made_builds.BEGUN + 3600)
    printed = re.sub(
        r"(?s)<style>.*?</style>|<script>.*?</script>|sha256-[^']*|(?<=sentences.:){[^}]*", "", printed
    )
    printed = re.sub(r"(?=<(?:tr|div|li|section|script)\b)|(?<=\],)", "\n", printed)
    compare(printed, GOLDEN / "page.html")


def test_the_trace_of_a_build_matches_the_golden_file():
    build = calls_of([*BUILD[:4], bypass(sources=[]), call(stage(away="no_workers"))])
    traced = json.dumps(lanes.trace_of(build))
    compare(traced.replace("}, {", "},\n{"), GOLDEN / "trace.json")


def compare(printed, path):
    printed = printed.replace(__version__, "VERSION")
    if os.environ.get("NVCCACHE_TEST_REGENERATE"):
        path.write_text(printed)
    assert printed == path.read_text()

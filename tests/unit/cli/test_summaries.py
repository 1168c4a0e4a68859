"""The page that makes summaries of `nvccache stats --json` by jq: its commands work."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

import doc_pages
from made_events import event
from nvccache import outcomes
from nvccache.store import event_line

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
def test_summaries_are_made_of_the_counts(cache_dir, tmp_path):
    for outcome in (outcomes.MISS, outcomes.DIRECT_HIT, outcomes.DIRECT_HIT):
        event_line.append(cache_dir, event(outcome, started=time.time()))
    event_line.append(cache_dir, event(outcomes.BYPASS, "library"))
    program = tmp_path / "bin" / "nvccache"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m nvccache "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    environ.pop("GITHUB_STEP_SUMMARY", None)
    doc_pages.run(PAGE.read_text(), tmp_path, environ)
    summary = (tmp_path / "summary.md").read_text().splitlines()
    assert "| direct_hit | 2 |" in summary and "| failed | 0 |" not in summary
    assert summary[-1].startswith("2 of 3 calls were hits; ")
    metrics = (tmp_path / "nvccache.prom").read_text().splitlines()
    assert 'nvccache_calls_total{outcome="direct_hit"} 2' in metrics
    assert 'nvccache_bypasses_total{reason="library"} 1' in metrics
    assert 'nvccache_stages_total{stage="ptxas",result="miss"} 0' in metrics
    assert all(re.fullmatch(r'\w+(\{(\w+="[^"\n]*",?)+\})? [-+.e\d]+', line) for line in metrics)

"""The transcripts of this directory, and the plans that must follow from them.

`transcripts/` is made by tests/golden/record_transcripts.py from real toolkits; `plans/` is written from them
with NVCCACHE_TEST_REGENERATE=1, and reviewed as a diff.
"""

from __future__ import annotations

import os
import re

import pytest
from recordings import HERE, outcome, read_transcript
from rendering import render

TRANSCRIPTS = sorted((HERE / "transcripts").glob("*/*.txt"))
# A path of a person or a machine; the host compiler's is none.
MACHINE = re.compile(r"/(?:home|root|work|tmp|opt|mnt|Users)/|/usr/local|tmpxft_")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_recorded_dry_run_gives_the_plan_stored_beside_it(path):
    rendered = render(outcome(read_transcript(path))[1])
    expected = HERE / "plans" / path.parent.name / path.name
    if "NVCCACHE_TEST_REGENERATE" in os.environ:
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(rendered)
    assert rendered == expected.read_text()
    assert "unexplained" not in rendered
    assert not MACHINE.search(path.read_text())


def test_every_recorded_toolkit_has_every_case_and_every_plan_its_dry_run():
    plans = {path.relative_to(HERE / "plans") for path in (HERE / "plans").glob("*/*.txt")}
    assert plans == {path.relative_to(HERE / "transcripts") for path in TRANSCRIPTS}
    cases: dict[str, set[str]] = {}
    for path in TRANSCRIPTS:
        cases.setdefault(path.parent.name, set()).add(path.stem)
    assert cases.keys() == {"11.8", "12.4", "13.0", "13.5"}
    assert len({frozenset(names) for names in cases.values()}) == 1

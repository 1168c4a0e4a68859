"""The transcripts of this directory, and the plans that must follow from them.

`transcripts/` is made by tests/golden/record_transcripts.py from real toolkits; `plans/` is written from them
with NVCCACHE_TEST_REGENERATE=1, and reviewed as a diff.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from recordings import SCRATCH
from rendering import render

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.plan import build
from nvccache.plan.model import Plan
from nvccache.toolkit import dryrun

HERE = Path(__file__).parent
TRANSCRIPTS = sorted((HERE / "transcripts").glob("*/*.txt"))
# A path of a person or a machine; the host compiler's is none.
MACHINE = re.compile(r"/(?:home|root|work|tmp|opt|mnt|Users)/|/usr/local|tmpxft_")


def _outcome(path: Path) -> Plan | Bypass:
    header, status, transcript = path.read_bytes().split(b"\n", 2)
    argv = json.loads(header.removeprefix(b"## argv: "))
    parsed = invocation.parse(argv, {})
    assert isinstance(parsed, Invocation)
    if status != b"## exit: 0":
        return Bypass("dryrun_failed")
    read = dryrun.read(transcript)
    return read if isinstance(read, Bypass) else build.plan_of(read, parsed, SCRATCH)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_transcript_gives_the_plan_beside_it(path):
    rendered = render(_outcome(path))
    expected = HERE / "plans" / path.parent.name / path.name
    if "NVCCACHE_TEST_REGENERATE" in os.environ:
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(rendered)
    assert rendered == expected.read_text()


def test_every_plan_has_its_transcript():
    plans = {path.relative_to(HERE / "plans") for path in (HERE / "plans").glob("*/*.txt")}
    assert plans == {path.relative_to(HERE / "transcripts") for path in TRANSCRIPTS}


def test_every_toolkit_has_every_case():
    cases: dict[str, set[str]] = {}
    for path in TRANSCRIPTS:
        cases.setdefault(path.parent.name, set()).add(path.stem)
    assert cases.keys() == {"11.8", "12.4", "13.0", "13.5"}
    assert len({frozenset(names) for names in cases.values()}) == 1


def test_no_plan_has_anything_unexplained():
    for path in TRANSCRIPTS:
        outcome = _outcome(path)
        assert not isinstance(outcome, Bypass) or outcome.reason != "unexplained", path


def test_no_transcript_names_a_place_of_the_machine_that_recorded_it():
    for path in TRANSCRIPTS:
        assert not MACHINE.search(path.read_text()), path

"""Transcripts that no known nvcc writes: what of them is a plan, and what is left to nvcc.

The transcripts of known releases are altered as in scenarios/same_result/test_unknown_releases.py, which
compiles.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.plan import build
from nvccache.plan.model import OPAQUE, Plan
from nvccache.toolkit import dryrun
from scenarios.same_result.other_nvcc import ALTERATIONS

TRANSCRIPTS = Path(__file__).parent / "golden" / "transcripts"
SCRATCH = "/scratch"
# What is no plan, and why; transcripts that are not listed here are one.
REASONS = {
    "an argument that names an intermediate": ("unexplained", "no command writes"),
    "names elsewhere": ("unexplained", "a preprocessor writes"),
    "a stage that reads what nobody reads": ("unexplained", "nothing keeps"),
    "an unknown kind of line, to a file": ("shell_expansion", "Prune"),
    "two commands in a line": ("shell_expansion", "&&"),
    "a redirection": ("shell_expansion", "2>"),
    "messages between commands": ("unexplained", "a message between commands"),
}
# How many of the commands are unknown tools; none unless listed here.
NOT_UNDERSTOOD = {
    "cudafe++ renamed": 1,
    "cicc renamed": 1,
    "ptxas renamed": 1,
    "fatbinary renamed": 1,
    "all tools renamed": 4,
    "a preprocessor of its own": 1,
    "a stage behind cicc": 1,
    "a stage behind cicc, in place": 1,
    "a stage behind ptxas, in place": 1,
    "a stage on text": 1,
    "a stage on preprocessed text, in place": 1,
    "a stage that works on the product": 1,
    "a stage that makes another product": 1,
    "a stage that talks": 1,
    "a stage that fails": 1,
    "a stage that is not there": 1,
    "a variable between commands": 1,
    "an unknown kind of line": 1,
    "a mark of progress": 1,
    "a word of the shell": 1,
    "an assignment before a command": 1,
}


def planned(lines: list[str]) -> Plan | Bypass:
    read = dryrun.read("".join(f"{line}\n" for line in lines).encode())
    if isinstance(read, Bypass):
        return read
    parsed = invocation.parse(["-c", "a.cu"], {})
    assert isinstance(parsed, Invocation)
    return build.plan_of(read, parsed, SCRATCH)


def transcript_of(release: str) -> list[str]:
    return (TRANSCRIPTS / release / "c.txt").read_text().splitlines()[2:]


@pytest.mark.parametrize("release", sorted(path.name for path in TRANSCRIPTS.iterdir()))
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_an_altered_transcript(release: str, alteration: str) -> None:
    found = planned(ALTERATIONS[alteration](transcript_of(release), SCRATCH))
    reason, detail = REASONS.get(alteration, ("", ""))
    if reason:
        assert isinstance(found, Bypass)
        assert found.reason == reason and detail in found.detail
        return
    assert isinstance(found, Plan), found
    opaque = [stage for stage in found.stages if stage.kind == OPAQUE]
    assert len(opaque) == NOT_UNDERSTOOD.get(alteration, 0)


@pytest.mark.parametrize("release", sorted(path.name for path in TRANSCRIPTS.iterdir()))
def test_further_arguments_are_in_the_keys_and_change_nothing_else(release: str) -> None:
    lines = transcript_of(release)
    found, added = planned(lines), planned(ALTERATIONS["arguments"](lines, SCRATCH))
    assert isinstance(found, Plan) and isinstance(added, Plan)
    for stage, other in zip(found.stages, added.stages, strict=True):
        assert (stage.kind, stage.inputs, stage.outputs) == (other.kind, other.inputs, other.outputs)
        assert set(other.key_argv) - set(stage.key_argv) <= {
            "--new-option=7",
            "--new-switch",
            "-DNEW_RELEASE=20",
        }
        assert stage.key_argv != other.key_argv

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
    "a stage that reads what nobody reads": ("unexplained", "which is not written"),
    "an unknown kind of line, to a file": ("shell_expansion", "Prune"),
    "two commands in a line": ("shell_expansion", "&&"),
    "a redirection": ("shell_expansion", "2>"),
    "messages between commands": ("unexplained", "a message between commands"),
}
# Of these one command is an unknown tool, of others none.
NOT_UNDERSTOOD = {
    *(f"{tool} renamed" for tool in ("cudafe++", "cicc", "ptxas", "fatbinary")),
    *("a preprocessor of its own", "a variable between commands", "an unknown kind of line"),
    *("a mark of progress", "a word of the shell", "an assignment before a command"),
    *("a stage behind cicc", "a stage behind cicc, in place", "a stage behind ptxas, in place"),
    *("a stage on text", "a stage on preprocessed text, in place", "a stage that works on the product"),
    *("a stage that makes another product", "a stage that talks", "a stage that fails"),
    "a stage that is not there",
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
def test_altered_dry_runs_are_planned_or_left_to_nvcc(release: str, alteration: str) -> None:
    found = planned(ALTERATIONS[alteration](transcript_of(release), SCRATCH))
    reason, detail = REASONS.get(alteration, ("", ""))
    if reason:
        assert isinstance(found, Bypass)
        assert found.reason == reason and detail in found.detail
        return
    assert isinstance(found, Plan), found
    opaque = [stage for stage in found.stages if stage.kind == OPAQUE]
    assert len(opaque) == (4 if alteration == "all tools renamed" else alteration in NOT_UNDERSTOOD)


@pytest.mark.parametrize("release", sorted(path.name for path in TRANSCRIPTS.iterdir()))
def test_unknown_arguments_in_a_dry_run_change_keys_and_nothing_else_of_the_plan(release: str) -> None:
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

"""Recorded dry runs, and what becomes of them: `corpus/` of six toolkits, packed, and `transcripts/` as text.

The corpus was recorded without `-keep`. When it was packed, its intermediates got the names that nvcc gives
them with `-keep -keep-dir /scratch`, as nvccache asks.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import lzma
from pathlib import Path

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.plan import build
from nvccache.plan.model import Plan
from nvccache.toolkit import dryrun

HERE = Path(__file__).parent
SCRATCH = "/scratch"
VERSIONS = tuple(sorted(path.name.removesuffix(".txt.xz") for path in HERE.glob("corpus/*.txt.xz")))


@dataclasses.dataclass(frozen=True)
class Case:
    """One recorded call of nvcc; `argv` is without the compiler."""

    argv: list[str]
    environ: dict[str, str]
    status: int
    transcript: bytes


@functools.cache
def corpus(version: str) -> dict[str, Case]:
    """The cases of a toolkit by their names. Before each transcript a line has the call, as JSON."""
    text = lzma.decompress((HERE / "corpus" / f"{version}.txt.xz").read_bytes())
    cases = {}
    for part in text.removeprefix(b"## ").removesuffix(b"\n").split(b"\n## "):
        head, _, transcript = part.partition(b"\n")
        call = json.loads(head)
        transcript += b"\n" if transcript else b""
        cases[call["case"]] = Case(call["argv"], call["environ"], call["status"], transcript)
    return cases


def read_transcript(path: Path) -> Case:
    argv, status, transcript = path.read_bytes().split(b"\n", 2)
    return Case(json.loads(argv.removeprefix(b"## argv: ")), {}, int(status[len("## exit: ") :]), transcript)


def outcome(case: Case) -> tuple[Invocation | None, Plan | Bypass]:
    """What becomes of a recorded call up to its plan, as in compile/pipeline.py."""
    parsed = invocation.parse(case.argv, case.environ)
    if isinstance(parsed, Bypass):
        return None, parsed
    if parsed.is_query:
        return None, Bypass(parsed.mode)  # it has no plan
    if case.status != 0:
        return parsed, Bypass("dryrun_failed", f"status {case.status}")
    transcript = dryrun.read(case.transcript)
    if isinstance(transcript, Bypass):
        return parsed, transcript
    return parsed, build.plan_of(transcript, parsed, SCRATCH)

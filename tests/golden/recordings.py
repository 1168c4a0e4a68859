"""Recorded dry runs, as nvccache would have seen them: the cases of the corpus, and of this directory.

The corpus was recorded without `-keep`, so its intermediates have temporary names; `kept` gives them the
names that nvccache asks for. That this is what nvcc itself writes is checked in test_corpus.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.plan import build
from nvccache.plan.model import Plan
from nvccache.toolkit import dryrun

SCRATCH = "/scratch"
_HEADER = re.compile(
    rb"## argv: (?P<argv>.*)\n## env: (?P<env>.*)\n## cwd: (?P<cwd>.*)\n## exit: (?P<exit>\d+) .*\n"
    rb"## ---- stdout \(\d+ bytes\)\n(?P<stdout>(?s:.*?))## ---- stderr \(\d+ bytes\)\n(?P<stderr>(?s:.*))"
)
_TEMPORARY = re.compile(r"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}-\d+_")
_REDIRECTION = re.compile(r" +> \S*_stdout 2>\S*_stderr$", re.MULTILINE)
_FATBINARY = re.compile(
    r'^(#\$ fatbinary )(?!.*--create=)(.*--embedded-fatbin="(.*\.fatbin)\.c".*)$', re.MULTILINE
)
_REMOVAL = re.compile(r"^#\$ rm .*\n", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Case:
    """One recorded call of nvcc; `arguments` are without the compiler and without `--dryrun`."""

    name: str
    arguments: tuple[str, ...]
    environ: dict[str, str]
    directory: str
    status: int
    stdout: bytes
    stderr: bytes


def read_case(path: Path) -> Case:
    match = _HEADER.fullmatch(path.read_bytes())
    assert match, path
    argv = json.loads(match["argv"])
    argv.remove("--dryrun")
    return Case(
        path.stem,
        tuple(argv[1:]),
        json.loads(match["env"]),
        match["cwd"].decode(),
        int(match["exit"]),
        match["stdout"],
        match["stderr"],
    )


def kept(stderr: bytes, directory: str) -> bytes:
    """A transcript recorded without `-keep`, as it would be with `-keep -keep-dir SCRATCH`.

    Temporary files lie in `directory`. With `-keep` fatbinary also writes the container that only its C
    text is read of, and nothing is removed. What `-t` scatters (redirections) is taken out too, since
    nvccache never asks with `-t`.
    """
    text = stderr.decode("utf-8", "surrogateescape")
    text = text.replace(f"{directory}/tmpxft_", f"{SCRATCH}/tmpxft_")
    text = _TEMPORARY.sub("", text)
    text = _REDIRECTION.sub("", text)
    text = _REMOVAL.sub("", text)
    text = _FATBINARY.sub(r'\1--create="\3" \2', text)
    return text.encode("utf-8", "surrogateescape")


def outcome(case: Case) -> tuple[Invocation | None, Plan | Bypass]:
    """What becomes of a recorded call up to its plan, as in `pipeline.carry_out`."""
    parsed = invocation.parse(case.arguments, case.environ)
    if isinstance(parsed, Bypass):
        return None, parsed
    if parsed.is_query:
        return None, Bypass(parsed.mode)  # it has no plan
    if case.status != 0:
        return parsed, Bypass("dryrun_failed", f"status {case.status}")
    transcript = dryrun.read(kept(case.stderr, case.environ.get("TMPDIR", "/tmp")))
    if isinstance(transcript, Bypass):
        return parsed, transcript
    return parsed, build.plan_of(transcript, parsed, SCRATCH)

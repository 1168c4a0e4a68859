"""What must hold for nvccache's plan of any command line, compared with plain nvcc's dry run.

Each claim is a function that yields what is wrong. Most look at nvcc's own commands and not at the command
line, since an argument that nvccache parses differently from nvcc shows there: a value that is an option, an
earlier value taken for the last one, a list split elsewhere.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path

from generator import dry_runs
from generator.dry_runs import DryRun, TemporaryNames
from generator.lines import RandomLine
from nvccache import outcomes
from nvccache.commandline.invocation import Bypass, Invocation, parse
from nvccache.commandline.tokens import FORWARDED, INPUT
from nvccache.plan import build
from nvccache.plan.model import OPAQUE, Plan, Stage
from nvccache.plan.stages.tool import GENERATES_ID, STUB_PLACEHOLDER
from nvccache.toolkit import dryrun
from nvccache.toolkit.dryrun import Transcript

SCRATCH = "nvccache-0123456789abcdef"
WRITING = ("-o", "-olto")


@dataclasses.dataclass(frozen=True)
class Site:
    """Where lines are looked at: the working directory is that of this process, too."""

    nvcc: str
    release: tuple[int, int]
    directory: Path
    temporary: Path
    environ: dict[str, str]

    @property
    def scratch(self) -> str:
        return str(self.temporary / SCRATCH)


@dataclasses.dataclass(frozen=True)
class Case:
    """A line, plain nvcc's dry run of it, and nvccache's call and plan, if it has them."""

    line: RandomLine
    plain: DryRun
    commands: tuple[tuple[str, ...], ...]  # nvcc's, split by a shell; none without a plan
    bypass: Bypass | None
    call: Invocation | None
    transcript: Transcript | None
    plan: Plan | None

    @property
    def end(self) -> str:
        return self.bypass.reason if self.bypass else "plan"


def examine(line: RandomLine, site: Site) -> Case:
    """Ask nvcc and nvccache; nothing is compiled."""
    for name, text in line.files.items():
        (site.directory / name).write_bytes(os.fsencode(text))
    environ = {**site.environ, **line.environ}
    plain = dry_runs.ask(site.nvcc, line.arguments, environ, site.directory, site.temporary)
    call = parse(line.arguments, environ)
    if isinstance(call, Invocation) and call.is_query:
        call = Bypass(call.mode)  # it has no plan
    if isinstance(call, Bypass):
        return Case(line, plain, (), call, None, None, None)
    if "threads" in call.options and (plain.is_scattered or site.release < (13, 0)):
        # With -t the commands come in any order; before CUDA 13 the dry run even fails, unlike the compile.
        in_order = dry_runs.ask(site.nvcc, call.dryrun_arguments, environ, site.directory, site.temporary)
        plain = dataclasses.replace(in_order, is_scattered=plain.is_scattered)
    transcript = dryrun.transcribe(site.nvcc, call.dryrun_arguments, site.scratch, environ)
    if isinstance(transcript, Bypass):
        return Case(line, plain, (), transcript, call, None, None)
    planned = build.plan_of(transcript, call, site.scratch)
    if isinstance(planned, Bypass):
        return Case(line, plain, (), planned, call, transcript, None)
    commands = tuple(dry_runs.split_by_shell(plain, site.directory)) if plain.status == 0 else ()
    return Case(line, plain, commands, None, call, transcript, planned)


def violations(case: Case, site: Site) -> list[str]:
    """Everything that does not hold for a line."""
    found = list(_of_rejection(case, site))
    if case.call and case.line.options is not None:
        read = [
            (argument.name, argument.tokens[0] if argument.name in (INPUT, FORWARDED) else argument.value)
            for argument in case.call.arguments
        ]
        if read != list(case.line.options):
            found.append(f"read as {read}, meant as {list(case.line.options)}")
    if case.plan and case.plain.status == 0:
        for claim in (_of_commands, _of_surroundings, _of_products, _of_files):
            found += claim(case, site)
    return found


def _of_rejection(case: Case, site: Site) -> Iterator[str]:
    if case.bypass and case.bypass.reason not in outcomes.REASONS:
        yield f"no such reason: {case.bypass}"
    if case.plain.status and case.plan:
        yield f"nvcc rejects the line: {case.plain.messages.decode(errors='replace')}"
    if not case.plain.status and case.end == "dryrun_failed":
        yield "nvcc takes the line, but not with -keep"
    has_newline = any("\n" in word for word in case.line.arguments)  # which ends a line of the transcript
    if not case.plain.status and case.end == "unexplained" and not has_newline:
        yield f"not understood: {case.bypass}"


def _of_commands(case: Case, site: Site) -> Iterator[str]:
    """The stages are nvcc's commands, in their order, but for the names of temporary files."""
    assert case.plan
    ours = TemporaryNames.within(site.scratch)
    theirs = TemporaryNames.of_nvcc(site.temporary)
    expected = [theirs.numbered(_comparable(argv, site)) for argv in case.commands]
    found = [ours.numbered(_comparable(argv, site)) for argv in _as_dry_run(case, site)]
    if len(expected) != len(found):
        yield f"nvcc runs {len(expected)} commands, the plan has {len(found)}"
    for wanted, got in zip(expected, found, strict=False):
        if wanted != got:
            difference = [pair for pair in zip_longest(wanted, got) if pair[0] != pair[1]]
            yield f"another command: {difference}"


def _as_dry_run(case: Case, site: Site) -> list[tuple[str, ...]]:
    """The commands of the stages as nvcc would have written them with -keep."""
    assert case.plan and case.transcript
    written = [step.argv for step in case.transcript.steps if isinstance(step, dryrun.Command)]
    found = []
    products: dict[str, str] = {}  # by where they are made; a later stage may read them
    for stage, nvccs in zip(case.plan.stages, written, strict=True):
        argv = stage.argv
        products |= {output.path: output.destination for output in stage.outputs if output.destination}
        for path, destination in products.items():
            argv = tuple(word.replace(path, destination) for word in argv)
        # What several nvlinks add to is a new file each time.
        argv = tuple(re.sub(r"(\.reg\.c)\++", r"\1", word) for word in argv)
        # The stub is given another name, which is put back when it is read.
        original = [word for word in nvccs if word != GENERATES_ID or word in argv]
        argv = tuple(old if new == STUB_PLACEHOLDER else new for old, new in zip(original, argv, strict=True))
        found.append(argv)
    return found


def _comparable(argv: Sequence[str], site: Site) -> tuple[str, ...]:
    """The arguments without what is ours to decide: the module id, and fatbinary's second output.

    Mostly only -keep requests that output, a container next to the C file.
    """
    argv = tuple(word for word in argv if word != GENERATES_ID)
    if not any(word.startswith("--embedded-fatbin=") for word in argv):
        return argv
    return tuple(word for word in argv if not word.startswith(f"--create={site.temporary}/"))


def _of_surroundings(case: Case, site: Site) -> Iterator[str]:
    """Variables, messages, dependency files and -t are those of the plain dry run."""
    assert case.plan and case.transcript and case.call
    ours = {name: value for name, value in case.transcript.variables.items() if not name.startswith("NVCC_")}
    plain = {name: value for name, value in case.plain.variables.items() if not name.startswith("NVCC_")}
    if ours != plain:
        yield f"other variables: {set(ours.items()) ^ set(plain.items())}"
    if case.transcript.messages != case.plain.messages or case.plain.stdout:
        yield f"other messages: {case.plain.messages!r}, here {case.transcript.messages!r}"
    paths = tuple(step.path for step in case.plan.dependency_files)
    if paths != case.plain.dependency_files:
        yield f"dependency files {case.plain.dependency_files}, here {paths}"
    asked = case.call.dependencies
    if asked and asked.output and set(paths) - {asked.output}:
        yield f"not the dependency file {asked.output}"
    if case.plain.is_scattered and ("threads" not in case.call.options or case.call.threads == 1):
        yield "nvcc would run commands at once"


def _of_products(case: Case, site: Site) -> Iterator[str]:
    """The products of the plan are the files that nvcc's commands write, except temporary ones."""
    assert case.plan and case.call
    written = [path for argv in case.commands for path in products_of(argv, site)]
    opaque = [
        path for stage in case.plan.stages if stage.kind == OPAQUE for path in products_of(stage.argv, site)
    ]
    ours = sorted([*case.plan.products, *opaque])
    if ours != sorted(written):
        yield f"nvcc writes {sorted(written)}, the plan {ours}"
    if case.call.output and case.call.output not in written:
        yield f"nvcc does not write {case.call.output}"


def products_of(argv: Sequence[str], site: Site) -> list[str]:
    """The files that a command writes according to its arguments, except temporary ones."""
    found = []
    for previous, word in pairwise(("", *argv)):
        path = word if previous in WRITING else word.removeprefix("--create=")
        if (previous in WRITING or path != word) and not path.startswith(f"{site.temporary}/"):
            found.append(path)
    return found


def _of_files(case: Case, site: Site) -> Iterator[str]:
    """Every file here that a command names is known to be read, and every source is in some command."""
    assert case.plan and case.call
    everything = {word for argv in case.commands for word in argv}
    for name in case.call.inputs:
        if name.endswith(".cu") and name not in everything:
            yield f"no command reads {name}"
    for stage in case.plan.stages:
        if stage.kind in ("ptxas", "fatbinary", "nvlink"):
            yield from _unknown_files(stage)


def _unknown_files(stage: Stage) -> Iterator[str]:
    known = {*stage.inputs, *stage.possible_files, *(value for _, value in stage.names)}
    known |= {path for output in stage.outputs for path in (output.path, output.destination)}
    for word in set(stage.argv[1:]) - known:
        for part in (word, word.rpartition("=")[2]):
            if part not in known and os.path.isfile(part):
                yield f"{stage.kind} reads {part}"

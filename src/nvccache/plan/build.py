"""Builds a plan from the transcript of a dry run: the stages, and the files that flow between them.

A stage depends on the earlier stages that write its inputs. Files are recognized by name, never by position.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from nvccache.commandline import host_options
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.plan.model import APPENDED, OPAQUE, DependencyFile, Output, Plan, Stage
from nvccache.plan.stages import grammar_of
from nvccache.plan.stages.tool import (
    GENERATES_ID,
    MENTIONS,
    NAMES,
    PLAIN,
    READS,
    WRITES,
    Grammar,
    Piece,
    pieces,
)
from nvccache.toolkit.dryrun import Command, Transcript
from nvccache.values import replace

_APPENDED_TO = frozenset({"reg.c"})  # roles of outputs that a stage appends to if they exist
_IDENTIFIER = "-D__NV_MODULE_ID="
_INCLUDED = frozenset({"stub", "fatbin.c"})  # roles of outputs that other C text includes


def plan_of(transcript: Transcript, invocation: Invocation, scratch: str) -> Plan | Bypass:
    """The verified plan of a call, or the reason for a bypass."""
    steps: list[Stage | DependencyFile] = []
    preprocessed: list[str] = []
    versions = _Versions()
    products: dict[str, str] = {}  # path in nvcc's command -> the path that the stage writes
    for step in transcript.steps:
        if isinstance(step, Command):
            stage = versions.note(_read_stage(versions.rename(step), scratch, len(steps), products))
            products |= {output.destination: output.path for output in stage.outputs if output.destination}
            if stage.is_preprocessor:
                preprocessed += [output.path for output in stage.outputs]
            steps.append(stage)
        else:
            steps.append(DependencyFile(step.path, tuple(preprocessed)))
            preprocessed = []
    stages = [step for step in steps if isinstance(step, Stage)]
    included = _inclusions(stages, scratch)
    plan = Plan(tuple(steps), included, _destinations(stages, included), scratch)
    return _unexplained(plan, transcript, invocation) or plan


class _Versions:
    """Renames the file to which several nvlink commands append, so that each writes a file of its own."""

    def __init__(self) -> None:
        self._latest: dict[str, str] = {}  # path in nvcc's command -> the path of the latest version

    def rename(self, command: Command) -> Command:
        """The command, in which nvcc's paths are replaced by those of the latest versions."""
        argv = command.argv
        for name, latest in self._latest.items():
            argv = tuple(token.replace(name, latest) for token in argv)
        return Command(argv)

    def note(self, stage: Stage) -> Stage:
        """The stage, changed so that it writes a new file instead of appending to one."""
        for output in stage.outputs:
            if output.role in _APPENDED_TO:
                stage = self._with_new_version(stage, output)
        return stage

    def _with_new_version(self, stage: Stage, output: Output) -> Stage:
        name = next((name for name, latest in self._latest.items() if latest == output.path), "")
        if not name:
            self._latest[output.path] = output.path
            return stage
        path = self._latest[name] = output.path + APPENDED
        appended = replace(output, path=path, begins_as=output.path)
        return replace(
            stage,
            argv=tuple(token.replace(output.path, path) for token in stage.argv),
            inputs=(*stage.inputs, output.path),
            outputs=tuple(appended if other is output else other for other in stage.outputs),
        )


def _read_stage(command: Command, scratch: str, number: int, products: Mapping[str, str]) -> Stage:
    grammar = grammar_of(command.argv) or Grammar(kind=OPAQUE, is_cached=False, stays_in_order=True)
    argv = [command.argv[0]]
    key_argv: list[str] = []
    inputs: list[str] = []
    outputs: list[Output] = []
    mentions: list[str] = []
    names: list[tuple[str, str]] = []
    possible_files: list[str] = []
    for found in pieces(_reading_id(command.argv, grammar), grammar, scratch):
        piece = found if grammar.stays_in_order else _reading_product(found, products)
        value = in_key = piece.value
        if piece.use == WRITES:
            outputs.append(_output(piece.role, value, scratch, number))
            value, in_key = outputs[-1].path, f"<{piece.role}>"
        elif piece.use == READS:
            inputs.append(value)
            in_key = f"<{piece.role}>"
        elif piece.use == MENTIONS:
            mentions.append(value)
            value = in_key = grammar.placeholders.get(piece.role, value)
        elif piece.use == NAMES:
            names.append((piece.role, value))
            in_key = f"<{piece.role}>" if piece.role in grammar.ignored else value
        elif piece.use == PLAIN:
            possible_files += _possible_files(piece.prefix)
        argv.append(piece.prefix + value + piece.suffix)
        key_argv.append(piece.prefix + in_key + piece.suffix)
    if grammar.writes_beside:
        outputs += _beside(outputs[-1], command.argv)
    return Stage(
        grammar,
        tuple(argv),
        tuple(key_argv),
        tuple(inputs),
        tuple(outputs),
        tuple(mentions),
        tuple(names),
        tuple(possible_files),
    )


def _reading_id(argv: Sequence[str], grammar: Grammar) -> Sequence[str]:
    """The command, without the option by which a tool writes the module id's file instead of reading it."""
    names_id = "module id" in grammar.names.values()
    return [token for token in argv if token != GENERATES_ID] if names_id else argv


def _output(role: str, path: str, scratch: str, number: int) -> Output:
    if path.startswith(scratch + "/"):
        return Output(role, path)
    # A product is first written to the scratch directory, where nobody changes it before it is stored.
    return Output(role, f"{scratch}/product-{number}/{os.path.basename(path)}", path)


def _beside(product: Output, argv: Sequence[str]) -> list[Output]:
    """The files that a host compiler writes next to an object."""
    paths = host_options.side_files(argv[1:], product.path)
    destinations = host_options.side_files(argv[1:], product.destination or product.path)
    return [
        Output(os.path.splitext(path)[1], path, destination)
        for path, destination in zip(paths, destinations, strict=True)
    ]


def _reading_product(piece: Piece, products: Mapping[str, str]) -> Piece:
    """Turn an argument into an input if it names a product of an earlier stage, such as PTX to be checked."""
    if piece.use == PLAIN:
        for name in _possible_files(piece.prefix):
            if name in products:
                return Piece(piece.prefix.removesuffix(name), products[name], READS, "input")
    return piece


def _possible_files(token: str) -> list[str]:
    """The parts of an argument that could name a file: all of it, or what follows `=` or `,file=`."""
    if not token.startswith("-"):
        return [token] if token else []
    return [part for part in (token.partition("=")[2], token.partition(",file=")[2]) if part]


def _inclusions(stages: list[Stage], scratch: str) -> dict[str, tuple[str, ...]]:
    """For each intermediate, the intermediates that it includes, directly or indirectly.

    An intermediate that no known stage writes may include any text that was written before it is read.
    """
    direct: dict[str, tuple[str, ...]] = {}
    written: dict[str, None] = {}
    texts: list[str] = []
    for stage in stages:
        if stage.tool.is_host_compiler:
            for path in stage.inputs:
                if path not in written:
                    direct[path] = tuple(texts)
        written |= dict.fromkeys(output.path for output in stage.outputs)
        texts += [output.path for output in stage.outputs if output.role in _INCLUDED]
        mentioned = tuple(f"{scratch}/{name}" for name in stage.mentions)
        for output in stage.outputs:
            # cudafe++ writes C++ text that includes the stub. cicc writes the stub, which includes the
            # fatbinary.
            if output.role in ("cudafe1.cpp", "stub"):
                direct[output.path] = mentioned
    included = dict(direct)
    for path, mentioned in direct.items():
        deeper = [
            inner for name in mentioned for inner in (direct.get(name, ()) if name in written else texts)
        ]
        included[path] = tuple(dict.fromkeys((*mentioned, *deeper)))
    return included


def _destinations(stages: list[Stage], included: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """For each intermediate, the products that depend on it."""
    flows: dict[str, set[str]] = {}
    for stage in reversed(stages):
        ends = {output.destination for output in stage.outputs if output.destination}
        if stage.tool.is_host_compiler and stage.name("program"):
            ends.add(stage.name("program"))
        for output in stage.outputs:
            ends |= flows.get(output.path, set())
        for path in stage.inputs:
            for read in (path, *included.get(path, ())):
                flows.setdefault(read, set()).update(ends)
    return {path: tuple(sorted(ends)) for path, ends in flows.items()}


def _unexplained(plan: Plan, transcript: Transcript, invocation: Invocation) -> Bypass | None:
    """Why the plan cannot be used, or None. For example, no command writes an input or a product."""
    stages = plan.stages
    if invocation.mode == "cuda":
        return Bypass("preprocessed_product", "--cuda")
    problem = _problem_of_flow(stages, plan.included)
    if problem:
        return problem
    # From a .cpp file, nvcc compiles an object even if only PTX was requested, and then discards it.
    if not any(
        stage.grammar.is_cached
        and not stage.is_preprocessor
        and (not stage.grammar.reads_source or any(output.destination for output in stage.outputs))
        for stage in stages
    ):
        return Bypass("nothing_to_cache")
    writes_dependencies = bool(plan.dependency_files)
    # Without preprocessing nvcc writes no depfile, even if one is requested.
    may_write_them = writes_dependencies or any(stage.is_preprocessor for stage in stages)
    if may_write_them and writes_dependencies != (invocation.dependencies is not None):
        return Bypass("unexplained", "dependency file")
    wanted = [output.destination for stage in stages for output in stage.outputs if output.destination]
    # A stage whose outputs are unknown may write any file that its arguments name.
    wanted += [
        token
        for stage in stages
        if stage.grammar.stays_in_order and not stage.grammar.reads_source
        for token in stage.argv
    ]
    if not wanted or (invocation.output and invocation.output not in wanted):
        return Bypass("unexplained", "no command writes the output file")
    # nvcc turns an object's path into an identifier, which would put the scratch directory into a product.
    for token in (token for stage in stages for token in stage.argv if token.startswith(_IDENTIFIER)):
        if re.sub(r"\W", "_", plan.scratch) in token or "tmpxft_" in token:
            return Bypass("names_temporary_file", token)
    # nvccache removes only the scratch directory after a call, so nvcc must not remove other files.
    others = [path for path in transcript.removed if not path.startswith(plan.scratch + "/")]
    if others:
        return Bypass("unexplained", f"nvcc removes {others[0]}")
    return None


def _problem_of_flow(stages: Sequence[Stage], included: dict[str, tuple[str, ...]]) -> Bypass | None:
    written: set[str] = set()
    readable: set[str] = set()
    for stage in stages:
        needed = set(stage.inputs)
        if stage.tool.is_host_compiler:
            needed.update(*(included.get(path, ()) for path in stage.inputs))
        if stage.kind == OPAQUE:
            missing = needed & (written - readable)
            if missing:
                detail = f"an unknown command may read `{min(missing)}`, which is not written"
                return Bypass("unexplained", detail)
            readable |= needed  # an unknown command may read or write any file that it names
            objects = {path for option, path in pairwise(stage.argv) if option == "-o" and path in needed}
            if objects & written:
                return Bypass("same_base_name", os.path.basename(min(objects & written)))
            written |= objects
        elif needed - readable:
            return Bypass("unexplained", f"no command writes {min(needed - readable)}, but one reads it")
        for output in stage.outputs:
            if output.path in written:
                return Bypass("same_base_name", os.path.basename(output.path))
            if output.destination and stage.is_preprocessor:
                return Bypass("unexplained", f"a preprocessor writes the output file {output.destination}")
            written.add(output.path)
            if output.role not in stage.grammar.unread:
                readable.add(output.path)
    return None

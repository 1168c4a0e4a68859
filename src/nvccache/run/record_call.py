"""Records a finished compile, so that the same call will be a direct hit.

Decides whether the call can have a record, and which other calls may use it. The inputs of a call are
everything that its dry run and its stages were observed to read.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from itertools import chain

from nvccache import passes
from nvccache.files import comments, elf, presence, signatures
from nvccache.files.signatures import Signature
from nvccache.observation import shell_text
from nvccache.observation.stage_inputs import Subject
from nvccache.plan import stage_key
from nvccache.plan.model import ANY_WRAPPER
from nvccache.plan.stages import tool_of
from nvccache.records import call_key, input_records, products, record, replay
from nvccache.records.direct_hit import Request
from nvccache.records.input_records import CODE, SOURCE, InputRecord, UnreadableError
from nvccache.records.products import Answer
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.run import find_stage, run_stage, wrappers
from nvccache.run.call import Compile
from nvccache.run.dry_runs import DryRun
from nvccache.run.report import Report
from nvccache.store import event_line
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

_CLOCK_SLACK = 10**9  # nanoseconds by which the two clocks may drift apart during a call
# The system clock, which can be set, minus the monotonic clock, which cannot, at the start of the call.
_CLOCK_DIFFERENCE = time.time_ns() - time.monotonic_ns()
# Options with which comments stay in preprocessed text, no longer separate two words, or may cause messages.
_KEEPS_COMMENTS = ("-C", "-CC", "-Xpreprocessor", "-fdirectives-only", "-wrapper", "c", "-xc", "--language=c")
_MAY_KEEP_COMMENTS = tuple(
    """
    --comments -Wp, -traditional --traditional -fplugin --plugin -specs --specs -finput-charset
    --input-charset --directives-only @ -Wdocumentation -Weverything -Wleading- -Wtrailing-
    """.split()
)


def record_compile(call: Compile, dry_run: DryRun, report: Report) -> None:
    """Record a finished call; sets `record` or `reason_against_record` of the report."""
    request = call.request
    try:
        check_clock()
        _check_call(call)
        inputs = _input_record(call, dry_run, report)
    except (UnreadableError, OSError) as error:
        report.reason_against_record = str(error)
        return
    lists = [
        passes.union([call.intermediates.passes[path].listed for path in step.preprocessed])
        for step in call.plan.dependency_files
    ]
    entered = lists[0] if lists else []
    answer = _answer(call, entered, report)
    scope = _scope(call, answer, inputs)
    if not scope.startswith(call_key.SAME_DIRECTORY):
        input_records.forget_parents_of(call.cwd, inputs)
    listed = [(os.fsdecode(name), is_system) for name, is_system in entered]
    if scope.startswith(call_key.BELOW_BASE):
        inputs.links = _links_in_any_checkout(call.checkout, inputs.links)
    lookup_key = call_key.make_lookup_key(request, scope)
    store(request, lookup_key, inputs, answer, listed, call.store, call.since_ns, report)


def check_clock() -> None:
    """Raise UnreadableError if the system clock was set: a file may then be newer than its date shows."""
    if abs(time.time_ns() - time.monotonic_ns() - _CLOCK_DIFFERENCE) > _CLOCK_SLACK:
        raise UnreadableError("the clock was set during the compile")


def _check_call(call: Compile) -> None:
    """Raise UnreadableError with the first reason why the call cannot be recorded, if there is one."""
    for reason in (reason for run in call.runs for reason in run.reasons_against_record):
        raise UnreadableError(reason)
    for argument in call.request.invocation.arguments:
        is_architecture = argument.name in ("gpu-architecture", "gpu-code", "generate-code")
        if is_architecture and argument.value and "native" in argument.value:
            raise UnreadableError("the call compiles for the native architecture")
    if len(call.plan.dependency_files) > 1:
        raise UnreadableError("the call writes several dependency files")


def _input_record(call: Compile, dry_run: DryRun, report: Report) -> InputRecord:
    """The inputs of the call and of its dry run; raises UnreadableError or OSError."""
    stages = call.plan.stages
    by_passes: list[InputRecord] = []
    parts = [_read_by_dry_run(call, dry_run)]
    for run in call.runs:
        if run.input_record and run.input_record not in by_passes:
            (by_passes if run.stage.is_preprocessor else parts).append(run.input_record)
    parts += [call.inputs.tool_record(call.subject_of(stage)) for stage in stages]
    # Files that nvccache has read for keys are inputs, even if the stages have read only some of them.
    named = [path for stage in stages for path in stage_key.files_in_key(stage)]
    more = [*filter(toolchain.is_regular_file, dict.fromkeys(named)), *call.request.invocation.option_files]
    inputs = call.inputs.union([*by_passes, *parts], call.request.environ, more)
    dated = {path for run in call.runs for path in run.dated_files}
    inputs.dates = sorted({*inputs.dates, *((path, presence.date_and_size(path)) for path in dated)})
    signature = call.inputs.files.signature  # as `inputs` may have a file by another name
    listed = _sources_without_messages(call, report)
    by_passes_only = {signature(path) for part in by_passes for path in part.files if path in listed}
    by_passes_only -= set(map(signature, chain(more, *(part.files for part in parts))))
    _leave_out_comments(inputs, by_passes_only)
    return inputs


def _sources_without_messages(call: Compile, report: Report) -> set[str]:
    """The preprocessed files, except the toolkit's, if their comments cannot affect the result; else none.

    Comments can affect messages, which quote source lines. A wrapper that does more than add options to a
    command may also read the comments.
    """
    stages = call.plan.stages
    passes_run = [stage for stage in stages if stage.is_preprocessor]
    arguments = [argument for stage in passes_run for argument in stage.argv]
    for name in {stage.argv[0] for stage in passes_run if stage.wrapper}:
        arguments += shell_text.command_started(toolchain.resolve(name, call.environ.get("PATH", "")))
    has_wrapper = any(stage.wrapper == ANY_WRAPPER for stage in stages)
    keeps = any(each in _KEEPS_COMMENTS or each.startswith(_MAY_KEEP_COMMENTS) for each in arguments)
    if report.stderr or report.stdout or has_wrapper or keeps:
        return set()
    toolkit = os.path.dirname(os.path.dirname(os.path.realpath(call.request.nvcc))) + "/"
    listed = [entry for each in call.intermediates.passes.values() for entry in each.listed]
    own = {os.fsdecode(name) for name, is_system in listed if not is_system}
    real = {folder: f"{os.path.realpath(folder)}/" for folder in set(map(os.path.dirname, own))}
    return {path for path in own if not real[os.path.dirname(path)].startswith(toolkit)}


def _leave_out_comments(input_record: InputRecord, by_passes_only: set[Signature]) -> None:
    """Replace the digests of sources by digests of their code, so that editing a comment is no miss.

    The total size is limited, so the sources changed last, which are being edited, come first. Files whose
    dates matter, or that are equal to another file, keep their digests. Of several sources that differ only
    in comments, one gets a digest of its code. The others keep theirs, so that it is noticed if two sources
    become equal.
    """
    dated = {path for path, _ in input_record.dates}
    files = zip(input_record.files, input_record.kinds, input_record.signatures, strict=True)
    digests = input_record.digests
    sources = [
        (signature[3], index, path, signature)
        for index, (path, kind, signature) in enumerate(files)
        if kind == SOURCE and signature in by_passes_only
        if path not in dated and digests.count(digests[index]) == 1
    ]
    code: dict[str, int] = {}
    rest = comments.LARGEST
    for _, index, path, signature in sorted(sources, reverse=True):
        rest -= signature[2]
        if rest < 0:
            break
        with contextlib.suppress(OSError):
            digest = comments.digest_of_code(path)
            if signatures.signature_of(path) == signature:
                code.setdefault(digest, index)
    kinds = list(input_record.kinds)
    for digest, index in code.items():
        kinds[index], input_record.digests[index] = CODE, digest
    input_record.kinds = "".join(kinds)


def _read_by_dry_run(call: Compile, dry_run: DryRun) -> InputRecord:
    """The input record of the dry run, which is stored if it is new. Raises UnreadableError or OSError."""
    if dry_run.input_record:
        return dry_run.input_record
    assert dry_run.log
    subject = Subject(call.request.guarded_environ, call.request.nvcc)
    inputs = call.inputs.input_record(dry_run.log.read(), subject)
    dry_run.store(inputs, call.since_ns)
    return inputs


def _answer(call: Compile, entered: list[tuple[bytes, bool]], report: Report) -> Answer:
    """The result of the call; `entered` are the files that its dependency file lists."""
    counted = [stage for stage in report.stages if tool_of(stage.kind).is_counted]
    result = Result((), report.stdout, report.stderr)
    result.seconds = sum(stage.cost for stage in counted)
    result.stages = list(map(event_line.text_of_hit, counted))
    answer = Answer(result)
    answer.sources = list(call.request.invocation.inputs)
    for stage in call.plan.stages:
        for output in stage.outputs:
            if output.destination:
                digest = call.intermediates.digest_of(output.path)
                answer.products.append((output.destination, digest, stage.tool.unlinks_output))
    for step in call.plan.dependency_files:
        answer.dependency_file = step.path
        answer.rule = products.rule(entered, call.request.invocation)
    return answer


def _scope(call: Compile, answer: Answer, inputs: InputRecord) -> str:
    """How widely a call's record may be shared: one of the scopes of call_key.py."""
    stages = call.plan.stages
    # A wrapper may choose options by any path in the call, and the keys of wider scopes lack some paths.
    if any(stage.wrapper == ANY_WRAPPER for stage in stages):
        return call_key.SAME_DIRECTORY + call_key.SAME_OUTPUTS
    printed = answer.result.stderr + answer.result.stdout
    is_bound = (
        call.contains_id
        or any(os.fsencode(destination) in printed for destination, _, _ in answer.products)
        or any(
            stage.grammar.sees_output_names and any(out.destination for out in stage.outputs)
            for stage in stages
        )
    )
    return _directories(call, answer, inputs) + (call_key.SAME_OUTPUTS if is_bound else "")


def _directories(call: Compile, answer: Answer, inputs: InputRecord) -> str:
    """The part of a scope that says in which working directories the record is valid."""
    if wrappers.PLACES in call.wrapper_effects:
        return call_key.SAME_DIRECTORY
    pwd = call.environ.get("PWD", call.cwd)
    naming = [each for each in call.plan.stages if each.tool.names_directory(each.argv, call.cwd, pwd)]
    if not all(find_stage.is_free_of_directory(call, each) for each in naming):
        return call_key.SAME_DIRECTORY
    outputs = [out for stage in call.plan.stages for out in stage.outputs if out.destination]
    texts = [run_stage.content_of(call, output) for output in outputs]
    texts += [answer.result.stdout, answer.result.stderr]
    if any(map(elf.hides_text, texts)):
        return call_key.SAME_DIRECTORY
    root = _root_of_checkout(call, inputs)
    if not naming and root and not any(os.fsencode(root) in text for text in texts):
        return call_key.BELOW_BASE
    # The same argv has the same result in every directory, unless the result contains the name of the
    # directory or depends on it.
    has_relative_id = call.contains_id and bool(call.checkout)
    shows_directory = has_relative_id or any(os.fsencode(call.cwd) in text for text in texts)
    if shows_directory or input_records.follows_directory(inputs):
        return call_key.SAME_DIRECTORY
    return call_key.ANY_DIRECTORY


def _root_of_checkout(call: Compile, inputs: InputRecord) -> str:
    """The directory that must not occur in a result that all checkouts share; empty if they share none.

    nvcc gets relative paths. So if an absolute name leads into the checkout, the call depends on where the
    checkout is. Programs found by PATH are an exception.
    """
    if not call.checkout:
        return ""
    # If a relative name leads out of the checkout, a directory further up is the root.
    root = os.path.commonpath([call.checkout, *input_records.relative_places(inputs)])
    searched = call.environ.get("PATH", "").split(":")
    return "" if len(root) < 2 or input_records.names_any_in([root], inputs, searched) else root


def _links_in_any_checkout(checkout: str, links: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Links with their targets; a target in the checkout becomes relative to the working directory."""
    return [
        (path, os.path.relpath(target) if f"{target}/".startswith(f"{checkout}/") else target)
        for path, target in links
    ]


def store(
    request: Request,
    lookup_key: LookupKey,
    inputs: InputRecord,
    answer: Answer,
    listed: Sequence[tuple[str, bool]],
    cache: Store,
    since_ns: int,
    report: Report,
) -> None:
    """Record the inputs and the answer of a call that began at `since_ns`, for direct hits and for replays.

    `listed` has the files that the dependency file lists, as in call_key.result_of.
    """
    inputs.cache_signatures = [signatures.signature_of(path) or signatures.UNKNOWN for path in inputs.caches]
    result = call_key.result_of(answer, listed, request.invocation)
    if result is None:
        report.reason_against_record = "the command line does not determine the names of the outputs"
        return
    result.basis = list(cache.used)
    entry = Entry(lookup_key, inputs, result)
    record.add([entry], cache, since_ns)
    replay.add_of_process(request, inputs, answer, cache, since_ns)
    report.record = entry

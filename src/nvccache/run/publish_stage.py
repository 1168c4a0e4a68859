"""Stores the result of one stage, with a record of what it was observed to read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from nvccache import module_id
from nvccache.files import elf
from nvccache.machine import scratch
from nvccache.observation import looked_up, observer_log
from nvccache.observation.observer_log import Observation
from nvccache.plan.model import Stage
from nvccache.records import input_records, record
from nvccache.records.input_records import InputRecord, UnreadableError
from nvccache.records.record import Entry, Result
from nvccache.run import find_stage, wrappers
from nvccache.run.call import Compile
from nvccache.run.find_stage import ANYWHERE, SAME_ID
from nvccache.run.stage_run import StageRun, ToolRun
from nvccache.run.wrappers import PLACES
from nvccache.values import replace

_DEBUG_INFORMATION = b".debug_info"  # a section of PTX that names the working directory
_LINE_TABLE = b".debug_line"  # a section of cubins


def publish(call: Compile, runs: Iterable[StageRun]) -> None:
    """Store the results of stages that have just run, unless they are valid only for this call.

    The passes of a TU share an input record, since they read nearly the same files.
    """
    groups: dict[object, list[StageRun]] = {}
    for run in runs:
        assert run.tool_run
        reason = _reason_against(call, run, run.tool_run)
        if reason:
            _note(call, run, reason)
            continue
        shares = run.stage.is_preprocessor and run.tool_run.log
        unit = (run.stage.argv[0], frozenset(module_id.products_of(call.plan, run.stage)))
        groups.setdefault(unit if shares else run, []).append(run)
    for group in groups.values():
        try:
            read = _input_record_of(call, group)
        except (UnreadableError, OSError) as error:
            for run in group:
                _note(call, run, str(error))
            continue
        may_follow = find_stage.may_follow_directory(group[0].stage)
        follows_directory = may_follow and input_records.follows_directory(read)
        entries = [_entry_of(call, run, read, follows_directory) for run in group]
        record.add(entries, call.store, call.since_ns)
        for run, entry in zip(group, entries, strict=True):
            run.record_name = entry.name


def _note(call: Compile, run: StageRun, reason: str) -> None:
    run.reasons_against_record.append(reason)
    call.store.fault_message = f"the result of {run.stage.kind} is not stored: {reason}"


def _reason_against(call: Compile, run: StageRun, tool_run: ToolRun) -> str:
    """The reason why a result is valid only for this call, or may not fit its keys; empty if neither."""
    stage = run.stage
    if tool_run.path_dependence:
        return tool_run.path_dependence
    if tool_run.completed.is_cut_short:
        return f"a process that {stage.kind} started may still print messages"
    # Files beside an object are not checked: they name intermediates, which have random names in nvcc, too.
    of_objects = {
        out.path for out in stage.outputs if out.role == "object" or not stage.grammar.writes_beside
    }
    contents = [content for path, content in _contents(call, stage).items() if path in of_objects]
    directory = os.fsencode(call.plan.scratch)
    if any(content is None or directory in content for content in contents):
        return f"an output file of {stage.kind} contains the path of the scratch directory"
    own = os.fsencode(f"{call.cwd}//")  # gcc writes it into preprocessed text like this; digests omit it
    sees_directory = stage.grammar.sees_directory or PLACES in tool_run.wrapper
    if not sees_directory and any(own in content for content in filter(None, contents)):
        return f"an output file of {stage.kind} contains the path of the working directory"
    is_free = find_stage.is_free_of_directory(call, stage)
    if is_free and any(_DEBUG_INFORMATION in content for content in filter(None, contents)):
        return f"an output file of {stage.kind} may contain the path of the working directory"
    is_blind = stage.tool.is_host_compiler and not sees_directory
    if is_blind and any(map(elf.hides_text, filter(None, contents))):
        return f"an output file of {stage.kind} may contain the path of the scratch directory"  # compressed
    if stage.grammar.dates_linked_sources and any(_LINE_TABLE in each for each in filter(None, contents)):
        return f"the line information of {stage.kind} contains dates of sources that are not inputs"
    printed = tool_run.completed.stdout + tool_run.completed.stderr
    read = [call.outputs[path][1] for path in stage.inputs if path in call.outputs]
    if any(scratch.is_mentioned(output.destination, printed) for output in (*stage.outputs, *read)):
        return f"the messages of {stage.kind} contain the name of an output file"  # the name may change
    observation = tool_run.log.read() if tool_run.log else Observation([], set())
    if (
        not wrappers.was_written_by(tool_run.in_place, observation)
        or find_stage.front_key(call, stage) != run.front_key
    ):
        return looked_up.CHANGED_MEANWHILE
    modes = [wrappers.unusual_mode(path, stage.kind, call.plan.scratch) for path in tool_run.in_place]
    # For split debug information, gcc starts objcopy, whose lookup of the .dwo file does not matter.
    sought = [path for path in tool_run.in_place if not path.endswith(".dwo")]
    return next(filter(None, modes), wrappers.early_lookup(sought, tool_run.existed, observation))


def _contents(call: Compile, stage: Stage) -> dict[str, bytes | None]:
    """The contents of a stage's outputs, by path, except preprocessed text, which is not stored."""
    stored = [output for output in stage.kept_outputs if not stage.is_preprocessor]
    return {output.path: call.intermediates.content_of(output.path) for output in stored}


def _entry_of(call: Compile, run: StageRun, read: InputRecord, follows_directory: bool) -> Entry:
    """The result of a stage, under the key that says where it is valid."""
    stage, tool_run = run.stage, run.tool_run
    assert tool_run
    printed = tool_run.completed.stdout + tool_run.completed.stderr
    key = run.front_key if printed or PLACES in tool_run.wrapper else run.claim_key
    run.input_record = read
    scope = SAME_ID if _may_contain_id(call, stage, printed) else ANYWHERE
    run.contains_id |= scope == SAME_ID
    _add_blobs(call, stage)
    if find_stage.may_follow_directory(stage) and (PLACES in tool_run.wrapper or follows_directory):
        key = find_stage.key_in_directory(call, key)
    return Entry(find_stage.make_lookup_key(call, stage, key, scope), read, _result(call, run, tool_run))


def _may_contain_id(call: Compile, stage: Stage, printed: bytes) -> bool:
    """Whether a result may contain the module id that its stage read, or name the directory of the source."""
    identifier = call.module_id_of(stage)
    if not identifier:
        return False
    directory = os.path.dirname(stage.name("source path"))
    names_path = len(directory) > 1 and os.fsencode(directory) in printed
    contents = [content for content in _contents(call, stage).values() if content is not None]
    return names_path or module_id.may_occur_in(identifier, [*contents, printed])


def _add_blobs(call: Compile, stage: Stage) -> None:
    for path, content in _contents(call, stage).items():
        assert content is not None
        is_product = bool(call.outputs[path][1].destination)
        call.store.add_blob(call.intermediates.digest_of(path), content, compress=not is_product)


def _result(call: Compile, run: StageRun, tool_run: ToolRun) -> Result:
    stage, completed = run.stage, tool_run.completed
    result = Result(
        [(output.role, call.intermediates.digest_of(output.path)) for output in stage.kept_outputs],
        call.without_scratch(completed.stdout),
        call.without_scratch(completed.stderr),
    )
    result.seconds, result.cpu = completed.seconds, completed.cpu
    result.text, result.wrapper = list(run.text), list(tool_run.wrapper)
    if stage.is_preprocessor:
        result.facts = call.intermediates.passes[stage.outputs[0].path].encoded()
    return result


def _input_record_of(call: Compile, runs: Sequence[StageRun]) -> InputRecord:
    """The input record of one stage, or of passes that run one program; raises UnreadableError or OSError."""
    tool_runs = [run.tool_run for run in runs if run.tool_run]
    subjects = [call.subject_of(run.stage) for run in runs]
    own = frozenset[str]().union(*(subject.intermediates or () for subject in subjects))
    subject = replace(subjects[0], intermediates=own)
    if tool_runs[0].executor:
        return call.inputs.remote_run_record(subject, runs[0].stage.tool.variables)
    logs = [tool_run.log for tool_run in tool_runs if tool_run.log]
    if not logs:  # a record without inputs would match every later call
        raise UnreadableError(f"no run of {runs[0].stage.kind} was observed")
    return call.inputs.input_record(observer_log.merged([log.read() for log in logs]), subject)

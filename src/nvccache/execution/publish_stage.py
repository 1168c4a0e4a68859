"""Putting the result of one stage into the store, under what it was observed to read."""

from __future__ import annotations

import os

from nvccache.execution import object_place
from nvccache.execution.seeding import SEEDED
from nvccache.files import elf
from nvccache.machine import scratch
from nvccache.module_id import ids
from nvccache.module_id.own_ids import ROLE
from nvccache.observation import process_checks, unchanged_files
from nvccache.observation.stage_inputs import Subject
from nvccache.plan import line_table
from nvccache.plan.model import Stage
from nvccache.records import record
from nvccache.records.input_records import InputRecord, UnreadableError
from nvccache.records.record import Pair, Result
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.execution import Execution
    from nvccache.execution.find_stage import Lookup
    from nvccache.execution.run_stage import Made

_DEBUG_INFORMATION = b".debug_info"  # a section of PTX, which names the working directory


@dataclass(frozen=True, slots=True)
class Published:
    """What is known of a stage when its result has been put into the store, or could not be.

    `input_record` is what it was observed to read; `is_bound` see find_stage.Lookup;
    `reason_against_record` is a clause, or empty.
    """

    input_record: InputRecord | None = None
    is_bound: bool = False
    reason_against_record: str = ""


class Publisher:
    """Publishes the stages of one call."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._workspace = execution.workspace
        self._store = execution.store

    def publish(self, stage: Stage, lookup: Lookup, made: Made) -> Published:
        """Put what a stage has just produced into the store, if it tells nothing of this one call."""
        reason = self._reason_against(stage, lookup, made)
        published = Published(reason_against_record=reason) if reason else self._publish(stage, lookup, made)
        if published.reason_against_record:
            self._store.trouble = f"{stage.kind} is not stored: {published.reason_against_record}"
        return published

    def _reason_against(self, stage: Stage, lookup: Lookup, made: Made) -> str:
        """Why a result tells of this one call, or may not be of what it was looked up for; or empty."""
        if made.clue:
            return made.clue
        if not made.is_as_rehearsed:
            return f"{stage.kind} has become another command than before"
        contents = list(self._contents(stage).values())
        directory = os.fsencode(self._execution.plan.scratch)
        if any(content is None or directory in content for content in contents):
            return f"a product of {stage.kind} names the scratch directory"
        own = os.fsencode(f"{self._execution.cwd}//")  # as a pass names it, which no digest of its text tells
        if not stage.grammar.sees_directory and any(own in content for content in filter(None, contents)):
            return f"a product of {stage.kind} names the working directory"
        is_free = self._execution.keys.is_free_of_directory(stage)
        if is_free and any(_DEBUG_INFORMATION in content for content in filter(None, contents)):
            return f"a product of {stage.kind} may name the working directory"
        is_blind = stage.tool.is_host_compiler and not stage.grammar.sees_directory
        if is_blind and any(map(elf.hides_text, filter(None, contents))):
            return f"a product of {stage.kind} may name the scratch directory"  # in debug information
        said = made.completed.stdout + made.completed.stderr
        read = [self._execution.outputs[path][1] for path in stage.inputs if path in self._execution.outputs]
        if any(scratch.is_named(output.destination, said) for output in (*stage.outputs, *read)):
            return f"what {stage.kind} says names a product"  # which is called otherwise the next time
        seen = [log.read() for log in made.logs]
        is_its_own = object_place.is_its_own(made.in_place, seen)
        if not is_its_own or self._execution.keys.front_key(stage) != lookup.front_key:
            return unchanged_files.CHANGED_MEANWHILE
        modes = [
            object_place.odd_mode(path, stage.kind, self._execution.plan.scratch) for path in made.in_place
        ]
        return next(filter(None, modes), object_place.who_looks(made.in_place, made.lay_there, seen))

    def _contents(self, stage: Stage) -> dict[str, bytes | None]:
        """What is kept of a stage's outputs, by path: the text of a pass is not."""
        kept = [output for output in stage.kept_outputs if not stage.is_preprocessor]
        return {output.path: self._workspace.content_of(output.path) for output in kept}

    def _publish(self, stage: Stage, lookup: Lookup, made: Made) -> Published:
        execution = self._execution
        said = made.completed.stdout + made.completed.stderr
        front_key = lookup.front_key if said else lookup.claim_key
        try:
            read = self._input_record_of(stage, made)
        except UnreadableError as error:
            return Published(reason_against_record=str(error))
        processes = [process for log in made.logs for process in log.read().processes]
        grown = process_checks.grown_file(processes, execution.plan.scratch)
        if grown:  # as a hit beside others that ran it would be missing there; so is a call, but all of it
            self._store.trouble = f"{stage.kind} is not stored: it appends to `{grown}`"
            self._add_blobs(stage)
            return Published(read, is_bound=ids.generates(stage))
        kept = stage.kept_outputs
        scope = execution.seeding.scope_of(stage, kept, said, is_repeatable=made.is_repeatable)
        if not scope:
            return Published(read, reason_against_record=f"the module id of {stage.kind} is not understood")
        self._add_blobs(stage)
        result = self._result(stage, lookup, made)
        front = next(one for one in execution.seeding.fronts(front_key, stage) if one.scope == scope)
        pair = Pair(record.front_for(result, front, execution.terminal), read, result)
        record.add(pair, self._store, execution.since_ns)
        return Published(read, scope == SEEDED)

    def _add_blobs(self, stage: Stage) -> None:
        for path, content in self._contents(stage).items():
            assert content is not None
            is_product = bool(self._execution.outputs[path][1].destination)
            self._store.add_blob(self._workspace.digest_of(path), content, compress=not is_product)

    def _result(self, stage: Stage, lookup: Lookup, made: Made) -> Result:
        execution, completed = self._execution, made.completed
        outputs = stage.kept_outputs
        if execution.own_ids.are_not_in(stage):
            outputs = [output for output in outputs if output.role != ROLE]
        result = Result(
            [(output.role, self._workspace.digest_of(output.path)) for output in outputs],
            execution.without_scratch(completed.stdout),
            execution.without_scratch(completed.stderr),
        )
        result.seconds, result.cpu, result.wall = completed.seconds, completed.cpu, made.wall
        result.text = list(lookup.text)
        if stage.is_preprocessor:
            result.facts = made.passes[stage.outputs[0].path].encoded()
        return result

    def _input_record_of(self, stage: Stage, made: Made) -> InputRecord:
        """What a stage has just read; raises UnreadableError."""
        execution = self._execution
        try:
            read = self._observed(stage, execution.subject_of(stage), made)
        except OSError as error:
            raise UnreadableError(str(error)) from None
        if stage.grammar.dates_what_it_names:
            kept = stage.kept_outputs
            images = [self._workspace.content_of(output.path) or b"" for output in kept]
            read.dates += line_table.dates_in(images, execution.since_ns)
        return read

    def _observed(self, stage: Stage, subject: Subject, made: Made) -> InputRecord:
        inputs = self._execution.inputs
        if made.costs:
            return inputs.of_sent(subject, stage.tool.variables)
        if self._execution.is_blind:
            return inputs.assumed(subject, self._execution.why_blind)
        if not made.logs:  # an input record of nothing would always hold
            raise UnreadableError(f"no run of {stage.kind} was observed")
        read = [inputs.input_record(log.read(), subject) for log in made.logs]
        return read[0] if len(read) == 1 else inputs.union(read, subject.environ)

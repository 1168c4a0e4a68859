"""Putting the result of one stage into the store, under what it was observed to read."""

from __future__ import annotations

import os

from nvccache.execution.find_stage import Lookup
from nvccache.files import keys
from nvccache.machine import scratch
from nvccache.module_id import ids
from nvccache.module_id.own_ids import ROLE
from nvccache.observation import unchanged_files
from nvccache.observation.stage_inputs import Subject
from nvccache.plan import line_table
from nvccache.plan.model import Stage
from nvccache.records import input_records, manifest
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord, UnreadableError
from nvccache.store import entries
from nvccache.store.entries import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.execution import Execution
    from nvccache.execution.run_stage import Made
    from nvccache.machine.process import Completed


class Publisher:
    """Publishes the stages of one call."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._workspace = execution.workspace
        self._store = execution.store

    def publish(self, stage: Stage, lookup: Lookup, made: Made) -> None:
        """Put what a stage has just produced into the store, if it tells nothing of this one call."""
        reason = self._publish(stage, lookup, made)
        if reason:
            self._store.trouble = f"{stage.kind} is not stored: {reason}"
            self._execution.reasons_against_record.append(reason)

    def _publish(self, stage: Stage, lookup: Lookup, made: Made) -> str:
        """The reason why a result cannot be stored, or empty."""
        completed = made.completed
        kept = [output for output in self._execution.kept_outputs(stage) if not stage.is_preprocessor]
        contents = {output.role: self._workspace.content_of(output.path) for output in kept}
        directory = os.fsencode(self._execution.plan.scratch)
        if any(content is None or directory in content for content in contents.values()):
            return f"a product of {stage.kind} names the scratch directory"
        said = completed.stdout + completed.stderr
        if any(scratch.is_named(output.destination, said) for output in stage.outputs):
            return f"what {stage.kind} says names its product"  # which is called otherwise the next time
        if self._execution.finder.front_key(stage) != lookup.front_key:
            return unchanged_files.CHANGED_MEANWHILE
        front_key = lookup.front_key if said else lookup.claim_key
        try:
            key = self._key_to_publish(stage, front_key, made)
        except UnreadableError as error:
            return str(error)
        if not key:
            return f"the module id of {stage.kind} is not understood"
        for output in kept:
            content = contents[output.role]
            assert content is not None
            digest = self._workspace.digest_of(output.path)
            self._store.add_blob(digest, content, compress=not output.destination)
        self._add_entry(stage, key, completed)
        return ""

    def _add_entry(self, stage: Stage, key: str, completed: Completed) -> None:
        outputs = self._execution.kept_outputs(stage)
        if self._execution.is_free_of_id(stage):
            outputs = [output for output in outputs if output.role != ROLE]
        digests = {output.role: self._workspace.digest_of(output.path) for output in outputs}
        entry = Entry(
            digests,
            self._execution.without_scratch(completed.stdout),
            self._execution.without_scratch(completed.stderr),
            completed.seconds,
            facts=self._execution.passes[stage.outputs[0].path].facts() if stage.is_preprocessor else {},
            text=self._execution.finder.text_read_by(stage),
        )
        entries.add(self._store, key, entry)

    def _key_to_publish(self, stage: Stage, front_key: str, made: Made) -> str:
        """The key for a result just made, or empty; raises UnreadableError."""
        execution, completed = self._execution, made.completed
        read = self._input_record_of(stage, made)
        execution.take_input_record(stage, read)
        found = manifest.Found(input_records.key_of(front_key, read), read, b"")
        key = keys.for_terminal(found.key, execution.terminal, completed.stderr)
        if ids.generates(stage):
            messages = completed.stdout + completed.stderr
            key = execution.seeding.key_to_publish(stage, key, execution.kept_outputs(stage), messages)
        if key:
            relocation = Relocation("", execution.cwd)
            manifest.add(front_key, found, self._store, relocation, execution.since_ns)
        return key

    def _input_record_of(self, stage: Stage, made: Made) -> InputRecord:
        """What a stage has just read; raises UnreadableError."""
        execution = self._execution
        try:
            read = self._observed(stage, execution.subject_of(stage), made)
        except OSError as error:
            raise UnreadableError(str(error)) from None
        if stage.grammar.dates_what_it_names:
            kept = execution.kept_outputs(stage)
            images = [self._workspace.content_of(output.path) or b"" for output in kept]
            read.dates += line_table.dates_in(images, execution.since_ns)
        return read

    def _observed(self, stage: Stage, subject: Subject, made: Made) -> InputRecord:
        inputs = self._execution.inputs
        if self._execution.is_blind:
            return inputs.assumed(subject, self._execution.why_blind)
        if not made.logs:  # an input record of nothing would always hold
            raise UnreadableError(f"no run of {stage.kind} was observed")
        read = [inputs.input_record(log.read(), subject) for log in made.logs]
        return read[0] if len(read) == 1 else inputs.union(read, subject.environ)

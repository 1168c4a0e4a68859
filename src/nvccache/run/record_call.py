"""Recording a finished compile, so that the next one is a direct hit.

Decides whether there can be a record, and how widely it may be shared. The inputs of a call are the union of
what its dry run and its stages were observed to read.
"""

from __future__ import annotations

import os

from nvccache import passes
from nvccache.files import elf, presence, signatures
from nvccache.observation import written_files
from nvccache.observation.stage_inputs import Subject
from nvccache.plan import stage_key
from nvccache.plan.model import ANY_WRAPPER
from nvccache.plan.stages import tool_of
from nvccache.records import direct, input_records, products, record, replay
from nvccache.records.input_records import InputRecord, UnreadableError
from nvccache.records.products import Answer
from nvccache.records.record import Entry, Result
from nvccache.run import find_stage, run_stage, wrappers
from nvccache.store import event_line
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.commandline.invocation import Invocation
    from nvccache.plan.model import Plan
    from nvccache.records.record import LookupKey
    from nvccache.records.request import Request
    from nvccache.run.call import Compile
    from nvccache.run.dry_runs import DryRun
    from nvccache.run.report import Report
    from nvccache.store.store import Store


class Recorder:
    """A finished call, to be recorded."""

    def __init__(
        self,
        request: Request,
        call: Compile,
        report: Report,
        dry_run: DryRun,
    ) -> None:
        self.request = request
        self.nvcc = request.nvcc
        self.invocation = request.invocation
        self.call = call
        self.cwd = call.cwd
        self._report = report
        self._dry_run = dry_run
        self._environ = call.environ

    def reason_against_record(self) -> str:
        """The first reason why the call cannot be recorded, a clause; empty if it can."""
        stages = [reason for run in self.call.runs for reason in run.reasons_against_record]
        reasons = [*stages, *_reasons_of_call(self.invocation, self.call.plan)]
        return next((reason for reason in reasons if reason), "")

    def input_record(self) -> InputRecord:
        """Everything the call read, its dry run included; raises UnreadableError or OSError."""
        call = self.call
        parts = [self._read_by_dry_run(), *(run.input_record for run in call.runs if run.input_record)]
        parts += [call.inputs.tool_record(call.subject_of(stage)) for stage in call.plan.stages]
        more = [*self._files_in_keys(), *self.invocation.option_files]
        inputs = call.inputs.union(parts, self.request.environ, more)
        dated = {path for run in call.runs for path in run.dated_files}
        inputs.dates = sorted({*inputs.dates, *((path, presence.date_and_size(path)) for path in dated)})
        return inputs

    def _read_by_dry_run(self) -> InputRecord:
        """The dry run's input record; stores a new dry run. Raises UnreadableError or OSError."""
        dry_run, call = self._dry_run, self.call
        if dry_run.input_record:
            return dry_run.input_record
        assert dry_run.log
        subject = Subject(self.request.guarded_environ, self.nvcc)
        observation = dry_run.log.read()
        inputs = call.inputs.input_record(observation, subject)
        if not written_files.appended_file(observation.processes, call.plan.scratch):
            dry_run.store(inputs, call.since_ns)
        return inputs

    def _files_in_keys(self) -> list[str]:
        """The files that nvccache has read for keys: stages read only a part of them."""
        stages = self.call.plan.stages
        named = [path for stage in stages for path in stage_key.files_in_key(stage, self._environ)]
        return [path for path in dict.fromkeys(named) if toolchain.is_regular_file(path)]

    def answer(self) -> Answer:
        """The result of the call."""
        call, report = self.call, self._report
        counted = [stage for stage in report.stages if tool_of(stage.kind).is_counted]
        result = Result((), report.stdout, report.stderr)
        result.seconds = sum(stage.cost for stage in counted)
        result.stages = list(map(event_line.text_of_hit, counted))
        answer = Answer(result)
        answer.sources = list(self.invocation.inputs)
        for stage in call.plan.stages:
            for output in stage.outputs:
                if output.destination:
                    digest = call.intermediates.digest_of(output.path)
                    answer.products.append((output.destination, digest, stage.tool.unlinks_output))
        for step in call.plan.dependency_files:
            answer.dependency_file = step.path
            answer.rule = products.rule(self.entered(), self.invocation)
        return answer

    def entered(self) -> list[tuple[bytes, bool]]:
        for step in self.call.plan.dependency_files:
            return passes.union([self.call.intermediates.passes[path].listed for path in step.preprocessed])
        return []

    def scope(self, answer: Answer, inputs: InputRecord) -> str:
        """How widely the record of a call may be shared, one of direct.py's scopes."""
        # A wrapper may also choose by paths of outputs and directories, some of which a wider key leaves out.
        if any(stage.wrapper == ANY_WRAPPER for stage in self.call.plan.stages):
            return direct.SAME_DIRECTORY + direct.SAME_OUTPUTS
        is_bound = self.call.contains_id or self._contains_output_names(answer)
        return self._directories(answer, inputs) + (direct.SAME_OUTPUTS if is_bound else "")

    def _directories(self, answer: Answer, inputs: InputRecord) -> str:
        """In which directories the record of a call is valid."""
        if wrappers.PLACES in self.call.wrapper_effects:
            return direct.SAME_DIRECTORY
        pwd = self._environ.get("PWD", self.cwd)
        stages = self.call.plan.stages
        naming = [each for each in stages if each.tool.names_directory(each.argv, self.cwd, pwd)]
        if not all(find_stage.is_free_of_directory(self.call, each) for each in naming):
            return direct.SAME_DIRECTORY
        if not naming and self._is_free_of_checkout(answer, inputs):
            return direct.BELOW_BASE
        return direct.ANY_DIRECTORY if self._is_free_of_directory(answer, inputs) else direct.SAME_DIRECTORY

    def _is_free_of_directory(self, answer: Answer, inputs: InputRecord) -> bool:
        """Whether the same argv gives the same result in any directory."""
        texts = self._texts(answer)
        if any(os.fsencode(self.cwd) in text or elf.hides_text(text) for text in texts):
            return False
        has_relative_id = self.call.contains_id and bool(self.call.checkout)
        return not has_relative_id and not input_records.follows_directory(inputs)

    def _contains_output_names(self, answer: Answer) -> bool:
        """Whether a product or a message contains the name of an output."""
        for stage in self.call.plan.stages:
            if stage.grammar.sees_output_names and any(out.destination for out in stage.outputs):
                return True
        names = [os.fsencode(destination) for destination, _, _ in answer.products]
        return any(name in answer.result.stderr + answer.result.stdout for name in names)

    def _is_free_of_checkout(self, answer: Answer, inputs: InputRecord) -> bool:
        """Whether there is a base directory, and the result is the same in every checkout below it.

        nvcc gets relative paths. So it is if no absolute name led into the checkout, except those that come
        from PATH, and nothing in the result shows where it is.
        """
        checkout = self.call.checkout
        if not checkout:
            return False
        # Relative names may lead out of the checkout.
        root = os.path.commonpath([checkout, *input_records.relative_places(inputs)])
        searched = self._environ.get("PATH", "").split(":")
        if len(root) < 2 or input_records.names_any_in([root], inputs, searched):
            return False
        needle = os.fsencode(root)
        return not any(needle in text or elf.hides_text(text) for text in self._texts(answer))

    def links_in_any_checkout(self, links: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Links with their targets, of which those in the checkout are relative."""
        checkout = f"{self.call.checkout}/"
        return [
            (path, os.path.relpath(target) if f"{target}/".startswith(checkout) else target)
            for path, target in links
        ]

    def _texts(self, answer: Answer) -> list[bytes]:
        """The products and messages."""
        outputs = [out for stage in self.call.plan.stages for out in stage.outputs if out.destination]
        contents = [run_stage.content_of(self.call, output) for output in outputs]
        return [*contents, answer.result.stdout, answer.result.stderr]


def _reasons_of_call(invocation: Invocation, plan: Plan) -> list[str]:
    reasons = []
    if any(
        argument.value and "native" in argument.value
        for argument in invocation.arguments
        if argument.name in ("gpu-architecture", "gpu-code", "generate-code")
    ):
        reasons.append("it compiles for the native architecture")
    if len(plan.dependency_files) > 1:
        reasons.append("it writes several dependency files")
    return reasons


def of_compile(recorder: Recorder, report: Report) -> None:
    """Record a finished call; sets `record` or `reason_against_record` of the report."""
    cache = recorder.call.store
    reason_against_record = recorder.reason_against_record()
    try:
        inputs = recorder.input_record() if not reason_against_record else InputRecord()
    except (UnreadableError, OSError) as error:
        reason_against_record = str(error)
    if reason_against_record:
        report.reason_against_record = reason_against_record
        return
    answer = recorder.answer()
    scope = recorder.scope(answer, inputs)
    if not scope.startswith(direct.SAME_DIRECTORY):
        input_records.forget_parents_of(recorder.cwd, inputs)
    listed = [(os.fsdecode(name), is_system) for name, is_system in recorder.entered()]
    if scope.startswith(direct.BELOW_BASE):
        inputs.links = recorder.links_in_any_checkout(inputs.links)
    lookup_key = direct.make_lookup_key(recorder.request, scope)
    since_ns = recorder.call.since_ns
    store(recorder.request, lookup_key, inputs, answer, listed, cache, since_ns, report)


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
    """Record the inputs and the answer of a call that began at `since_ns`, also for replays.

    `listed` as in direct.result_of.
    """
    inputs.cache_signatures = [signatures.signature_of(path) or signatures.UNKNOWN for path in inputs.caches]
    result = direct.result_of(answer, listed, request.invocation)
    if result is None:
        report.reason_against_record = "the names of its outputs do not follow from its command line"
        return
    result.basis = list(cache.used)
    entry = Entry(lookup_key, inputs, result)
    record.add(entry, cache, since_ns)
    replay.add_of_process(request, inputs, answer, cache, since_ns)
    report.record = entry

"""From a compile that has been carried out to the records that answer it the next time.

Decides whether there can be a record at all, and how widely it may be shared. What a call read is the union
of what its dry run and its stages were observed to read; its key does not say it.
"""

from __future__ import annotations

import copy
import os

from nvccache import module_id as ids
from nvccache.environment import OF_ARGUMENTS
from nvccache.execution import find_stage, run_stage
from nvccache.execution.context import SHARED
from nvccache.files import elf, presence, signatures
from nvccache.observation import process_checks
from nvccache.observation.stage_inputs import Subject
from nvccache.plan import stage_key
from nvccache.plan.stages import tool_of
from nvccache.preprocessed import passes
from nvccache.records import direct, facts, input_records, products, record, replay
from nvccache.records.input_records import InputRecord, UnreadableError
from nvccache.records.products import Answer
from nvccache.records.record import Pair, Result
from nvccache.store import event_line
from nvccache.toolkit import toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.commandline.invocation import Invocation
    from nvccache.compile.call import Report
    from nvccache.compile.dry_runs import DryRun
    from nvccache.execution.staged_call import Known, StagedCall
    from nvccache.plan.model import Plan
    from nvccache.records.base_dir import Relocation
    from nvccache.records.record import Front
    from nvccache.records.request import Request
    from nvccache.store.store import Store


_AT_ONCE = 1 << 16  # bytes
HOLDS_ID = "the module id in it depends on paths"
HOLDS_LINKED_ID = "the module id in it, which device links see, depends on paths"
IS_BOUND = "what it holds depends on what it is called"
HOLDS_DIRECTORY = "debug or line information in it tells where it was made"
NAMED_IN_TEXT = "its text tells where it is, as `__FILE__` and `assert` do"
NAMED_IN_RESULT = "it, or a message, tells where it was made"
LED_HERE = "a variable or file that its compile reads names a path there"
HAS_NO_CHECKOUT = "nothing but `/` holds both its source and its working directory"


class Recorder:
    """What a call that has been carried out was and did."""

    def __init__(
        self,
        request: Request,
        call: StagedCall,
        known: Known,
        report: Report,
        dry_run: DryRun,
        relocation: Relocation,
    ) -> None:
        self.request = request
        self.nvcc = request.nvcc
        self.invocation = request.invocation
        self.call = call
        self.known = known
        self.relocation = relocation
        self.cwd = os.getcwd()
        self._report = report
        self._dry_run = dry_run
        self._environ = call.environ

    def reason_against_record(self) -> str:
        """The first reason why the call cannot be recorded, a clause; or empty."""
        reasons = [*self.known.reasons_against_record, *_of_call(self.invocation, self.call.plan)]
        return next((reason for reason in reasons if reason), "")

    def input_record(self) -> InputRecord:
        """Everything the call read, its dry run included; raises UnreadableError or OSError."""
        call = self.call
        parts = [self._read_by_dry_run(), *(known.input_record for known in call.context.rehearsals)]
        parts += self.known.input_records
        parts += [call.inputs.of_tool(call.subject_of(stage)) for stage in call.plan.stages]
        made = call.inputs.union(parts, self.request.environ, self._files_in_keys())
        made.dates = sorted(
            {*made.dates, *((path, presence.date_and_size(path)) for path in self.known.dated_files)}
        )
        return made

    def _read_by_dry_run(self) -> InputRecord:
        """What the dry run read, and keep it for the next call with this argv; raises as `input_record`."""
        dry_run, call = self._dry_run, self.call
        if dry_run.input_record:
            return dry_run.input_record
        assert dry_run.log
        # The key has their arguments, and a replay's key their values.
        variables = frozenset(OF_ARGUMENTS)
        subject = Subject(self.request.guarded_environ, self.nvcc, known_variables=variables)
        observation = dry_run.log.read()
        made = call.inputs.input_record(observation, subject)
        if not process_checks.grown_file(observation.processes, call.plan.scratch):
            dry_run.keep(made, call.context.since_ns)
        return made

    def without_option_files(self, read: InputRecord) -> InputRecord:
        """What was read, less the option files that only nvcc reads: the key holds what they say."""
        of_stages = {path for part in self.known.input_records for path in part.files}
        copies = {part for group in read.duplicates for part in group}
        dropped = set(self.invocation.option_files) - of_stages - copies
        kept = [index for index, path in enumerate(read.files) if path not in dropped]
        made = copy.copy(read)
        made.kinds = "".join([read.kinds[index] for index in kept])
        for name in ("files", "digests", "signatures"):
            setattr(made, name, [getattr(read, name)[index] for index in kept])
        return made

    def _files_in_keys(self) -> list[str]:
        """The files that we have read ourselves: those of which stages read a part."""
        stages = self.call.plan.stages
        named = [path for stage in stages for path in stage_key.files_in_key(stage, self._environ)]
        return [path for path in dict.fromkeys(named) if toolchain.is_regular_file(path)]

    def answer(self) -> Answer:
        """The result of the call; of a program, the inputs of the host's link and the output before it."""
        call, report = self.call, self._report
        written = report.output_before_link if call.plan.host_link else (report.stdout, report.stderr)
        # A replay saves all stages but a link that has to run.
        counted = [stage for stage in report.stages if tool_of(stage.kind).is_counted]
        result = Result((), *written)
        result.seconds = sum(stage.cost for stage in counted)
        result.wall = sum(stage.wall for stage in counted)
        result.stages = list(map(event_line.text_of_hit, counted))
        given = Answer(result)
        given.sources = list(self.invocation.inputs)
        for stage in call.plan.stages:
            for output in stage.outputs:
                if output.destination:
                    digest = call.workspace.digest_of(output.path)
                    given.products.append((output.destination, digest, stage.tool.unlinks_output))
        for step in call.plan.dependency_files:
            given.dependency_file = step.path
            given.rule = products.rule(self.entered(), self.invocation)
        for path in dict.fromkeys(call.plan.host_link.inputs if call.plan.host_link else ()):
            name = os.path.relpath(path, call.plan.scratch)
            given.intermediates.append((name, call.workspace.digest_of(path)))
        return given

    def entered(self) -> list[tuple[bytes, bool]]:
        for step in self.call.plan.dependency_files:
            return passes.union([self.call.workspace.passes[path].listed for path in step.preprocessed])
        return []

    def scope(self, given: Answer, made: InputRecord) -> tuple[str, str]:
        """How widely the record of a call may be shared, and what keeps others from it."""
        # A wrapper may choose by paths of outputs and directories, too, of which a record may leave out some.
        is_bound = self.known.is_bound or any(known.may_choose for known in self.call.context.rehearsals)
        if is_bound or self._names_outputs(given) or given.intermediates:
            return direct.BOUND, (self.known.is_bound and self._kept_here(given)) or IS_BOUND
        pwd = self._environ.get("PWD", self.cwd)
        stages = self.call.plan.stages
        naming = [
            each for each in stages if each.tool.names_directory(each.command or each.argv, self.cwd, pwd)
        ]
        if not all(find_stage.is_free_of_directory(self.call, each) for each in naming):
            return direct.PLACED, HOLDS_DIRECTORY
        kept_here = HOLDS_DIRECTORY if naming else self._kept_here(given)
        kept_here = kept_here or (LED_HERE if self._is_led_to(self.relocation.checkout, made) else "")
        if not kept_here:
            return direct.SHARED, ""
        return direct.TYPED if self._is_as_typed(given, made) else direct.PLACED, kept_here

    def _is_as_typed(self, given: Answer, made: InputRecord) -> bool:
        """Whether the same argv has the same result in any directory where they lead to the same contents.

        Paths in the directory are relative then. A module id tells the absolute path of its source, which
        the words have to do as well.
        """
        texts = self._texts(given)
        if any(map(elf.hides_text, texts)):
            return False
        here = f"{self.cwd}/"
        if any(path.startswith(here) for path in (*made.files, *made.directories)) or any(
            here in word for argument in self.invocation.arguments for word in argument.tokens
        ):
            is_free = all(known.is_free_of(self.cwd) for known in self.call.workspace.passes.values())
            needs_checkout = any(topic == facts.CHECKOUT for topic, _, _ in made.machine)
            if not is_free or needs_checkout or any(os.fsencode(self.cwd) in text for text in texts):
                return False
            if self._is_led_to(self.cwd, made):
                return False
        if not self._may_hold_id(given):
            return True
        is_relative = self.call.context.ids_choice == SHARED
        return all(
            os.path.isabs(source) != is_relative and not source.startswith(here)
            for source in self.invocation.inputs
        )

    def _is_led_to(self, here: str, made: InputRecord) -> bool:
        """Whether a variable or a file that was read names a path in this directory.

        What was found by it lies there for other directories as well, and not in the same place of theirs.
        """
        environ = self.request.environ
        # The directory is in the key.
        values = [environ.get(name, "") for name, _ in made.variables if name != "PWD"]
        if any(here in value for value in values):
            return True
        read = [
            path for path, kind in zip(made.files, made.kinds, strict=True) if kind != input_records.LIBRARY
        ]
        return any(os.fsencode(here) in _text_of(path) for path in read)

    def _names_outputs(self, given: Answer) -> bool:
        """Whether a product or a message holds the name of an output."""
        for stage in self.call.plan.stages:
            if stage.grammar.sees_output_names and any(out.destination for out in stage.outputs):
                return True
        names = [os.fsencode(destination) for destination, _, _ in given.products]
        return any(name in given.result.stderr + given.result.stdout for name in names)

    def _kept_here(self, given: Answer) -> str:
        """What in the result may tell where the checkout is, a clause; or empty."""
        checkout = self.relocation.checkout
        if not checkout:
            return HAS_NO_CHECKOUT
        if not all(known.is_free_of(checkout) for known in self.call.workspace.passes.values()):
            return NAMED_IN_TEXT
        needle = os.fsencode(checkout)
        if any(needle in text or elf.hides_text(text) for text in self._texts(given)):
            return NAMED_IN_RESULT
        if self.call.context.ids_choice == SHARED or not self._may_hold_id(given):
            return ""
        plan, pwd = self.call.context.plan, self._environ.get("PWD", self.cwd)
        is_linked = not ids.may_be_relative(plan, os.path.dirname(checkout), self.cwd, pwd)
        return HOLDS_LINKED_ID if is_linked else HOLDS_ID

    def _texts(self, given: Answer) -> list[bytes]:
        """The products and messages."""
        outputs = [out for stage in self.call.plan.stages for out in stage.outputs if out.destination]
        contents = [run_stage.content_of(self.call, output) for output in outputs]
        return [*contents, given.result.stdout, given.result.stderr]

    def _may_hold_id(self, given: Answer) -> bool:
        """Whether a module id may be in what the call gives."""
        stages = self.call.plan.stages
        return any(map(ids.may_contain_id, self._texts(given))) or any(
            map(self.call.module_ids.may_contain_id, stages)
        )


def _text_of(path: str) -> bytes:
    """What a file holds that was read just now, or nothing for a program; raises OSError."""
    descriptor = os.open(
        path, os.O_RDONLY | os.O_CLOEXEC
    )  # hundreds of headers: what `open` asks for costs more
    try:
        parts = [os.read(descriptor, _AT_ONCE)]
        while len(parts[-1]) == _AT_ONCE and not parts[0].startswith(elf.MAGIC):
            parts.append(os.read(descriptor, _AT_ONCE))
    finally:
        os.close(descriptor)
    return b"" if parts[0].startswith(elf.MAGIC) else b"".join(parts)


def _of_call(invocation: Invocation, plan: Plan) -> list[str]:
    found = []
    if any(
        argument.value and "native" in argument.value
        for argument in invocation.arguments
        if argument.name in ("gpu-architecture", "gpu-code", "generate-code")
    ):
        found.append("it asks for the native architecture")
    if len(plan.dependency_files) > 1:
        found.append("it writes several dependency files")
    return found


def of_compile(recorder: Recorder, report: Report) -> None:
    """Record a call that has been carried out, at every level where that is sound; the report says where."""
    cache = recorder.call.store
    recorder.call.inputs.files.remember()
    reason_against_record = recorder.reason_against_record()
    try:
        made = recorder.input_record() if not reason_against_record else InputRecord()
    except (UnreadableError, OSError) as error:
        reason_against_record = str(error)
    if reason_against_record:
        report.reason_against_record = reason_against_record
        return
    given = recorder.answer()
    as_typed, made = made, recorder.without_option_files(made)
    scope, kept_here = recorder.scope(given, made)
    relocation = direct.relocation_of(scope, recorder.relocation)
    if scope in (direct.SHARED, direct.TYPED):
        input_records.forget_parents_of(recorder.cwd, made)
    listed = [(os.fsdecode(name), is_system) for name, is_system in recorder.entered()]
    front = direct.front_of(recorder.request, scope, relocation)
    since_ns = recorder.call.context.since_ns
    keep(recorder.request, front, made, as_typed, given, listed, cache, since_ns, report)
    if report.record:
        report.kept_here = kept_here


def keep(
    request: Request,
    front: Front,
    made: InputRecord,
    as_typed: InputRecord,
    given: Answer,
    listed: Sequence[tuple[str, bool]],
    cache: Store,
    since_ns: int,
    report: Report,
) -> None:
    """Put what a call read and gave from `since_ns` on into the cache, at every level.

    `listed` as in direct.result_of. `as_typed` is what the same words read, which may be more than calls of
    the same meaning read.
    """
    for read in (made, as_typed):
        read.cache_signatures = [signatures.of(path) or signatures.UNKNOWN for path in read.caches]
    result = direct.result_of(given, listed, request.invocation)
    if result is None:
        report.reason_against_record = "the name of its dependency file follows from nothing known"
        return
    result.basis = list(cache.used)
    pair = Pair(record.front_for(result, front, request.terminal), made, result)
    record.add(pair, cache, since_ns)
    input_records.forget_unsettled(as_typed, since_ns)
    replay.add_of(request, as_typed, given, cache)
    report.record = pair

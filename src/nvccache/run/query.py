"""A query: a call that nvcc answers without compiling (-M, -E, --version).

There are no stages. nvcc runs as it was called, and the record of the call has what that run was observed to
read. Its answer is a product, even if it goes to standard output.
"""

from __future__ import annotations

import os

from nvccache.files import keys, signatures
from nvccache.machine import scratch, streams
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.records import direct, output_names
from nvccache.records.input_records import UnreadableError
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.run import record_call, wrappers
from nvccache.run.report import Report
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.machine.process import Completed
    from nvccache.observation.observer import Log, Watch
    from nvccache.records.request import Request
    from nvccache.store.store import Store


@dataclass(frozen=True, slots=True)
class Run:
    """nvcc's run for a query."""

    request: Request
    cache: Store
    path: str  # the scratch directory
    since_ns: int  # when the call began
    completed: Completed
    log: Log
    product: str  # the absolute path that nvcc writes to; empty for standard output
    existed: bool  # whether the product was there before


def reason_to_leave(request: Request, cache: Store, watch: Watch) -> str:
    """Why the query is left to nvcc, one of outcomes.REASONS; empty if its answer may be recorded."""
    return request.invocation.mode if watch.is_blind or cache.is_readonly else ""


def run_query(request: Request, cache: Store, path: str, watch: Watch, since_ns: int) -> tuple[Report, Run]:
    """Run nvcc; raises OSError."""
    product = os.path.abspath(request.invocation.output) if request.invocation.output else ""
    existed = bool(product) and os.path.lexists(product)
    completed, log = watch.run(
        [request.nvcc, *request.arguments],
        request.guarded_environ,
    )
    report = Report(
        scratch.hide_paths(completed.stdout, path),
        scratch.hide_paths(completed.stderr, path),
    )
    report.status, report.is_query = completed.status, True
    report.product = product
    if completed.status < 0 or (completed.status and log.read().incomplete):  # perhaps since it is observed
        report.leave_to_nvcc = "odd_failure"
    elif not streams.can_be_written(bool(report.stdout), bool(report.stderr)):
        report.leave_to_nvcc = "query_streams"
    return report, Run(request, cache, path, since_ns, completed, log, product, existed)


def record(run: Run, report: Report) -> None:
    """Record nvcc's answer, unless the next one may differ."""
    try:
        _record(run, report)
    except (UnreadableError, OSError) as error:
        report.reason_against_record = str(error)


def _record(run: Run, report: Report) -> None:
    """The same; raises UnreadableError or OSError."""
    request, completed = run.request, run.completed
    observation = run.log.read()
    inputs = ObservedInputs(run.cache, os.getcwd(), run.path, run.since_ns)
    products = frozenset((run.product,) if run.product else ())
    subject = Subject(request.guarded_environ, request.nvcc, intermediates=products)
    read = inputs.input_record(observation, subject)
    reason = ""
    if products:
        if not run.existed:
            reason = wrappers.unusual_mode(run.product, "a query", run.path)
        written = {run.product: signatures.signature_of(run.product) or signatures.UNKNOWN}
        if not wrappers.was_written_by(written, observation):
            reason = f"another program writes `{run.product}`"
    content = _content(run)
    answered = completed.stdout + completed.stderr + content
    temporary = (os.path.basename(path) for path in observation.written if not os.path.lexists(path))
    if os.fsencode(run.path) in answered or any(os.fsencode(name) in answered for name in temporary):
        reason = "its answer names temporary files"
    if completed.is_cut_short:
        reason = "a process that it started may still print messages"
    if reason:
        raise UnreadableError(reason)
    input_record = inputs.union([read], request.environ, request.invocation.option_files)
    answer = _answer(run, content)
    run.cache.add_blob(answer.products[0][1], content, compress=False)
    lookup_key = direct.make_lookup_key(request, direct.SAME_DIRECTORY)
    record_call.store(request, lookup_key, input_record, answer, (), run.cache, run.since_ns, report)


def _content(run: Run) -> bytes:
    """nvcc's answer, from the product or standard output; raises OSError."""
    if not run.product:
        return run.completed.stdout
    with open(run.product, "rb") as stream:
        return stream.read()


def _answer(run: Run, content: bytes) -> Answer:
    completed, invocation = run.completed, run.request.invocation
    result = Result((), completed.stdout if run.product else b"", completed.stderr)
    result.seconds = completed.cpu or completed.seconds
    answer = Answer(result)
    name = invocation.output or output_names.STANDARD_OUTPUT
    answer.products = [(name, keys.digest_bytes(content), False)]
    answer.sources = list(invocation.inputs)
    return answer

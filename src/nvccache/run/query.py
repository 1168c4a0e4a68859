"""A query: a call that nvcc answers without compiling (-M, -E, --version).

A query has no stages. nvcc runs with the caller's command line, and the record of the call contains what nvcc
was observed to read. The answer is stored like a product, even if nvcc prints it to standard output.
"""

from __future__ import annotations

import os

from nvccache.files import keys, signatures
from nvccache.machine import scratch, streams
from nvccache.machine.process import Completed
from nvccache.observation.observer import Watch
from nvccache.observation.observer_log import Observation
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.records import call_key, output_names
from nvccache.records.direct_hit import Request
from nvccache.records.facts import CurrentState
from nvccache.records.input_records import UnreadableError
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.run import record_call, wrappers
from nvccache.run.report import Report
from nvccache.store.store import Store


def run_query(request: Request, cache: Store, path: str, watch: Watch, since_ns: int) -> Report:
    """Run nvcc, and record its answer; raises OSError. `path` is the scratch directory."""
    if cache.is_readonly:
        return Report(leave_to_nvcc=request.invocation.mode)
    product = os.path.abspath(request.invocation.output) if request.invocation.output else ""
    existed = bool(product) and os.path.lexists(product)
    completed, log = watch.run([request.nvcc, *request.arguments], request.guarded_environ)
    report = Report(scratch.hide_paths(completed.stdout, path), scratch.hide_paths(completed.stderr, path))
    report.status, report.is_query, report.product = completed.status, True, product
    # The query may have failed only because it was observed, so nvcc runs it again.
    if completed.status < 0 or (completed.status and log.read().incomplete):
        report.leave_to_nvcc = "odd_failure"
    elif not streams.can_be_written(bool(report.stdout), bool(report.stderr)):
        report.leave_to_nvcc = "query_streams"
    if completed.status == 0:
        try:
            record_call.check_clock()
            _record(request, cache, path, since_ns, completed, log.read(), report, existed)
        except (UnreadableError, OSError) as error:
            report.reason_against_record = str(error)
        if report.reason_against_record:
            report.causes = [f"not recorded: {report.reason_against_record}"]
    return report


def _record(
    request: Request,
    cache: Store,
    path: str,
    since_ns: int,
    completed: Completed,
    observation: Observation,
    report: Report,
    existed: bool,
) -> None:
    """Record the answer; raises OSError, or UnreadableError if the same query may be answered differently."""
    product, content = report.product, completed.stdout
    if product:
        with open(product, "rb") as stream:
            content = stream.read()
    inputs = ObservedInputs(cache, os.getcwd(), path, since_ns, CurrentState(request.environ, request.now))
    products = frozenset((product,) if product else ())
    subject = Subject(request.guarded_environ, request.nvcc, intermediates=products)
    read = inputs.input_record(observation, subject)
    if product:
        written = {product: signatures.signature_of(product) or signatures.UNKNOWN}
        if not wrappers.was_written_by(written, observation):
            raise UnreadableError(f"another program writes `{product}`")
        if mode := "" if existed else wrappers.unusual_mode(product, "a query", path):
            raise UnreadableError(mode)
    answered = completed.stdout + completed.stderr + content
    temporary = (os.path.basename(path) for path in observation.written if not os.path.lexists(path))
    if os.fsencode(path) in answered or any(os.fsencode(name) in answered for name in temporary):
        raise UnreadableError("the output of nvcc contains names of temporary files")
    if completed.is_cut_short:
        raise UnreadableError("a process that nvcc started may still print messages")
    input_record = inputs.union([read], request.environ, request.invocation.option_files)
    result = Result((), completed.stdout if product else b"", completed.stderr)
    result.seconds = completed.cpu or completed.seconds
    answer = Answer(result)
    name = request.invocation.output or output_names.STANDARD_OUTPUT
    answer.products = [(name, keys.digest_bytes(content), False)]
    answer.sources = list(request.invocation.inputs)
    cache.add_blob(answer.products[0][1], content, compress=False)
    lookup_key = call_key.make_lookup_key(request, call_key.SAME_DIRECTORY)
    record_call.store(request, lookup_key, input_record, answer, (), cache, since_ns, report)

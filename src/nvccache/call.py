"""One call from its invocation to a report: scratch directory, dry run, plan, stages, upkeep."""

from __future__ import annotations

import os
import tempfile

from nvccache import dryrun, eviction, execution, journal, log, plan, runner, store
from nvccache.invocation import Bypass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.invocation import Invocation


def carry_out(nvcc: str, invocation: Invocation, config: Config, environ: dict[str, str]) -> runner.Report:
    """Compile with what the store has. Raises OSError, execution.Unfit; nothing is left in scratch."""
    scratch = tempfile.mkdtemp(prefix="nvccache-", dir=os.path.abspath(environ.get("TMPDIR") or "/tmp"))
    try:
        report = _compile(nvcc, invocation, config, environ, scratch)
    finally:
        store.remove_tree(scratch)
    if report.leave_to_nvcc:
        log.write(config.log, f"left to nvcc: {report.leave_to_nvcc}")
    return report


def _compile(
    nvcc: str, invocation: Invocation, config: Config, environ: dict[str, str], scratch: str
) -> runner.Report:
    transcript = dryrun.transcribe(nvcc, invocation.dryrun_arguments, scratch, environ)
    if isinstance(transcript, Bypass):
        return _left_to_nvcc(transcript, config)
    planned = plan.build(transcript, invocation, scratch)
    if isinstance(planned, Bypass):
        return _left_to_nvcc(planned, config)
    cache = store.Store(config.dir, config.readonly)
    variables = {name: value for name, value in transcript.variables.items() if not name.startswith("NVCC_")}
    stages = execution.Execution(
        planned, {**environ, **variables}, os.getcwd(), cache, is_recaching=config.recache
    )
    report = runner.run(stages, invocation, transcript.messages, config.log)
    if cache.trouble:
        log.write(config.log, f"store: {cache.trouble}")
    if cache.added_bytes:
        eviction.count_and_limit(config.dir, cache.added_bytes, config.max_size)
        journal.fold_if_large(config.dir)
    return report


def _left_to_nvcc(bypass: Bypass, config: Config) -> runner.Report:
    log.write(config.log, f"bypass {bypass.reason} {bypass.detail}")
    return runner.Report(leave_to_nvcc=bypass.reason)

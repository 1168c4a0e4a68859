"""One call from its invocation to a report: scratch directory, dry run, plan, stages, upkeep."""

from __future__ import annotations

import os

from nvccache import dryrun, eviction, execution, log, plan, process, runner, store
from nvccache.invocation import Bypass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.invocation import Invocation

# nvcc and its tools write file names into commands and C text; these they do not quote as they should.
_UNQUOTABLE = frozenset('\\"$`\n')


def carry_out(nvcc: str, invocation: Invocation, config: Config, environ: dict[str, str]) -> runner.Report:
    """Compile with what the store has. Raises OSError and LostResultError; leaves nothing in scratch."""
    # Named before it is made: a signal that comes in between must not leave it behind.
    parent = os.path.abspath(environ.get("TMPDIR") or "/tmp")
    scratch = os.path.join(parent, f"nvccache-{os.urandom(8).hex()}")
    if not _UNQUOTABLE.isdisjoint(scratch):
        return _left_to_nvcc(Bypass("shell_expansion", scratch), config)
    try:
        os.mkdir(scratch, 0o700)
        report = _compile(nvcc, invocation, config, environ, scratch)
    except process.Interrupted:
        process.await_children()
        raise
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
    return report


def _left_to_nvcc(bypass: Bypass, config: Config) -> runner.Report:
    log.write(config.log, f"bypass {bypass.reason} {bypass.detail}")
    return runner.Report(leave_to_nvcc=bypass.reason)

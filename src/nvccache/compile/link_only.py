"""A program for which a record has all stages but the host's link, which runs.

The inputs of the host linker are not recorded, so it runs each time. All earlier stages are answered by a
record, as in a direct hit; neither plan nor keys are needed. The command of the link comes from a dry run,
never from a record: write access to the cache must not be enough to have commands run.
"""

from __future__ import annotations

import os

from nvccache import log
from nvccache.commandline import host_options
from nvccache.compile.call import Report
from nvccache.machine import process, scratch
from nvccache.machine.watchdog import SCRATCH_VARIABLE, within_scratch
from nvccache.records import products
from nvccache.store import directory, event_line
from nvccache.store.store import Store
from nvccache.toolkit import dryrun
from nvccache.toolkit.dryrun import Command, Transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.records.products import Answer
    from nvccache.records.request import Request


def carry_out(request: Request, known: Answer) -> Report | None:
    """Link the program; None if all stages have to be gone through.

    That is so if the store has lost something, and if the link fails: its diagnostics then appear in nvcc's
    order, with nvcc's status.
    """
    config = request.config
    cache = Store(directory.of(config), config.readonly)
    path = scratch.choose(request.environ, config.dir)
    if not scratch.is_quotable(path):
        return None
    try:
        report = within_scratch(path, None, lambda: _link(request, known, path, cache))
    except OSError as error:
        log.write(config.log, f"the link alone is not enough: {error}")
        return None
    log.write(config.log, "only the link ran" if report else "the link alone is not enough")
    return report


def _link(request: Request, known: Answer, path: str, cache: Store) -> Report | None:
    transcript = dryrun.of_invocation(request.nvcc, request.invocation, request.guarded_environ, path)
    argv = _command(transcript) if isinstance(transcript, Transcript) else ()
    names = {name for name, _ in known.intermediates}
    if not isinstance(transcript, Transcript) or _read_by(argv, path) != names:
        return None
    for name, digest in known.intermediates:
        content = cache.read_blob(digest)
        if content is None:
            return None
        with open(os.path.join(path, name), "wb") as stream:
            stream.write(content)
    if products.restore(known, cache) != products.RESTORED:
        return None
    environ = {**request.guarded_environ, **transcript.variables_of_commands, SCRATCH_VARIABLE: path}
    completed = process.run(argv, environ)
    if completed.status != 0:
        return None
    report = Report(
        known.result.stdout + scratch.hide_paths(completed.stdout, path),
        known.result.stderr + scratch.hide_paths(completed.stderr, path),
    )
    report.is_linked = True
    report.stages = [stage for stage in map(event_line.stage_of, known.result.stages) if stage]
    report.product = next((argv[at + 1] for at, argument in enumerate(argv[:-1]) if argument == "-o"), "")
    return report


def _command(transcript: Transcript) -> Sequence[str]:
    """The argv of the host's link; empty if that is not nvcc's last command."""
    last = transcript.steps[-1] if transcript.steps else None
    return last.argv if isinstance(last, Command) and host_options.is_link(last.argv) else ()


def _read_by(argv: Sequence[str], path: str) -> set[str]:
    """The intermediates that a command names, relative to the scratch directory."""
    return {argument.partition(path + "/")[2] for argument in argv if path + "/" in argument}

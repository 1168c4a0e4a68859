"""`nvccache doctor` for remote execution: whether it works, and if not, why."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

from nvccache import endpoint
from nvccache.cli.install import install_command
from nvccache.cli.output import BAD, GOOD, Finding
from nvccache.cli.settings import change_command
from nvccache.config import Config
from nvccache.endpoint import Endpoint
from nvccache.real_nvcc import is_program
from nvccache.remote_execution import faults, prefix, work
from nvccache.remote_execution.faults import ExecutorError, NotInstalledError


def check_executor(settings: Config) -> Iterator[Finding]:
    """Requires that NVCCACHE_EXECUTOR is set."""
    where = endpoint.parse(settings.executor)
    try:
        if not is_program(work.CHECK):
            raise ExecutorError(faults.BROKEN, "nvccache was built without a static C library")
        check = _check_launcher if where.is_launcher else _check_engine
        yield Finding(GOOD, "executor", check(where, settings))
    except ExecutorError as error:
        is_missing = isinstance(error, NotInstalledError)
        command = install_command("exec") if is_missing else change_command(settings, "executor")
        text = f"`{where.shown}` cannot be used: {error.fault}"
        yield Finding(BAD, "executor", text, (str(error),), (command,))


def _check_engine(where: Endpoint, settings: Config) -> str:
    """A sentence about an engine that can be used; raises ExecutorError."""
    from nvccache.remote_execution.client import Client

    with contextlib.closing(Client(where)) as client:
        client.check()
    return f"`{where.shown}` executes and uses SHA-256 digests"


def _check_launcher(where: Endpoint, settings: Config) -> str:
    """The same about a launcher."""
    program = where.launcher[0]
    if not shutil.which(program):
        raise ExecutorError(faults.UNREACHABLE, f"there is no program `{program}`")
    why = prefix.why_unusable(settings.executor_dir)
    if why:
        raise ExecutorError(faults.BROKEN, why)
    return f"`{program}` starts stages, with their files in `{settings.executor_dir}`"

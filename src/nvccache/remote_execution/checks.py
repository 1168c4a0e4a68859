"""`nvccache doctor` for remote execution: whether it works, and if not, why."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Iterator

from nvccache import endpoint
from nvccache.cli.install import adding
from nvccache.cli.output import BAD, GOOD, Finding
from nvccache.cli.settings import changing
from nvccache.config import Config
from nvccache.endpoint import Endpoint
from nvccache.real_nvcc import is_program
from nvccache.remote_execution import faults, prefix, work
from nvccache.remote_execution.faults import ExecutorError, NotInstalledError

_ADVICE = {
    faults.UNREACHABLE: "check that the server runs and answers from here, and `ca=` in NVCCACHE_EXECUTOR",
    faults.DENIED: "set `token_file=`, or `cert=` and `key=`, and have the server permit it to execute",
    faults.NO_WORKERS: "wait, or give the server more workers or storage",
    faults.BROKEN: "check that the address is that of an engine, and that `instance=` is one that executes",
}


def of_executor(settings: Config) -> Iterator[Finding]:
    """Requires that NVCCACHE_EXECUTOR is set."""
    if not is_program(work.CHECK):
        text = "nothing is sent: nvccache was built without a static C library"
        yield Finding(
            BAD, "executor", text, (), ("pip install --force-reinstall --no-binary nvccache nvccache",)
        )
    where = endpoint.parse(settings.executor)
    yield _check_launcher(where, settings) if where.is_launcher else _check_engine(where, settings)


def _check_engine(where: Endpoint, settings: Config) -> Finding:
    began = time.monotonic()
    try:
        from nvccache.remote_execution.client import Client

        client = Client(where)
        with contextlib.closing(client.connection):
            client.check()
    except ExecutorError as error:
        return _finding_of(where, error, settings)
    answers = f"`{where.shown}` answers in {(time.monotonic() - began) * 1e3:.0f} ms"
    return Finding(GOOD, "executor", f"{answers}; it executes and uses SHA-256 digests")


def _finding_of(where: Endpoint, error: ExecutorError, settings: Config) -> Finding:
    text = f"`{where.shown}` cannot be used: {error.fault}"
    if isinstance(error, NotInstalledError):
        return Finding(BAD, "executor", text, (str(error),), (adding("exec"),))
    advice = [f"to fix it: {_ADVICE[error.fault]}; or do without"] if error.fault in _ADVICE else []
    return Finding(BAD, "executor", text, (str(error), *advice), (changing(settings, "executor"),))


def _check_launcher(where: Endpoint, settings: Config) -> Finding:
    program, folder = where.launcher[0], settings.executor_dir
    elsewhere = changing(settings, "executor_dir", "/ANOTHER/PATH")
    if not shutil.which(program):
        details = ("to fix it: install it, or put its directory on PATH; or do without",)
        text = f"there is no program `{program}`"
        return Finding(BAD, "executor", text, details, (changing(settings, "executor"),))
    if not folder:
        text = "`NVCCACHE_EXECUTOR_DIR` is not set: a launcher needs a directory that all machines share"
        fix = changing(settings, "executor_dir", "/PATH/ON/ALL/MACHINES")
        return Finding(BAD, "executor", text, (), (fix,))
    if not prefix.PLAIN.fullmatch(folder):
        text = f"`{folder}` has a character that a launcher may interpret"
        return Finding(BAD, "executor", text, (), (elsewhere,))
    problem = prefix.why_unusable(folder)
    if problem:
        owned = f'sudo install -d -o "$(id -un)" -m 700 {shlex.quote(folder)}'
        return Finding(BAD, "executor", problem, (), (owned, elsewhere))
    text = f"`{program}` starts stages, with their files in `{folder}`"
    later = "" if os.path.isdir(folder) else "; it is made when the first one is sent"
    return Finding(GOOD, "executor", text + later)

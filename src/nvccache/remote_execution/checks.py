"""What `nvccache doctor` says of machines that run stages: whether they work, and why not."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
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
from nvccache.remote_execution.faults import ExecutorError

_ADVICE = {
    faults.UNREACHABLE: "see whether the server runs, and whether it can be reached from here",
    faults.TIMEOUT: "see whether the server is overloaded, or something on the way takes what is sent",
    faults.TLS: "name the file with the certificate of its authority by `ca=` in NVCCACHE_EXECUTOR",
    faults.DENIED: "have the server permit it to this token or certificate, or name another instance",
    faults.BAD_CREDENTIALS: "name a file with a token by `token_file=`, or certificates by `cert=`, `key=`",
    faults.FULL: "wait, or give the server more room",
    faults.OTHER_VERSION: "name an instance that executes by `instance=`, or another server",
    faults.BROKEN: "see whether the address is that of an engine, and its `instance=` right",
}


def of_executor(settings: Config) -> Iterator[Finding]:
    """What is so of NVCCACHE_EXECUTOR, which is set."""
    if not is_program(work.CHECK):
        text = "nothing is sent: nvccache was built without a static C library"
        yield Finding(
            BAD, "executor", text, (), ("pip install --force-reinstall --no-binary nvccache nvccache",)
        )
    where = endpoint.parse(settings.executor)
    yield _of_launcher(where, settings) if where.is_launcher else _of_engine(where, settings)


def _of_engine(where: Endpoint, settings: Config) -> Finding:
    began = time.monotonic()
    try:
        from nvccache.remote_execution.client import Client

        client = Client(where)
        with contextlib.closing(client.connection):
            client.check()
    except ExecutorError as error:
        return _of_trouble(where, error, settings)
    answers = f"`{where.shown}` answers in {(time.monotonic() - began) * 1e3:.0f} ms"
    return Finding(GOOD, "executor", f"{answers}; it executes, and names content by SHA-256")


def _of_trouble(where: Endpoint, error: ExecutorError, settings: Config) -> Finding:
    text = f"`{where.shown}` cannot be used: {error.word}"
    if error.word == faults.NOT_INSTALLED:
        return Finding(BAD, "executor", text, (str(error),), (adding("exec"),))
    advice = [f"to fix it: {_ADVICE[error.word]}; or do without"] if error.word in _ADVICE else []
    return Finding(BAD, "executor", text, (str(error), *advice), (changing(settings, "executor"),))


def _of_launcher(where: Endpoint, settings: Config) -> Finding:
    program, folder = where.launcher[0], settings.executor_dir
    elsewhere = changing(settings, "executor_dir", "/ANOTHER/PATH")
    if not shutil.which(program):
        details = ("to fix it: install it, or put its directory on PATH; or do without",)
        text = f"there is no program `{program}`"
        return Finding(BAD, "executor", text, details, (changing(settings, "executor"),))
    if not folder:
        text = "`NVCCACHE_EXECUTOR_DIR` is not set: a launcher needs a directory that all machines see"
        mend = changing(settings, "executor_dir", "/PATH/ON/ALL/MACHINES")
        return Finding(BAD, "executor", text, (), (mend,))
    if not prefix.PLAIN.fullmatch(folder):
        text = f"`{folder}` has a character that a launcher may take for something else"
        return Finding(BAD, "executor", text, (), (elsewhere,))
    why = _why_not_written(folder)
    objection = f"`{folder}` cannot be written to: {why}" if why else prefix.objection_to(folder)
    if objection:
        owned = f'sudo install -d -o "$(id -un)" -m 700 {shlex.quote(folder)}'
        return Finding(BAD, "executor", objection, (), (owned, elsewhere))
    text = f"`{program}` starts stages, whose files lie in `{folder}`"
    later = "" if os.path.isdir(folder) else "; it is made when the first one is sent"
    return Finding(GOOD, "executor", text + later)


def _why_not_written(folder: str) -> str:
    """Why a launcher's directory cannot be written to, or made; empty if it can.

    Tried, since on a file server rights do not tell. One that is not there yet is not made for that.
    """
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryDirectory(prefix="doctor-", dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)

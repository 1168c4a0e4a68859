"""What `nvccache doctor` says of remotes, and of machines that run stages: whether they work, and why not."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator

from nvccache import endpoint, remote_url
from nvccache.cli import remote_status, remotes
from nvccache.cli.install import adding
from nvccache.cli.output import BAD, GOOD, ODD, Finding
from nvccache.cli.remote_status import Status
from nvccache.cli.settings import changing
from nvccache.cli.units import count_words, moment
from nvccache.config import Config
from nvccache.endpoint import Endpoint
from nvccache.real_nvcc import is_program
from nvccache.remote.breaker import LONGEST, Breaker, Outage
from nvccache.remote_execution import faults, prefix, shipped
from nvccache.remote_execution.client import Client
from nvccache.remote_execution.executor import BREAKER
from nvccache.remote_execution.faults import AwayError
from nvccache.store import directory

_SLOW_SECONDS = 0.5
_LONG_AGO = 24 * 3600.0  # seconds
# What is mended by a command line; for the others the advice is a clause.
_COMMANDS = ("not_installed", "full")
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


def of_remotes(settings: Config) -> Iterator[Finding]:
    """One finding for each remote, and of uploads to it; a wrong setting has its own elsewhere."""
    if not settings.remote:
        return
    root = directory.of(settings)
    for remote in remote_url.parse(settings.remote):
        status = remote_status.of(remote, root)
        yield _of_service(status)
        if remote.is_writable and not settings.readonly:
            yield from _of_uploads(status)


def _of_service(status: Status) -> Finding:
    if status.fault:
        advice = remotes.advice(status.fault, status.url, status.text)
        is_command = status.fault in _COMMANDS
        details = () if is_command or not advice else (f"to mend it: {advice}",)
        mend = (advice,) if is_command else ()
        return Finding(BAD, "remote", f"`{status.url}` cannot be used: {status.text}", details, mend)
    seconds = status.get_seconds or 0.0
    answers = f"`{status.url}` answers in {remotes.milliseconds(seconds)}, {status.rights}"
    outage = status.outage
    if outage and float(str(outage["until"])) > time.time():
        until = moment(float(str(outage["until"])), "%H:%M:%S")
        details = (f"compiles leave it alone until {until}: {outage['text']}",)
        return Finding(ODD, "remote", answers, details, ("nvccache remote test",))
    if seconds > _SLOW_SECONDS:
        return Finding(ODD, "remote", f"{answers}: a compile waits for several answers")
    return Finding(GOOD, "remote", answers)


def _of_uploads(status: Status) -> Iterator[Finding]:
    outage = status.write_outage
    if outage and float(str(outage["until"])) > time.time() - _LONG_AGO:
        text, is_refused = str(outage["text"]), outage["word"] in ("denied", "bad_credentials")
        advice = remotes.advice(str(outage["word"]), status.url, text)
        details = (f"to mend it: {advice}",) if advice else ()
        state = BAD if is_refused else ODD
        words = f"the last one to `{status.url}` failed: {text}"
        yield Finding(state, "uploads", words, details, ("nvccache remote test",))
    elif status.pending:
        objects = count_words(status.pending, "object")
        yield Finding(ODD, "uploads", f"{objects} still to be sent", (), ("nvccache remote push --pending",))


def of_executor(settings: Config) -> Iterator[Finding]:
    """What is so of NVCCACHE_EXECUTOR, where it is set; a wrong setting is told elsewhere."""
    if not settings.executor:
        return
    if not is_program(shipped.CHECK):
        text = "nothing is sent: nvccache was built without a static C library"
        yield Finding(
            BAD, "executor", text, (), ("pip install --force-reinstall --no-binary nvccache nvccache",)
        )
    where = endpoint.parse(settings.executor)
    yield _of_launcher(where, settings) if where.is_launcher else _of_engine(where, settings)
    outage = outage_of(settings)
    if outage:
        until = moment(outage.until, "%H:%M:%S")
        yield Finding(ODD, "executor", f"compiles send nothing until {until}: {outage.word}", (outage.text,))


def outage_of(settings: Config) -> Outage | None:
    """Why compiles send nothing at present; None if they do, or nothing is set."""
    if not settings.executor:
        return None
    outage = Breaker(BREAKER.format(endpoint.parse(settings.executor).identity)).outage()
    now = time.time()
    return outage if outage and now < outage.until <= now + LONGEST else None


def _of_engine(where: Endpoint, settings: Config) -> Finding:
    began = time.monotonic()
    try:
        client = Client(where)
        try:
            client.check()
        finally:
            client.connection.close()
    except AwayError as error:
        return _of_trouble(where, error, settings)
    answers = f"`{where.shown}` answers in {(time.monotonic() - began) * 1e3:.0f} ms"
    return Finding(GOOD, "executor", f"{answers}; it executes, and names content by SHA-256")


def _of_trouble(where: Endpoint, error: AwayError, settings: Config) -> Finding:
    text = f"`{where.shown}` cannot be used: {error.word}"
    if error.word == faults.NOT_INSTALLED:
        return Finding(BAD, "executor", text, (str(error),), (adding("exec"),))
    advice = [f"to mend it: {_ADVICE[error.word]}; or do without"] if error.word in _ADVICE else []
    return Finding(BAD, "executor", text, (str(error), *advice), (changing(settings, "executor"),))


def _of_launcher(where: Endpoint, settings: Config) -> Finding:
    program, folder = where.words[0], settings.executor_dir
    elsewhere = changing(settings, "executor_dir", "/ANOTHER/PATH")
    if not shutil.which(program):
        details = ("to mend it: install it, or put its directory on PATH; or do without",)
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

"""What `nvccache doctor` says of other machines: whether stages can be sent there, and why not."""

from __future__ import annotations

import os
import shutil
import time

from nvccache.cli.finding import BAD, GOOD, ODD, Finding
from nvccache.cli.since import moment
from nvccache.real_nvcc import is_program
from nvccache.remote.breaker import Breaker
from nvccache.remote_execution import endpoint, faults, shipped
from nvccache.remote_execution.client import Client
from nvccache.remote_execution.executor import BREAKER
from nvccache.remote_execution.faults import AwayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvccache.config import Config
    from nvccache.remote_execution.endpoint import Endpoint

_TOPIC = "executor"


def of_executor(settings: Config) -> Iterator[Finding]:
    """What is so of NVCCACHE_EXECUTOR, where it is set; a wrong setting is told elsewhere."""
    if not settings.executor:
        return
    if not is_program(shipped.CHECK):
        text = "nothing is sent: nvccache was built without a static C library"
        yield Finding(BAD, _TOPIC, text, (), ("pip install --force-reinstall --no-binary nvccache nvccache",))
    where = endpoint.parse(settings.executor)
    yield from _of_launcher(where, settings.executor_dir) if where.is_launcher else _of_engine(where)
    outage = Breaker(BREAKER.format(where.identity)).outage()
    if outage and outage.until > time.time():
        until = moment(outage.until, "%H:%M:%S")
        yield Finding(ODD, _TOPIC, f"compiles send nothing until {until}: {outage.word}", (outage.text,))


def _of_engine(where: Endpoint) -> Iterator[Finding]:
    began = time.monotonic()
    try:
        client = Client(where)
        try:
            client.check()
        finally:
            client.connection.close()
    except AwayError as error:
        mend = ("pip install 'nvccache[exec]'",) if error.word == faults.NOT_INSTALLED else ()
        yield Finding(BAD, _TOPIC, f"`{where.shown}` cannot be used: {error.word}", (str(error),), mend)
        return
    yield Finding(GOOD, _TOPIC, f"`{where.shown}` answers in {(time.monotonic() - began) * 1e3:.0f} ms")


def _of_launcher(where: Endpoint, directory: str) -> Iterator[Finding]:
    program = where.words[0]
    if not shutil.which(program):
        yield Finding(BAD, _TOPIC, f"there is no program `{program}`")
    elif not directory:
        text = "`NVCCACHE_EXECUTOR_DIR` is not set: a launcher needs a directory that all machines see"
        yield Finding(BAD, _TOPIC, text)
    elif os.path.isdir(directory) and not os.access(directory, os.W_OK | os.X_OK):
        yield Finding(BAD, _TOPIC, f"`{directory}` cannot be written to")
    else:
        yield Finding(GOOD, _TOPIC, f"`{program}` starts stages, whose files lie in `{directory}`")

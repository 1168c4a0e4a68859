"""The checks of `nvccache doctor` for remotes and for machines that run stages."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from nvccache import endpoint, remote_url
from nvccache.cli import remote_status, remotes
from nvccache.cli.output import BAD, GOOD, ODD, Finding
from nvccache.cli.remote_status import Status
from nvccache.cli.units import format_count, moment
from nvccache.config import Config
from nvccache.remote.breaker import OF_EXECUTOR, Breaker, Outage
from nvccache.store import directory

_SLOW_SECONDS = 0.5


def of_remotes(settings: Config) -> Iterator[Finding]:
    """One finding for each remote, and one for uploads to it; for wrong settings see doctor.py."""
    if not settings.remote:
        return
    root = directory.of(settings)
    for remote in remote_url.parse(settings.remote):
        status = remote_status.of(remote, root, not settings.readonly)
        yield _of_service(status)
        if remote.is_writable and not settings.readonly:
            yield from _of_uploads(status)


def _of_service(status: Status) -> Finding:
    if status.fault:
        return _bad(status, "remote", "cannot be used", status.fault, status.text)
    seconds = status.get_seconds or 0.0
    answers = f"`{status.url}` answers in {remotes.milliseconds(seconds)}"
    answers += "" if status.cannot_be_written else f", {status.rights}"
    if seconds > _SLOW_SECONDS:
        return Finding(ODD, "remote", f"{answers}: a compile waits for several answers")
    return Finding(GOOD, "remote", answers)


def _of_uploads(status: Status) -> Iterator[Finding]:
    if status.write and status.cannot_be_written:
        yield _bad(status, "uploads", "cannot be written to", status.write.fault, status.write.text)
    elif status.pending and not status.fault:
        objects = format_count(status.pending, "object")
        yield Finding(ODD, "uploads", f"{objects} still to be sent", (), ("nvccache remote push",))


def _bad(status: Status, title: str, effect: str, fault: str, text: str) -> Finding:
    advice = remotes.advice(fault, status.url, text)
    is_command = fault == "not_installed"  # for others, the advice is a clause
    details = () if is_command or not advice else (f"to fix it: {advice}",)
    return Finding(BAD, title, f"`{status.url}` {effect}: {text}", details, (advice,) if is_command else ())


def of_executor(settings: Config) -> Iterator[Finding]:
    """The state of NVCCACHE_EXECUTOR, if it is set; for wrong settings see doctor.py."""
    if not settings.executor:
        return
    try:
        checks = importlib.import_module(f"{endpoint.PACKAGE}.checks")
    except ImportError as error:
        if error.name not in (endpoint.PACKAGE, f"{endpoint.PACKAGE}.checks"):
            raise
        again = "pip install --force-reinstall nvccache"
        yield Finding(BAD, "executor", endpoint.NOT_INSTALLED, (), (again,))
        return
    yield from checks.of_executor(settings)
    outage = outage_of(settings)
    if outage:
        until = moment(outage.until, "%H:%M:%S")
        yield Finding(ODD, "executor", f"compiles send nothing until {until}: {outage.word}", (outage.text,))


def outage_of(settings: Config) -> Outage | None:
    """The outage because of which compiles send nothing now; None if they send, or nothing is set."""
    if not settings.executor:
        return None
    outage = Breaker(OF_EXECUTOR.format(endpoint.parse(settings.executor).identity)).outage()
    return None if outage and outage.is_over else outage

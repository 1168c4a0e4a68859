"""The checks of `nvccache doctor` for remotes and for machines that run stages."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from nvccache import endpoint, remote_url
from nvccache.cli import remotes
from nvccache.cli.output import BAD, GOOD, ODD, Finding
from nvccache.cli.units import format_count, moment
from nvccache.config import Config
from nvccache.remote import outages
from nvccache.remote.outages import Outage
from nvccache.store import directory

_SLOW_SECONDS = 0.5


def of_remotes(settings: Config) -> Iterator[Finding]:
    """One finding for each remote, and one for uploads to it; for wrong settings see doctor.py."""
    if not settings.remote:
        return
    root = directory.of(settings)
    for remote in remote_url.parse(settings.remote):
        found = remotes.status_of(remote, root, not settings.readonly)
        if found.fault:
            yield _bad(found.url, "remote", "cannot be used", found.fault, found.text)
            continue
        rights = ", to be read and written" if found.is_writable and not found.write_fault else ""
        answers = f"`{found.url}` answers in {remotes.milliseconds(found.seconds or 0.0)}{rights}"
        if (found.seconds or 0.0) > _SLOW_SECONDS:
            yield Finding(ODD, "remote", f"{answers}: a compile waits for several answers")
        else:
            yield Finding(GOOD, "remote", answers)
        if found.write_fault:
            yield _bad(found.url, "uploads", "cannot be written to", found.write_fault, found.write_text)
        elif found.pending and remote.is_writable and not settings.readonly:
            objects = format_count(found.pending, "object")
            yield Finding(ODD, "uploads", f"{objects} still to be sent", (), ("nvccache remote push",))


def _bad(url: str, title: str, effect: str, fault: str, text: str) -> Finding:
    advice = remotes.advice(fault, url, text)
    is_command = fault == "not_installed"  # for others, the advice is a clause
    details = () if is_command or not advice else (f"to fix it: {advice}",)
    return Finding(BAD, title, f"`{url}` {effect}: {text}", details, (advice,) if is_command else ())


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
    """The outage for which compiles send no stages; None if they send, or nothing is set."""
    if not settings.executor:
        return None
    return outages.current(outages.OF_EXECUTOR.format(endpoint.parse(settings.executor).identity))

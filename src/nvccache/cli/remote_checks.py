"""What `nvccache doctor` finds about remotes: whether each can be used, and what mends it where it cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator

from nvccache import remote_url
from nvccache.cli import remote_status, remotes
from nvccache.cli.finding import BAD, GOOD, ODD, Finding
from nvccache.cli.remote_status import Status
from nvccache.cli.since import moment
from nvccache.cli.units import count_words
from nvccache.config import Config
from nvccache.store import directory

_TOPIC = "remote"
_SLOW_SECONDS = 0.5
_LONG_AGO = 24 * 3600.0  # seconds
# What is mended by a command line; for the others the advice is a clause.
_COMMANDS = ("not_installed", "full")


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
    rights = "read and written" if status.is_writable else "read only"
    if status.fault:
        advice = remotes.advice(status.fault, status.url, status.text)
        is_command = status.fault in _COMMANDS
        details = () if is_command or not advice else (f"to mend it: {advice}",)
        mend = (advice,) if is_command else ()
        return Finding(BAD, _TOPIC, f"`{status.url}` cannot be used: {status.text}", details, mend)
    seconds = status.get_seconds or 0.0
    answers = f"`{status.url}` answers in {remotes.milliseconds(seconds)}, {rights}"
    outage = status.outage
    if outage and float(str(outage["until"])) > time.time():
        until = moment(float(str(outage["until"])), "%H:%M:%S")
        details = (f"compiles leave it alone until {until}: {outage['text']}",)
        return Finding(ODD, _TOPIC, answers, details, ("nvccache remote test",))
    if seconds > _SLOW_SECONDS:
        return Finding(ODD, _TOPIC, f"{answers}: a compile waits for several answers")
    return Finding(GOOD, _TOPIC, answers)


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

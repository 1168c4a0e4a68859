"""What `nvccache doctor` sees of remotes without asking them: what is missing, and which are left alone."""

from __future__ import annotations

import time

from nvccache.cli.finding import BAD, GOOD, ODD, Finding
from nvccache.cli.units import seconds_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvccache.config import Config
    from nvccache.remote.url import Remote

_TOPIC = "remote"


def of_remotes(settings: Config) -> Iterator[Finding]:
    if not settings.remote:
        return
    from nvccache.remote import service, url

    remotes = url.parse(settings.remote)
    if not service.is_installed() and any(remote.scheme != "file" for remote in remotes):
        text = "remotes are set, and what speaks to them is not installed: they are not used"
        yield Finding(BAD, _TOPIC, text, (), ("pip install 'nvccache[remote]'",))
        remotes = [remote for remote in remotes if remote.scheme == "file"]
    for remote in remotes:
        yield _of_remote(remote)


def _of_remote(remote: Remote) -> Finding:
    from nvccache.remote.breaker import Breaker

    rights = "read and written to" if remote.is_writable else "only read"
    for doing, for_writing in (("asked", False), ("written to", True)):
        outage = Breaker(remote.identity, for_writing=for_writing).outage()
        if outage and (for_writing is False or remote.is_writable):
            rest = outage.until - time.time()
            when = f"for another {seconds_words(rest)}" if rest > 0 else "until the next call tries it"
            text = f"`{remote.shown}` is not {doing} {when}: {outage.text}"
            state = BAD if outage.word == "bad_credentials" else ODD
            return Finding(state, _TOPIC, text, (f"tried in vain {outage.trips} times in a row",))
    return Finding(GOOD, _TOPIC, f"`{remote.shown}` is {rights}; no call has found it wanting")

"""`nvccache remote`: the group of commands for remote caches, and what they share."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from nvccache import remote_url
from nvccache.cli import settings as our_settings
from nvccache.cli.group import LazyGroup
from nvccache.cli.install import adding
from nvccache.cli.output import Failure, bar
from nvccache.config import Config
from nvccache.remote.breaker import Outage
from nvccache.remote.kinds import connect
from nvccache.remote.service import UNUSABLE, Service, ServiceError
from nvccache.remote.shared_directory import NO_DIRECTORY
from nvccache.remote_url import Remote
from nvccache.store import directory
from nvccache.store.directory import Directory

HINT = "set `NVCCACHE_REMOTE`, as in `NVCCACHE_REMOTE=s3://bucket/prefix`"
_NO_LIST = "it cannot list its objects"
_PREFIX = "1/"  # of all our names (remote/envelope.py)
_SECONDS = 30.0  # for a server's response to a command
_ADVICE = {
    "denied": "grant this user write access, or remove `,rw` from NVCCACHE_REMOTE",
    "tls": "set SSL_CERT_FILE to a file of trusted certificates",
    "full": "make room there, or remove old objects: `nvccache remote prune --max-size SIZE`",
    "timeout": "check whether the server hangs or is overloaded, and whether its answers arrive here",
    "throttled": "wait, or raise the server's request limit",
    "unreachable": "check whether the server runs and can be reached from here",
    UNUSABLE: "check the path in the URL, and the file system",
    "broken": "check the URL, and what kind of server is there",
}
_OF_REDIS = "set user and password in the URL, or the password in REDISCLI_AUTH"
_OF_HTTP = "set user and password in the URL, or in ~/.netrc"
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or `?profile=` in the URL",
    "redis": _OF_REDIS,
    "rediss": _OF_REDIS,
    "https": _OF_HTTP,
    "http": _OF_HTTP,
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a file with credentials",
    "azblob": "set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_ACCOUNT_KEY",
}
_OF_KEYS = "allow this user the keys of the prefix on the server, and writing if the URL ends with `,rw`"
# Advice for messages with these ends, which are more specific than the kind of fault.
_OF_ENDS = (
    (_NO_LIST, ""),
    (NO_DIRECTORY, "create it, or mount its file system"),
    ("(NoSuchBucket)", "check the bucket in the URL, and the endpoint"),
    ("(NoPerm)", _OF_KEYS),
    ("(NOPERM)", _OF_KEYS),
    ("(Read-only file system)", "mount it for writing, or remove `,rw` from NVCCACHE_REMOTE"),
)
# command -> its module
_COMMANDS = {
    "status": "nvccache.cli.remote_status",
    "test": "nvccache.cli.remote_status",
    "push": "nvccache.cli.remote_moves",
    "pull": "nvccache.cli.remote_moves",
    "prune": "nvccache.cli.remote_moves",
}


@dataclass
class Chosen:
    """The settings of a command, the remotes in them, and the cache directory."""

    settings: Config
    remotes: list[Remote]
    root: Directory

    @property
    def writable(self) -> list[Remote]:
        """The writable remotes; raises Failure if there are none."""
        found = [remote for remote in self.remotes if remote.is_writable]
        if self.settings.readonly:
            raise Failure(f"nothing is written: `readonly` is on ({self.settings.origins['readonly']})")
        if not found:
            hint = "add `,rw` to a URL of `NVCCACHE_REMOTE`"
            raise Failure("no remote is writable", hint)
        return found


def load() -> Chosen:
    """The remotes in the settings; raises Failure if there are none, or the setting is wrong."""
    settings = our_settings.load()
    if not settings.remote:
        if any(problem.setting == "remote" for problem in settings.problems):
            raise Failure("no remote is in use, because the setting is wrong")
        raise Failure("no remote is set", HINT)
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    return Chosen(settings, remote_url.parse(settings.remote), directory.of(settings))


def service(remote: Remote, seconds: float = _SECONDS) -> Service:
    """A client of a remote, which also works during an outage; raises ServiceError.

    `seconds` is the time for one answer, or a part of one.
    """
    return connect(remote, os.environ, seconds)


def listed(remote: Remote, service: Service) -> dict[str, tuple[int, float]]:
    """Our names on a remote, with sizes and times of change; raises ServiceError."""
    with bar(f"listing {remote.shown}", is_long=True):
        return names_in(_PREFIX, service)


def names_in(folder: str, service: Service) -> dict[str, tuple[int, float]]:
    """Like `listed`. A remote that cannot list, such as a web server without PROPFIND, is `broken`."""
    try:
        return {name: (size, changed) for name, size, changed in service.list(folder)}
    except ServiceError as error:
        raise ServiceError("broken", text=_NO_LIST) if error.word == "broken" else error from None


def outage_json(outage: Outage | None) -> dict[str, object] | None:
    """An outage, in the documented form."""
    names = ("since", "until", "word", "text", "trips")
    return {name: getattr(outage, name) for name in names} if outage else None


def advice(word: str, shown: str, text: str) -> str:
    """How to fix a fault with the message `text` of the remote with this URL; empty if unknown."""
    for end, found in _OF_ENDS:
        if text.endswith(end):
            return found
    if word == "bad_credentials":
        return _CREDENTIALS.get(shown.partition(":")[0], "set the credentials of the service")
    if shown.startswith("file:") and word in ("timeout", "broken"):
        word = UNUSABLE
    return adding("remote") if word == "not_installed" else _ADVICE.get(word, "")


def milliseconds(seconds: float) -> str:
    """`0.0123` -> `12.3 ms`."""
    return f"{1000 * seconds:.1f} ms"


@click.group(
    cls=LazyGroup,
    modules=_COMMANDS,
    hint="`nvccache remote --help` lists the commands",
    epilog="Example: nvccache remote status",
)
def remote() -> None:
    """Check the remote caches, and move entries in bulk.

    `NVCCACHE_REMOTE` names the remotes.
    """

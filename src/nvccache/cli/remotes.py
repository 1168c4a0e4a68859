"""The remotes that a command is about, and what all commands about remotes say alike."""

from __future__ import annotations

import os
import time

from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure
from nvccache.remote import url
from nvccache.store import directory as directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.remote.service import Service, ServiceError
    from nvccache.remote.url import Remote
    from nvccache.store.directory import Directory

NONE = "no remote is set"
HINT = "set `NVCCACHE_REMOTE`, as in `NVCCACHE_REMOTE=s3://bucket/prefix,rw`"
PROBE = "1/00/" + "0" * 64  # a name that no entry has


class Chosen:
    """The settings of a command, the remotes they name, and the cache directory."""

    __slots__ = ("remotes", "root", "settings")

    def __init__(self, settings: Config, remotes: list[Remote], root: Directory) -> None:
        self.settings = settings
        self.remotes = remotes
        self.root = root

    @property
    def writable(self) -> list[Remote]:
        """Those that are written to; raises Failure where there is none."""
        found = [remote for remote in self.remotes if remote.is_writable]
        if not found:
            hint = "`,rw` behind a URL of `NVCCACHE_REMOTE` makes it one"
            raise Failure("there is no remote that is written to", hint)
        return found


def load() -> Chosen:
    """The remotes that are set; raises Failure where there is none, or they are not understood."""
    settings = our_settings.load()
    if not settings.remote:
        if any(problem.setting == "remote" for problem in settings.problems):
            raise Failure("there is no remote, since the setting is wrong")
        raise Failure(NONE, HINT)
    try:
        remotes = url.parse(settings.remote)
    except url.RemoteUrlError as error:
        raise Failure(f"`NVCCACHE_REMOTE`: {error}") from None
    return Chosen(settings, remotes, directories.of(settings))


def service(remote: Remote) -> Service:
    """A client of a remote; raises ServiceError."""
    from nvccache.remote.service import Service

    return Service(remote, os.environ)


def failure(remote: Remote, error: ServiceError) -> Failure:
    """The sentence in which a command ends that a remote has kept from its work."""
    return Failure(f"`{remote.shown}`: {words(error)}", advice(error.word))


def words(error: ServiceError) -> str:
    return f"{error.word.replace('_', ' ')}: {error}"


def advice(word: str) -> str:
    """What mends a fault of a remote, a sentence; empty where that is not known."""
    return _ADVICE.get(word, "")


_ADVICE = {
    "not_installed": "`pip install 'nvccache[remote]'` installs the client",
    "bad_credentials": "set the credentials of the service where its own tools look for them,"
    " such as `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
    "denied": "let this user write there, or leave `,rw` out of `NVCCACHE_REMOTE`",
    "tls": "`SSL_CERT_FILE` names a file with the certificates that are trusted",
    "full": "`nvccache remote prune --max-size SIZE` makes room",
    "timeout": "a larger `NVCCACHE_REMOTE_TIMEOUT` waits longer",
    "unreachable": "see whether the server runs and can be reached from here",
}


def timed(seconds: float) -> str:
    """`0.0123` -> `12.3 ms`."""
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def since(moment: float) -> float:
    return time.monotonic() - moment

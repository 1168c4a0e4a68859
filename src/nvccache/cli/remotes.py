"""`nvccache remote status` checks whether remotes can be used; `push` sends what is queued for them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import click

from nvccache import remote_url
from nvccache.cli import settings as our_settings
from nvccache.cli.group import LazyGroup
from nvccache.cli.install import install_command
from nvccache.cli.output import (
    BAD,
    GOOD,
    ODD,
    Failure,
    Finding,
    format_count,
    format_size,
    format_time,
    json_option,
    show_findings,
)
from nvccache.config import Config
from nvccache.files import flock
from nvccache.records import send_queued
from nvccache.remote import envelope, outages, uploads
from nvccache.remote.backend import BackendError, connect
from nvccache.remote.outages import OF_WRITING
from nvccache.remote_url import Remote
from nvccache.store.directory import Directory, NoCacheError

_SECONDS = 5.0  # timeout of each read and write; a compile's is shorter
_LOCK_SECONDS = 660.0  # longer than an uploader runs, unless it hangs
_PROBE = ("probe-v1", "0" * 64)  # bucket and key of the object that `status` writes
_ADVICE = {
    "denied": "give this user access to the bucket or directory, or remove `,rw` from NVCCACHE_REMOTE",
    "bad_credentials": "set the credentials as described under `Remotes` in docs/reference/settings.md",
    "tls": "set SSL_CERT_FILE to a file of trusted certificates",
    "full": "make room in the remote, or let the server remove old objects",
    "throttled": "wait, or raise the server's request limit",
    "unusable_directory": "create the directory or mount its file system, and check the path in the URL",
}


@click.group(
    cls=LazyGroup,
    modules=dict.fromkeys(("status", "push"), __name__),
    hint="`nvccache remote --help` lists the commands",
    epilog="Example: nvccache remote status",
)
def remote() -> None:
    """Check the remote caches, and send what is queued for them.

    `NVCCACHE_REMOTE` names the remotes.
    """


@click.command(epilog="Example: nvccache remote status")
@json_option
def status(as_json: bool) -> None:
    """Check whether compiles can use each remote.

    It reads an object. If the remote is writable, it also writes one and reads it back, but not with
    `NVCCACHE_READONLY`. Compiles skip a remote for a minute after a fault; if the remote works now, they use
    it again at once. The command exits with status 1 if compiles cannot use a remote.
    """
    settings, root = _settings()
    remotes = remote_url.parse(settings.remote)
    show_findings((found for each in remotes for found in check(each, root, not settings.readonly)), as_json)


@click.command(epilog="Example: nvccache remote push")
@json_option
def push(as_json: bool) -> None:
    """Send what compiles have queued, and wait until it is sent.

    During a build, a background process sends the results. Run `nvccache remote push` at the end of a CI job,
    which may end before that process does. It exits with status 1 if something cannot be sent.
    """
    settings, root = _settings()
    if settings.readonly:
        raise Failure(f"nothing is sent, because `readonly` is on ({settings.origins['readonly']})")
    remotes = [each for each in remote_url.parse(settings.remote) if each.is_writable]
    if not remotes:
        raise Failure("no remote is writable", "add `,rw` to a URL of `NVCCACHE_REMOTE`")
    show_findings((_send(each, root) for each in remotes), as_json)


def _settings() -> tuple[Config, Directory]:
    """The settings and the cache directory; raises Failure if no remote or no directory is set."""
    settings = our_settings.load()
    if not settings.remote:
        raise Failure("no remote is set", "set `NVCCACHE_REMOTE`, as in `NVCCACHE_REMOTE=s3://bucket/prefix`")
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    return settings, Directory(settings.dir)


def check(remote: Remote, root: Directory, may_write: bool) -> Iterator[Finding]:
    """Try what a compile needs from a remote. If that works, end its outage, so that compiles use it."""
    writing = OF_WRITING.format(remote.identity)
    effect, answer, fault = "cannot be used", "", None
    try:
        backend = connect(remote, os.environ, _SECONDS)
        began = time.monotonic()
        backend.get(envelope.name_of("probe-v1", "1" * 64), 0)
        answer = f"answers in {1000 * (time.monotonic() - began):.1f} ms"
        outages.end(remote.identity)
        effect = "cannot be written to"
        if remote.is_writable and may_write:
            content = envelope.seal(*_PROBE, b"nvccache remote status")
            backend.put(envelope.name_of(*_PROBE), content)
            if backend.get(envelope.name_of(*_PROBE), len(content)) != content:
                raise BackendError("broken", "what was read is not what was written")
            outages.end(writing)
    except BackendError as error:
        fault = error
    if answer:
        rights = "for reading and writing" if remote.is_writable and not fault else "for reading"
        yield Finding(GOOD, "remote", f"`{remote.shown}`, {rights}, {answer}")
    if fault:
        yield Finding(BAD, "remote", f"`{remote.shown}` {effect}: {fault}", (_fix_of(fault),))
    for name, effect in ((remote.identity, "skip it"), (writing, "do not write to it")):
        if (outage := outages.current(name)) and (name != writing or remote.is_writable):
            until = format_time(outage.until, "%H:%M:%S")
            yield Finding(ODD, "remote", f"`{remote.shown}`: compiles {effect} until {until}: {outage.text}")
    if pending := len(uploads.queued(root, remote.identity)):
        text = f"{format_count(pending, 'object')} still to be sent"
        yield Finding(ODD, "remote", text, (), ("nvccache remote push",))


def _fix_of(error: BackendError) -> str:
    if error.word == "not_installed":
        return f"to fix it: `{install_command('remote')}`"
    usual = "check the URL and its password, and whether the server runs and can be reached from here"
    return f"to fix it: {_ADVICE.get(error.word, usual)}"


def _send(remote: Remote, root: Directory) -> Finding:
    """Send what is queued for a remote, and say what was sent."""
    sender = send_queued.Sender(root, remote, os.environ)
    with contextlib.suppress(NoCacheError):  # there is no cache if a job compiled nothing
        lock = uploads.take_lock(root, _LOCK_SECONDS) if uploads.queued(root, remote.identity) else None
        if lock is not None:
            sender.send_pending()
            flock.release(lock)
    if sender.objects and not sender.fault:
        outages.end(OF_WRITING.format(remote.identity))
    left = len(uploads.queued(root, remote.identity))  # items that were not tried, because of a fault
    text = f"`{remote.shown}`: sent {format_count(sender.objects, 'object')}, {format_size(sender.bytes)}"
    text += f"; refused {sender.refused}" if sender.refused else ""
    text += f"; {left} left" if left else ""
    details = (str(sender.fault), _fix_of(sender.fault)) if sender.fault else ()
    if details or sender.refused or left:
        return Finding(BAD, "remote", text, details)
    idle = f"`{remote.shown}`: nothing is left to send, because compiles send in the background"
    return Finding(GOOD, "remote", text if sender.objects else idle)

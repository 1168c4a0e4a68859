"""`nvccache remote status` and `push`: whether remotes can be used, and sending what is queued for them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict, dataclass

import click

from nvccache import remote_url
from nvccache.cli import settings as our_settings
from nvccache.cli.group import LazyGroup
from nvccache.cli.install import adding
from nvccache.cli.output import GREEN, RED, YELLOW, Failure, bar, json_option, say, say_json, say_parts
from nvccache.cli.units import format_count, format_size, moment
from nvccache.config import Config
from nvccache.files import flock
from nvccache.records import send_queued
from nvccache.remote import envelope, outages, uploads
from nvccache.remote.kinds import connect
from nvccache.remote.outages import OF_WRITING, Outage
from nvccache.remote.service import UNUSABLE, ServiceError
from nvccache.remote_url import Remote
from nvccache.store import directory
from nvccache.store.directory import Directory, NoCacheError

HINT = "set `NVCCACHE_REMOTE`, as in `NVCCACHE_REMOTE=s3://bucket/prefix`"
_SECONDS = 5.0  # for a response; longer than a compile waits
_LOCK_SECONDS = 660.0  # a live uploader ends sooner
_PROBE = ("probe-v1", "0" * 64)  # bucket and key of the object that `status` writes
_ADVICE = {
    "denied": "grant this user write access, or remove `,rw` from NVCCACHE_REMOTE",
    "tls": "set SSL_CERT_FILE to a file of trusted certificates",
    "full": "make room there, or have the server remove old objects",
    "timeout": "check whether the server hangs or is overloaded, and whether its answers arrive here",
    "throttled": "wait, or raise the server's request limit",
    "unreachable": "check whether the server runs and can be reached from here",
    UNUSABLE: "check the path in the URL, and the file system",
    "broken": "check the URL, and what kind of server is there",
}
_OF_REDIS = "set user and password in the URL, or the password in REDISCLI_AUTH"
_OF_HTTP = "set user and password in the URL"
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or `?anonymous=1` in the URL",
    **dict.fromkeys(("redis", "rediss"), _OF_REDIS),
    **dict.fromkeys(("https", "http"), _OF_HTTP),
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a file with credentials",
    "azblob": "set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_ACCOUNT_KEY",
}
_OF_KEYS = "allow this user the keys of the prefix on the server, and writing if the URL ends with `,rw`"
# Advice for messages with these ends, which are more specific than the kind of fault.
_OF_ENDS = {
    "(No such file or directory)": "create it, or mount its file system",
    "(NoSuchBucket)": "check the bucket in the URL, and the endpoint",
    "(NOPERM)": _OF_KEYS,
    "(Read-only file system)": "mount it for writing, or remove `,rw` from NVCCACHE_REMOTE",
}


@dataclass
class Status:
    """The state of one remote: what a compile needs was tried, even during an outage."""

    url: str
    is_writable: bool
    seconds: float | None = None  # to look up an object that is missing, None if it cannot be read
    fault: str = ""  # of outcomes.REMOTE_FAULTS, or empty
    text: str = ""
    write_fault: str = ""  # the same for writing an object and reading it back
    write_text: str = ""
    outage: Outage | None = None  # for which compiles leave it alone
    write_outage: Outage | None = None
    pending: int = 0  # objects of this cache that are still to be sent


@dataclass
class Sent:
    """What was sent to one remote."""

    url: str
    objects: int = 0
    bytes: int = 0
    refused: int = 0  # the remote works, but did not take them
    left: int = 0  # not tried, because of a fault
    fault: str = ""
    text: str = ""


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
    """Try what a compile needs from each remote.

    Reads an object; if the remote is writable, also writes one and reads it back. With `NVCCACHE_READONLY`
    nothing is written. Compiles that leave a remote alone after a fault use it again if it works now. Exits
    with status 1 if something that compiles need is missing.
    """
    settings, root = _settings()
    found = [status_of(each, root, not settings.readonly) for each in remote_url.parse(settings.remote)]
    if as_json:
        say_json({"remotes": list(map(_document, found))})
    else:
        for each in found:
            _show(each)
    if any(each.fault or each.write_fault for each in found):
        sys.exit(1)


@click.command(epilog="Example: nvccache remote push")
@json_option
def push(as_json: bool) -> None:
    """Send what compiles have queued, and wait for it.

    During a build, a process in the background sends what was compiled. End a CI job with `nvccache remote
    push`: it waits until all is sent, and exits with status 1 if something could not be.
    """
    settings, root = _settings()
    if settings.readonly:
        raise Failure(f"nothing is written: `readonly` is on ({settings.origins['readonly']})")
    remotes = [each for each in remote_url.parse(settings.remote) if each.is_writable]
    if not remotes:
        raise Failure("no remote is writable", "add `,rw` to a URL of `NVCCACHE_REMOTE`")
    sent = []
    for each in remotes:
        sent.append(_send(each, root))
        if not as_json:
            _show_sent(sent[-1])
    if as_json:
        say_json({"remotes": list(map(asdict, sent))})
    if any(each.fault or each.refused or each.left for each in sent):
        sys.exit(1)


def status_of(remote: Remote, root: Directory, may_write: bool) -> Status:
    """The state of a remote; ends the outages of what works."""
    found = Status(remote.shown, remote.is_writable)
    found.pending = len(uploads.queued(root, remote.identity))
    writing = OF_WRITING.format(remote.identity)
    try:
        service = connect(remote, os.environ, _SECONDS)
        service.get(envelope.name_of("probe-v1", "1" * 64), 0)  # the first response includes connecting
        started = time.monotonic()
        service.get(envelope.name_of("probe-v1", "1" * 64), 0)
        found.seconds = time.monotonic() - started
        outages.end(remote.identity)
        if remote.is_writable and may_write:
            content = envelope.seal(*_PROBE, b"nvccache remote status")
            try:
                service.put(envelope.name_of(*_PROBE), content)
                if service.get(envelope.name_of(*_PROBE), len(content)) != content:
                    raise ServiceError("broken", "it does not return what was written")
                outages.end(writing)
            except ServiceError as error:
                found.write_fault, found.write_text = error.word, str(error)
    except ServiceError as error:
        found.fault, found.text = error.word, str(error)
    found.outage = outages.current(remote.identity)
    found.write_outage = outages.current(writing) if remote.is_writable else None
    return found


def _document(found: Status) -> dict[str, object]:
    return asdict(found) | {
        name: outages.to_json(getattr(found, name)) for name in ("outage", "write_outage")
    }


def advice(word: str, shown: str, text: str) -> str:
    """How to fix a fault with the message `text` of the remote with this URL; empty if unknown."""
    for end, found in _OF_ENDS.items():
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


def _settings() -> tuple[Config, Directory]:
    """The settings, which name a remote, and the cache directory; raises Failure."""
    settings = our_settings.load()
    if not settings.remote:
        if any(problem.setting == "remote" for problem in settings.problems):
            raise Failure("no remote is in use, because the setting is wrong")
        raise Failure("no remote is set", HINT)
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    return settings, directory.of(settings)


def _send(remote: Remote, root: Directory) -> Sent:
    sent = Sent(remote.shown)
    if not uploads.queued(root, remote.identity):  # the cache may not exist: the job compiled nothing
        return sent
    with bar(f"sending to {remote.shown}", is_long=True) as on_progress:
        try:
            lock = uploads.take_lock(root, _LOCK_SECONDS)
        except NoCacheError:
            return sent
        if lock is not None:
            try:
                sender = send_queued.Sender(root, remote, os.environ)
                sender.send_pending(on_progress)
                sent.objects, sent.bytes, sent.refused = sender.objects, sender.bytes, sender.refused
                if sender.fault:
                    sent.fault, sent.text = sender.fault.word, str(sender.fault)
                elif sender.objects:
                    outages.end(OF_WRITING.format(remote.identity))
            finally:
                flock.release(lock)
    sent.left = len(uploads.queued(root, remote.identity))
    return sent


def _show(found: Status) -> None:
    is_bad = bool(found.fault or found.write_fault)
    rights = "to be read and written" if found.is_writable else "read only"
    say_parts((f"{'bad' if is_bad else 'ok':<4}", RED if is_bad else GREEN), f" {found.url}: {rights}")
    if found.seconds is not None:
        say(f"     answers in {milliseconds(found.seconds)}")
    for effect, word, text in (("", found.fault, found.text),
                               ("cannot be written to: ", found.write_fault, found.write_text)):  # fmt: skip
        if word:
            hint = advice(word, found.url, text)
            say(f"     {effect}{text}", *([f"     to fix it: {hint}"] if hint else []))
    for effect, outage in (("skipped", found.outage), ("not written to", found.write_outage)):
        if outage:
            until = moment(outage.until, "%H:%M:%S")
            say_parts("     ", (effect, YELLOW), f" by compiles until {until}: {outage.text}")
    if found.pending:
        say(f"     {format_count(found.pending, 'object')} still to be sent, as by `nvccache remote push`")


def _show_sent(sent: Sent) -> None:
    if not any((sent.objects, sent.refused, sent.left, sent.fault)):
        say(f"`{sent.url}`: no objects wait to be sent: compiles send theirs in the background")
        return
    size = f", {format_size(sent.bytes)}" if sent.bytes else ""
    refused = f"; {sent.refused} refused" if sent.refused else ""
    left = f"; {sent.left} left" if sent.left else ""
    say(f"`{sent.url}`: sent {format_count(sent.objects, 'object')}{size}{refused}{left}")
    if sent.fault:
        hint = advice(sent.fault, sent.url, sent.text)
        say(f"  {sent.text}", *([f"  to fix it: {hint}"] if hint else []))

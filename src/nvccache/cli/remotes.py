"""`nvccache remote status` and `push`: whether remotes can be used, and sending what is queued for them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

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
    say,
    say_json,
    show_finding,
)
from nvccache.config import Config
from nvccache.files import flock
from nvccache.records import send_queued
from nvccache.remote import envelope, outages, uploads
from nvccache.remote.outages import OF_WRITING
from nvccache.remote.service import ServiceError, connect
from nvccache.remote_url import Remote
from nvccache.store import directory
from nvccache.store.directory import Directory, NoCacheError

_SECONDS = 5.0  # for a response; longer than a compile waits
_LOCK_SECONDS = 660.0  # a live uploader ends sooner
_PROBE = ("probe-v1", "0" * 64)  # bucket and key of the object that `status` writes
_ADVICE = {
    "denied": "grant this user the bucket or directory, or remove `,rw` from NVCCACHE_REMOTE",
    "bad_credentials": "set the credentials as docs/reference/settings.md says under `Remotes`",
    "tls": "set SSL_CERT_FILE to a file of trusted certificates",
    "full": "make room there, or have the server remove old objects",
    "throttled": "wait, or raise the server's request limit",
    "unusable_directory": "create it, or mount its file system; check the path in the URL",
    "not_installed": f"`{install_command('remote')}`",
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
    """Try what a compile needs from each remote.

    Reads an object; if the remote is writable, also writes one and reads it back. With `NVCCACHE_READONLY`
    nothing is written. Compiles that leave a remote alone after a fault use it again if it works now. Exits
    with status 1 if something that compiles need is missing.
    """
    settings, root = _settings()
    found = [status_of(each, root, not settings.readonly) for each in remote_url.parse(settings.remote)]
    if as_json:
        say_json({"remotes": found})
    for finding in [] if as_json else [finding for each in found for finding in findings(each)]:
        show_finding(finding)
    if any(each["fault"] or each["write_fault"] for each in found):
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
    sent = [_send(each, root) for each in remotes]
    if as_json:
        say_json({"remotes": sent})
    for each in [] if as_json else sent:
        more = "".join(f"; {each[name]} {name}" for name in ("refused", "left") if each[name])
        objects = format_count(each["objects"], "object")
        say(f"`{each['url']}`: sent {objects}, {format_size(each['bytes'])}{more}")
        if each["fault"]:
            say(f"  {each['text']}", f"  {_fix_of(each['fault'])}")
    if any(each["fault"] or each["refused"] or each["left"] for each in sent):
        sys.exit(1)


def _settings() -> tuple[Config, Directory]:
    """The settings, which name a remote, and the cache directory; raises Failure."""
    settings = our_settings.load()
    if not settings.remote:
        raise Failure(
            "no remote is in use", "set `NVCCACHE_REMOTE`, as in `NVCCACHE_REMOTE=s3://bucket/prefix`"
        )
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    return settings, directory.of(settings)


def status_of(remote: Remote, root: Directory, may_write: bool) -> dict[str, Any]:
    """The state of a remote, as `--json` prints it; ends the outages of what works."""
    writing = OF_WRITING.format(remote.identity)
    seconds, fault, write_fault = None, None, None
    try:
        service = connect(remote, os.environ, _SECONDS)
        began = time.monotonic()
        service.get(envelope.name_of("probe-v1", "1" * 64), 0)
        seconds = time.monotonic() - began
        outages.end(remote.identity)
    except ServiceError as error:
        fault = error
    if not fault and remote.is_writable and may_write:
        content = envelope.seal(*_PROBE, b"nvccache remote status")
        try:
            service.put(envelope.name_of(*_PROBE), content)
            if service.get(envelope.name_of(*_PROBE), len(content)) != content:
                raise ServiceError("broken", "it does not return what was written")
            outages.end(writing)
        except ServiceError as error:
            write_fault = error
    return {
        "url": remote.shown,
        "is_writable": remote.is_writable,
        "seconds": seconds,
        "fault": fault.word if fault else "",
        "text": str(fault or ""),
        "write_fault": write_fault.word if write_fault else "",
        "write_text": str(write_fault or ""),
        "outage": outages.to_json(outages.current(remote.identity)),
        "write_outage": outages.to_json(outages.current(writing)) if remote.is_writable else None,
        "pending": len(uploads.queued(root, remote.identity)),
    }


def findings(found: Mapping[str, Any]) -> Iterator[Finding]:
    """The state of a remote, in words."""
    if not found["fault"]:
        rights = "to be read and written" if found["is_writable"] else "read only"
        text = f"`{found['url']}`, {rights}, answers in {1000 * found['seconds']:.1f} ms"
        yield Finding(GOOD, "remote", text)
    for fault, effect in (("", "cannot be used"), ("write_", "cannot be written to")):
        if word := found[f"{fault}fault"]:
            text = f"`{found['url']}` {effect}: {found[f'{fault}text']}"
            yield Finding(BAD, "remote", text, (_fix_of(word),))
    for name, effect in (("outage", "skipped"), ("write_outage", "not written to")):
        if outage := found[name]:
            until = format_time(outage["until"], "%H:%M:%S")
            yield Finding(ODD, "remote", f"{effect} by compiles until {until}: {outage['text']}")
    if found["pending"]:
        objects = format_count(found["pending"], "object")
        yield Finding(ODD, "remote", f"{objects} still to be sent", (), ("nvccache remote push",))


def _fix_of(word: str) -> str:
    """How to fix a fault of a remote, a word of outcomes.REMOTE_FAULTS."""
    usual = "check the URL, whether the server runs, and whether it can be reached from here"
    return f"to fix it: {_ADVICE.get(word, usual)}"


def _send(remote: Remote, root: Directory) -> dict[str, Any]:
    """Send what is queued for a remote; what was sent, as `--json` prints it."""
    sender = send_queued.Sender(root, remote, os.environ)
    with contextlib.suppress(NoCacheError):  # the job compiled nothing
        lock = uploads.take_lock(root, _LOCK_SECONDS) if uploads.queued(root, remote.identity) else None
        if lock is not None:
            sender.send_pending()
            flock.release(lock)
    if sender.objects and not sender.fault:
        outages.end(OF_WRITING.format(remote.identity))
    return {
        "url": remote.shown,
        "objects": sender.objects,
        "bytes": sender.bytes,
        "refused": sender.refused,  # the remote works, but did not take them
        "left": len(uploads.queued(root, remote.identity)),  # not tried, because of a fault
        "fault": sender.fault.word if sender.fault else "",
        "text": str(sender.fault or ""),
    }

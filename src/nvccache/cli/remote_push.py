"""`nvccache remote push`: sends what is queued, now and with an answer, or all that a remote has not got."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Container

import click

from nvccache.cli import bulk, remotes
from nvccache.cli import settings as our_settings
from nvccache.cli.bulk import Moved
from nvccache.cli.output import Tell, WrongUsage, bar, json_option
from nvccache.cli.remotes import Chosen
from nvccache.cli.units import age_option
from nvccache.files import flock
from nvccache.records import send_queued
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope, uploads
from nvccache.remote.service import Service, ServiceError
from nvccache.remote_url import Remote
from nvccache.store import eviction
from nvccache.store.directory import NoCacheError

_LOCK_SECONDS = 660.0  # an uploader that lives ends sooner


@click.command()
@click.option(
    "--pending", is_flag=True, help="Send what calls have queued, and wait for it; this is the default."
)
@click.option("--all", "everything", is_flag=True, help="Send all that may be shared and is not there.")
@click.option(
    "--since", "age", callback=age_option, metavar="AGE", help="As --all, of what was used since then."
)
@click.option("--dry-run", is_flag=True, help="Send nothing; say what would be sent.")
@json_option
def push(pending: bool, everything: bool, age: float | None, dry_run: bool, as_json: bool) -> None:
    """Send entries of this cache to the remotes that are written to.

    A process in the background sends what a build has made. A CI job that ends, and its machine with it, ends
    with `nvccache remote push`: that waits, and ends with status 1 if something could not be sent. AGE is
    written as `30d`, `12h` or `90m`. What was sent is not sent again when the command is.
    """
    if pending + everything + (age is not None) > 1:
        context = click.get_current_context()
        raise WrongUsage("`--pending`, `--all` and `--since` do not go together", ctx=context)
    chosen = remotes.load()

    def sent_to(remote: Remote) -> Moved:
        is_bulk = everything or age is not None
        try:
            with eviction.told_in_one_sentence(chosen.root):
                return _all(chosen, remote, age, dry_run) if is_bulk else _pending(chosen, remote, dry_run)
        except NoCacheError:  # a job that compiled nothing
            return Moved(remote.shown)

    bulk.each(chosen.writable, sent_to, "sent", "would send", dry_run, as_json)


def _pending(chosen: Chosen, remote: Remote, dry_run: bool) -> Moved:
    moved = Moved(remote.shown)
    if dry_run:
        moved.objects = uploads.waiting(chosen.root, remote.identity)
        return moved
    # Nothing to lock, and perhaps nowhere to make a lock, where there is nothing to send.
    if not uploads.pending(chosen.root, remote.identity):
        return moved
    with bar(f"sending to {remote.shown}", is_long=True) as tell:
        lock = uploads.take_lock(chosen.root, remote.identity, _LOCK_SECONDS)
        if lock is not None:
            try:
                _send(chosen, remote, moved, tell)
            finally:
                flock.let_go(lock)
    moved.left = uploads.waiting(chosen.root, remote.identity)
    return moved


def _send(chosen: Chosen, remote: Remote, moved: Moved, tell: Tell) -> None:
    transfer = Transfer(our_settings.untouched(chosen.root.path))
    sender = send_queued.Sender(chosen.root, remote, transfer, os.environ)
    sender.send_pending(tell)
    moved.objects, moved.bytes = sender.objects, sender.bytes
    moved.present, moved.refused = sender.present, sender.refused
    if sender.fault:
        moved.fail(sender.fault)


def _all(chosen: Chosen, remote: Remote, age: float | None, dry_run: bool) -> Moved:
    moved = Moved(remote.shown)
    transfer = Transfer(our_settings.untouched(chosen.root.path))
    oldest = 0.0 if age is None else time.time() - age
    items = [item for item, used in transfer.items() if used >= oldest]
    try:
        service = remotes.service(remote)
        there = _there(remote, service, [envelope.name_of(*item) for item in items])
    except ServiceError as error:
        moved.fail(error)
        moved.left = len(items)
        return moved
    # A record may lack what is here, also where there is one.
    missing = [item for item in items if transfer.is_promise(item) or envelope.name_of(*item) not in there]
    moved.present = len(items) - len(missing)
    if dry_run:
        missing = [item for item in missing if envelope.name_of(*item) not in there]
        moved.present, moved.objects = len(items) - len(missing), len(missing)
        return moved

    missing.sort(key=transfer.is_promise)  # last what promises that the others are there
    for _, some in itertools.groupby(missing, transfer.is_promise):
        if not moved.fault:
            bulk.move(
                f"sending to {remote.shown}", lambda item: transfer.send(item, service), list(some), moved
            )
    moved.left = len(items) - moved.objects - moved.present - moved.refused
    return moved


def _there(remote: Remote, service: Service, names: list[str]) -> Container[str]:
    """Which names a remote has; raises ServiceError."""
    try:
        return bulk.listed(remote, service)
    except ServiceError as error:
        if error.word != "broken":
            raise
    asked = Moved(remote.shown)
    there: set[str] = set()

    def ask(name: str) -> int:
        if service.has(name):
            there.add(name)
        return 0

    bulk.move(f"asking {remote.shown}", ask, names, asked)
    if asked.fault:
        raise ServiceError(asked.fault)
    return there

"""`nvccache remote push`, `pull` and `prune`: send, fetch and remove many objects, several at once."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

import click

from nvccache.cli import remote_status, remotes
from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, WrongUsage, bar, json_option, say, say_json, warn
from nvccache.cli.remotes import Chosen
from nvccache.cli.units import age_option, format_count, format_size, size_option
from nvccache.files import flock
from nvccache.records import send_queued
from nvccache.records.tiered_store import LARGEST
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope, parallel, uploads
from nvccache.remote.service import Service, ServiceError, is_remote_fault
from nvccache.remote_url import Remote
from nvccache.store import eviction
from nvccache.store.directory import NoCacheError
from nvccache.store.store import Store

Item = TypeVar("Item")

_AT_ONCE = 12  # concurrent requests
_STALL_SECONDS = 120.0
_MOST_IN_A_ROW = 20  # errors of single objects; after more, the remote is at fault
_LOCK_SECONDS = 660.0  # a live uploader ends sooner
# What was done, would be done with --dry-run, and if there was nothing to do.
_SENDING = ("sent", "would send", "no objects wait to be sent: compiles send theirs in the background")
_FETCHING = ("fetched", "would fetch", "no objects left to be fetched")
_REMOVING = ("removed", "would remove", "no objects left to be removed")
_NAME = re.compile(r"1/[0-9a-f]{2}/[0-9a-f]{64}")  # other names on a remote are not ours


@dataclass
class Moved:
    """Counts of the objects to move on one remote, by what happened to them."""

    url: str
    objects: int = 0  # moved, or with --dry-run to be moved
    bytes: int = 0
    present: int = 0  # already
    refused: int = 0  # damaged, or could not be moved
    left: int = 0  # not tried, because of a fault
    fault: str = ""
    text: str = ""

    @property
    def is_bad(self) -> bool:
        return bool(self.fault or self.refused or self.left)

    def fail(self, error: ServiceError) -> None:
        self.fault, self.text = error.word, str(error)


@click.command(epilog="Example: nvccache remote push")
@click.option("--pending", is_flag=True, help="Send what compiles have queued, and wait (the default).")
@click.option(
    "--all", "everything", is_flag=True, help="Send everything that may be shared and is not there yet."
)
@click.option(
    "--since",
    "age",
    callback=age_option,
    metavar="AGE",
    help="Like `--all`, but only what was used within AGE.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and check that it could be.")
@json_option
def push(pending: bool, everything: bool, age: float | None, dry_run: bool, as_json: bool) -> None:
    """Send entries of this cache to the writable remotes.

    During a build, a process in the background sends what was compiled. End a CI job with `nvccache remote
    push`: it waits until all is sent, and exits with status 1 if something could not be. What was sent once
    is not sent again. Only `--all` and `--since` send what compiles do not queue: nvcc's dry runs, which cost
    little to repeat, what came from remotes or packs, and what waited longer than a day. AGE is written as
    `30d`, `12h` or `90m`.
    """
    if pending + everything + (age is not None) > 1:
        raise WrongUsage("`--pending`, `--all` and `--since` cannot be combined")
    chosen = remotes.load()

    def send(remote: Remote, moved: Moved) -> None:
        try:
            with eviction.as_store_errors(chosen.root):
                if everything or age is not None:
                    _send_all(chosen, remote, moved, age, dry_run)
                else:
                    _send_pending(chosen, remote, moved, dry_run)
        except NoCacheError:
            pass  # the job compiled nothing

    elsewhere = uploads.count_elsewhere(chosen.root, chosen.remotes)
    if elsewhere and not everything and age is None:
        warn(f"{format_count(elsewhere, 'object')} {uploads.WAIT_ELSEWHERE}")
    _each(chosen.writable, send, _SENDING, dry_run, as_json)


@click.command(epilog="Example: nvccache remote pull --dry-run")
@click.option("--dry-run", is_flag=True, help="Show what would be fetched; fetch nothing.")
@json_option
def pull(dry_run: bool, as_json: bool) -> None:
    """Fetch everything that the remotes have and this cache lacks.

    This prepares for working offline. Every object is checked, as in a compile. After an interruption, run
    it again: it goes on from there. Exits with status 1 if something could not be fetched. The size limit of
    the cache holds from the next compile on.
    """
    chosen = remotes.load()
    if chosen.settings.readonly:
        raise Failure(f"nothing can be stored: `readonly` is on ({chosen.settings.origins['readonly']})")

    def fetch(remote: Remote, moved: Moved) -> None:
        _fetch_all(chosen, remote, moved, dry_run)

    _each(chosen.remotes, fetch, _FETCHING, dry_run, as_json)


@click.command(epilog="Example: nvccache remote prune --older-than 30d")
@click.option(
    "--older-than",
    "age",
    callback=age_option,
    metavar="AGE",
    help="Remove objects written longer than AGE ago.",
)
@click.option(
    "--max-size",
    "most",
    callback=size_option,
    metavar="SIZE",
    help="Remove the oldest objects until at most SIZE is left.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@json_option
def prune(age: float | None, most: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove old objects from the writable remotes.

    AGE is written as `30d`, SIZE as `10G`. The age of an object counts from when it was written, because only
    redis knows when it was last used; what is still needed is compiled and sent again. A lifecycle rule of S3
    or `maxmemory` of redis does the same without this command.
    """
    if age is None and most is None:
        raise WrongUsage("`--older-than` or `--max-size` is required")

    def remove(remote: Remote, moved: Moved) -> None:
        _remove_old(remote, moved, age, most, dry_run)

    _each(remotes.load().writable, remove, _REMOVING, dry_run, as_json)


def _each(
    chosen: Sequence[Remote],
    work: Callable[[Remote, Moved], None],
    words: tuple[str, str, str],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Do the work of a command for each remote, show the results, exit with status 1 if one is bad."""
    found = []
    for remote in chosen:
        moved = Moved(remote.shown)
        try:
            work(remote, moved)
        except ServiceError as error:
            moved.fail(error)
        found.append(moved)
        if not as_json:
            _show(moved, words[dry_run], words[2])
    if as_json:
        say_json({"remotes": [asdict(moved) for moved in found], "dry_run": dry_run})
    if any(moved.is_bad for moved in found):
        sys.exit(1)


def _send_pending(chosen: Chosen, remote: Remote, moved: Moved, dry_run: bool) -> None:
    waiting = uploads.count_pending(chosen.root, remote.identity)
    # With nothing to send, the directory for the lock may not exist.
    if not uploads.pending(chosen.root, remote.identity):
        return
    if dry_run:
        moved.left = waiting
        remote_status.try_to_write(remotes.service(remote), remote, chosen.root)
        moved.objects, moved.left = waiting, 0
        return
    with bar(f"sending to {remote.shown}", is_long=True) as on_progress:
        lock = uploads.take_lock(chosen.root, remote.identity, _LOCK_SECONDS)
        if lock is not None:
            try:
                left = uploads.count_pending(chosen.root, remote.identity)
                sent_meanwhile = max(0, waiting - left)  # by the process that held the lock
                transfer = Transfer(our_settings.untouched(chosen.root.path))
                sender = send_queued.Sender(chosen.root, remote, transfer, os.environ)
                sender.send_pending(on_progress)
                moved.objects, moved.bytes = sender.objects, sender.bytes
                moved.present, moved.refused = sent_meanwhile + sender.present, sender.refused
                if sender.fault:
                    moved.fail(sender.fault)
            finally:
                flock.release(lock)
    moved.left = uploads.count_pending(chosen.root, remote.identity)


def _send_all(chosen: Chosen, remote: Remote, moved: Moved, age: float | None, dry_run: bool) -> None:
    transfer = Transfer(our_settings.untouched(chosen.root.path))
    oldest = 0.0 if age is None else time.time() - age
    items = [item for item, used in transfer.items() if used >= oldest]
    moved.left = len(items)
    service = remotes.service(remote)
    there = _there(remote, service, [envelope.name_of(*item) for item in items])
    missing = [item for item in items if envelope.name_of(*item) not in there]
    if dry_run:
        remote_status.try_to_write(service, remote, chosen.root)
        moved.objects, moved.present, moved.left = len(missing), len(items) - len(missing), 0
        return
    # Records are sent even if present: the remote's may lack pairs of ours. They come last: they refer to
    # blobs.
    records = [item for item in items if transfer.is_sent_last(item)]
    blobs = [item for item in missing if not transfer.is_sent_last(item)]
    moved.present = len(items) - len(blobs) - len(records)
    for some in (blobs, records):
        if not moved.fault:
            _move(f"sending to {remote.shown}", lambda item: transfer.send(item, service), some, moved)
    moved.left = len(items) - moved.objects - moved.present - moved.refused


def _there(remote: Remote, service: Service, names: list[str]) -> Container[str]:
    """The names that a remote has; raises ServiceError."""
    try:
        return remotes.listed(remote, service)
    except ServiceError as error:
        if error.word != "broken":
            raise
    queried = Moved(remote.shown)
    there: set[str] = set()

    def query(name: str) -> int:
        if service.has(name):
            there.add(name)
        return 0

    _move(f"querying {remote.shown}", query, names, queried)
    if queried.fault:
        raise ServiceError(queried.fault)
    return there


def _fetch_all(chosen: Chosen, remote: Remote, moved: Moved, dry_run: bool) -> None:
    chosen.root.prepare()
    cache = Store(chosen.root)
    transfer = Transfer(cache, chosen.settings.max_size)
    with eviction.as_store_errors(chosen.root):
        here = {envelope.name_of(*item) for item, _ in transfer.items() if not transfer.is_sent_last(item)}
    service = remotes.service(remote)
    there = remotes.listed(remote, service)
    missing = [name for name in there if name not in here]
    moved.present = len(there) - len(missing)
    if dry_run:
        moved.objects, moved.bytes = len(missing), sum(there[name][0] for name in missing)
        return

    def fetch(name: str) -> int:
        content = service.get(name, envelope.max_sealed_size(LARGEST))
        if content is None:
            return 0
        is_new = transfer.take_in(content, name)
        if cache.fault:
            raise Failure(f"nothing can be stored: {cache.fault_message}")
        return len(content) if is_new else 0

    _move(f"fetching from {remote.shown}", fetch, missing, moved)
    transfer.keep_within_limit()


def _remove_old(remote: Remote, moved: Moved, age: float | None, most: int | None, dry_run: bool) -> None:
    service = remotes.service(remote)
    there = {name: found for name, found in remotes.listed(remote, service).items() if _NAME.fullmatch(name)}
    if there and not any(changed for _, changed in there.values()):
        raise ServiceError("broken", "it does not say when objects were written")
    doomed = doomed_of(there, age, most)
    if dry_run:
        moved.objects, moved.bytes = len(doomed), sum(there[name][0] for name in doomed)
        return

    def remove(name: str) -> int:
        service.delete(name)
        return max(1, there[name][0])

    _move(f"pruning {remote.shown}", remove, doomed, moved)
    service.sweep()


def doomed_of(there: dict[str, tuple[int, float]], age: float | None, most: int | None) -> list[str]:
    """The names to remove, oldest first; `there` has sizes and times of change."""
    now = time.time()
    total = sum(size for size, _ in there.values())
    doomed = []
    for name, (size, changed) in sorted(there.items(), key=lambda each: each[1][1]):
        is_old = age is not None and now - changed > age
        if is_old or (most is not None and total > most):
            doomed.append(name)
            total -= size
    return doomed


def _move(title: str, work: Callable[[Item], int], items: Sequence[Item], moved: Moved) -> None:
    """Do the work for each item; `work` returns the bytes moved, 0 if the object was already present."""
    failed = 0
    left = len(items)
    with bar(title) as on_progress:
        try:
            for _, size, error in parallel.each(work, items, _AT_ONCE, _STALL_SECONDS, is_remote_fault):
                failed = failed + 1 if error else 0
                if isinstance(error, ServiceError) and (is_remote_fault(error) or failed >= _MOST_IN_A_ROW):
                    moved.fail(error)
                    break
                if error and not isinstance(error, (ServiceError, ValueError)):
                    raise error
                left -= 1
                on_progress(len(items) - left, len(items))
                if error:
                    moved.refused += 1
                elif size:
                    moved.objects += 1
                    moved.bytes += size
                else:
                    moved.present += 1
        except parallel.StalledError as error:
            moved.fail(ServiceError("timeout", str(error)))
    moved.left = left


def _show(moved: Moved, verb: str, nothing: str) -> None:
    if not any((moved.objects, moved.present, moved.is_bad)):
        say(f"`{moved.url}`: {nothing}")
        return
    size = f", {format_size(moved.bytes)}" if moved.bytes else ""
    present = f"; {moved.present} already present" if moved.present else ""
    refused = f"; {moved.refused} refused" if moved.refused else ""
    left = f"; {moved.left} left" if moved.left else ""
    say(f"`{moved.url}`: {verb} {format_count(moved.objects, 'object')}{size}{present}{refused}{left}")
    if moved.fault:
        hint = remotes.advice(moved.fault, moved.url, moved.text)
        say(f"  {moved.text}", *([f"  to fix it: {hint}"] if hint else []))

"""`nvccache remote status` and `test`: whether remotes respond, how fast, and the rights of this user."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import click

from nvccache.cli import remotes
from nvccache.cli import settings as our_settings
from nvccache.cli.output import GREEN, RED, YELLOW, bar, json_option, say, say_json, say_parts
from nvccache.cli.units import format_count, format_size, moment
from nvccache.records.transfer import Transfer
from nvccache.remote import envelope, uploads
from nvccache.remote.breaker import Breaker, Outage
from nvccache.remote.service import Service, ServiceError
from nvccache.remote_url import Remote
from nvccache.store.directory import Directory

READ, WRITE, READ_BACK, LIST, DELETE = "read", "write", "read back", "list", "delete"
_NEEDED = (READ, WRITE, READ_BACK)  # only `status --list`, `pull` and `prune` need the others
_SECONDS = 5.0  # for a response; longer than a compile waits
_LIST_SECONDS = 30.0
_ABSENT = ("remote-status", "0" * 64)  # bucket and key of an object that does not exist
_PROBE = b"nvccache remote test"
_LARGEST_PROBE = 1 << 24  # bytes


@dataclass
class Right:
    """The result of trying one right."""

    right: str
    is_there: bool  # whether this user has it
    seconds: float  # that the test took
    fault: str = ""  # why it is missing, of outcomes.REMOTE_FAULTS
    text: str = ""  # and a clause

    @property
    def is_needed(self) -> bool:
        return self.right in _NEEDED


@dataclass
class Status:
    """The state of one remote."""

    url: str
    is_writable: bool
    has_seconds: float | None = None  # to query whether an object exists
    get_seconds: float | None = None  # to get a missing object
    fault: str = ""  # of outcomes.REMOTE_FAULTS, or empty
    text: str = ""
    write: Right | None = None  # None if nothing is to be written, or it cannot be read
    outage: Outage | None = None  # because of which compiles skip it
    write_outage: Outage | None = None  # the same for sending to it
    pending: int = 0  # objects of this cache that are still to be sent
    objects: int | None = None
    bytes: int | None = None

    @property
    def rights(self) -> str:
        return "to be read and written" if self.is_writable else "read only"

    @property
    def is_read(self) -> bool:
        """Whether compiles can read it; any fault is one of listing then."""
        return self.get_seconds is not None

    @property
    def cannot_be_written(self) -> bool:
        return self.write is not None and not self.write.is_there


@click.command(epilog="Example: nvccache remote status --list")
@click.option("--list", "lists", is_flag=True, help="Also count the objects there, which takes a while.")
@json_option
def status(lists: bool, as_json: bool) -> None:
    """Show the state, speed and upload queue of each remote.

    An object is written to writable remotes, and deleted. Compiles that skip a remote after a fault use
    it again if it works now. Exits with status 1 if one cannot be used.
    """
    chosen = remotes.load()
    found = []
    for remote in chosen.remotes:
        found.append(of(remote, chosen.root, not chosen.settings.readonly, lists))
        if not as_json:
            _show_status(found[-1])
    elsewhere = uploads.count_elsewhere(chosen.root, chosen.remotes)
    if as_json:
        say_json({"remotes": [_document(each) for each in found], "elsewhere": elsewhere})
    elif elsewhere:
        say(f"{format_count(elsewhere, 'object')} {uploads.WAIT_ELSEWHERE}")
    if any(each.fault or each.cannot_be_written for each in found):
        sys.exit(1)


def of(remote: Remote, root: Directory, may_write: bool, lists: bool = False) -> Status:
    """The status of a remote, which is queried even during an outage; what works is no longer skipped."""
    found = Status(remote.shown, remote.is_writable)
    found.pending = uploads.count_pending(root, remote.identity)
    name = envelope.name_of(*_ABSENT)
    try:
        service = remotes.service(remote, _LIST_SECONDS if lists else _SECONDS)
        service.has(name)  # the first response includes connecting
        started = time.monotonic()
        service.has(name)
        found.has_seconds = time.monotonic() - started
        service.get(name, 1 << 20)
        found.get_seconds = time.monotonic() - started - found.has_seconds
        _end_outages(remote, {READ})
        if remote.is_writable and may_write:
            found.write = _try(WRITE, lambda: try_to_write(service, remote, root))
            if found.write.is_there:
                _end_outages(remote, {READ_BACK})
        if lists:
            sizes = [size for size, _ in remotes.listed(remote, service).values()]
            found.objects, found.bytes = len(sizes), sum(sizes)
    except ServiceError as error:
        found.fault, found.text = error.word, str(error)
    found.outage = _current(Breaker(remote.identity))
    if remote.is_writable:
        found.write_outage = _current(Breaker(remote.identity, for_writing=True))
    return found


def try_to_write(service: Service, remote: Remote, root: Directory) -> None:
    """Write an object and delete it; raises ServiceError if it cannot be written."""
    name, content = _probe(remote, root)
    try:
        service.put(name, content)
    finally:
        with contextlib.suppress(ServiceError):
            service.delete(name)


def _current(breaker: Breaker) -> Outage | None:
    """Its outage, unless that is over: the next compile tries the remote."""
    outage = breaker.outage()
    return None if outage and outage.is_over else outage


def _document(found: Status) -> dict[str, object]:
    outages = {name: remotes.outage_json(getattr(found, name)) for name in ("outage", "write_outage")}
    return asdict(found) | outages


def _show_status(found: Status) -> None:
    is_bad = (found.fault and not found.is_read) or found.cannot_be_written
    say_parts((f"{'bad' if is_bad else 'ok':<4}", RED if is_bad else GREEN), f" {found.url}: {found.rights}")
    if not found.is_read:
        say(f"     {found.text}")
        _say_advice(found.fault, found.url, found.text)
    elif found.has_seconds is not None and found.get_seconds is not None:
        has, get = remotes.milliseconds(found.has_seconds), remotes.milliseconds(found.get_seconds)
        say(f"     answers in {has}; looking up a missing object takes {get}")
        say(*([f"     cannot be listed: {found.text}"] if found.fault else []))
    if found.write and found.cannot_be_written:
        say(f"     cannot be written to: {found.write.text}")
        _say_advice(found.write.fault, found.url, found.write.text)
    for effect, outage in (("skipped", found.outage), ("not written to", found.write_outage)):
        if outage:
            since, until = (moment(seconds, "%H:%M:%S") for seconds in (outage.since, outage.until))
            say_parts("     ", (effect, YELLOW), f" by compiles from {since} until {until}: {outage.text}")
    if found.objects is not None:
        say(f"     {format_count(found.objects, 'object')}, {format_size(found.bytes or 0)}")
    if found.pending:
        say(f"     {format_count(found.pending, 'object')} still to be sent, as by `nvccache remote push`")


def _say_advice(fault: str, url: str, text: str) -> None:
    hint = remotes.advice(fault, url, text)
    say(*([f"     to fix it: {hint}"] if hint else []))


@click.command("test", epilog="Example: nvccache remote test")
@json_option
def test(as_json: bool) -> None:
    """Try what a compile needs from each remote.

    Reads an object; if the remote is writable, also writes one, reads it back, lists it and deletes it. With
    `NVCCACHE_READONLY` nothing is written. Compiles that skip a remote after a fault use it again as soon as
    it passes. Exits with status 1 if a right is missing that compiles need.
    """
    chosen = remotes.load()
    shown = []
    is_bad = False
    for remote in chosen.remotes:
        with bar(f"querying {remote.shown}", is_long=True):
            is_written = remote.is_writable and not chosen.settings.readonly
            rights = list(_tried(remote, chosen.root, is_written))
        is_bad |= any(not each.is_there and each.is_needed for each in rights)
        _end_outages(remote, {each.right for each in rights if each.is_there})
        shown.append(
            {"url": remote.shown, "is_writable": remote.is_writable, "rights": list(map(asdict, rights))}
        )
        if not as_json:
            _show_rights(remote, rights)
    if as_json:
        say_json({"remotes": shown, "is_bad": is_bad})
    if is_bad:
        sys.exit(1)


def _tried(remote: Remote, root: Directory, is_written: bool) -> Iterator[Right]:
    """Try the rights that a remote needs one by one, until one that others depend on is missing."""
    name, content = _probe(remote, root)
    clients: list[Service] = []

    def read() -> None:
        clients.append(remotes.service(remote, _SECONDS))
        clients[0].get(name, len(content))

    right = _try(READ, read)
    yield right
    if not right.is_there or not is_written:
        return
    service = clients[0]
    right = _try(WRITE, lambda: service.put(name, content))
    yield right
    if not right.is_there:
        return
    yield _try(READ_BACK, lambda: _read_back(service, name, content))
    yield _try(LIST, lambda: _find(service, name))
    yield _try(DELETE, lambda: service.delete(name))


def _probe(remote: Remote, root: Directory) -> tuple[str, bytes]:
    """The name and content of a new object: a small one, unless the remote was full.

    Where an object did not fit, a small one may. So this one is as large as all that are still to be sent.
    """
    key, size = os.urandom(32).hex(), 0
    outage = Breaker(remote.identity, for_writing=True).outage()
    if outage and outage.word == "full":
        transfer = Transfer(our_settings.untouched(root.path))
        for _, item in uploads.items(root, remote.identity):
            size += len(transfer.sealed(item) or b"") if size < _LARGEST_PROBE else 0
    return envelope.name_of("probe-v1", key), envelope.seal("probe-v1", key, _PROBE + os.urandom(size))


def _end_outages(remote: Remote, rights: set[str]) -> None:
    """End outages of what works again, so that compiles use it at once."""
    if READ in rights:
        Breaker(remote.identity).close()
    if READ_BACK in rights:
        Breaker(remote.identity, for_writing=True).close()


def _try(right: str, use: Callable[[], None]) -> Right:
    started = time.monotonic()
    try:
        use()
    except ServiceError as error:
        return Right(right, False, time.monotonic() - started, error.word, str(error))
    return Right(right, True, time.monotonic() - started)


def _read_back(service: Service, name: str, content: bytes) -> None:
    if service.get(name, len(content)) != content:
        raise ServiceError("broken", "it does not return what was written")


def _find(service: Service, name: str) -> None:
    if name not in remotes.names_in(f"{os.path.dirname(name)}/", service):
        raise ServiceError("broken", "what was written is not listed")


def _show_rights(remote: Remote, rights: list[Right]) -> None:
    say(remote.shown)
    for right in rights:
        if right.is_there:
            word, why = ("yes", GREEN), remotes.milliseconds(right.seconds)
        elif right.is_needed:
            word, why = ("no", RED), right.text
        else:
            word, why = ("no", YELLOW), f"{right.text}; compiles do not need it"
        say_parts(f"  {right.right:<10}", (f"{word[0]:<4}", word[1]), why)
        hint = remotes.advice(right.fault, remote.shown, right.text) if right.is_needed else ""
        say(*([f"  {'':<14}to fix it: {hint}"] if hint else []))

"""`nvccache remote status`: whether remotes answer, how fast, and what is still to be sent to them."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass

import click

from nvccache.cli import bulk, remotes
from nvccache.cli.output import GREEN, RED, YELLOW, json_option, say, say_json, say_parts
from nvccache.cli.units import count_words, moment, size_words
from nvccache.remote import envelope, uploads
from nvccache.remote.breaker import Breaker
from nvccache.remote.service import ServiceError
from nvccache.remote_url import Remote
from nvccache.store.directory import Directory

_SECONDS = 5.0  # for an answer: a compile does not wait that long
_LIST_SECONDS = 30.0
_ABSENT = ("remote-status", "0" * 64)  # bucket and key of nothing


@dataclass
class Status:
    """What is known of one remote."""

    url: str
    is_writable: bool
    has_seconds: float | None = None  # to ask whether something is there
    get_seconds: float | None = None  # to get what is not there
    fault: str = ""  # a word of outcomes.REMOTE_FAULTS, or empty
    text: str = ""
    outage: dict[str, object] | None = None  # since and until when compiles do not read it, and why
    write_outage: dict[str, object] | None = None  # the same of sending to it
    pending: int = 0  # objects of this cache that are still to be sent
    objects: int | None = None
    bytes: int | None = None

    @property
    def rights(self) -> str:
        return "read and written" if self.is_writable else "read only"

    @property
    def is_read(self) -> bool:
        """Whether compiles can read it; a fault is one of its list then."""
        return self.get_seconds is not None


@click.command()
@click.option("--list", "lists", is_flag=True, help="Also count what is there, which takes a while.")
@json_option
def status(lists: bool, as_json: bool) -> None:
    """Say of each remote whether it answers, how fast, and what is still to be sent to it.

    Ends with status 1 if one of them cannot be used.
    """
    chosen = remotes.load()
    found = []
    for remote in chosen.remotes:
        found.append(of(remote, chosen.root, lists))
        if not as_json:
            _show(found[-1])
    if as_json:
        say_json({"remotes": [asdict(each) for each in found]})
    if any(each.fault for each in found):
        sys.exit(1)


def of(remote: Remote, root: Directory, lists: bool = False) -> Status:
    """Ask a remote, also during an outage."""
    found = Status(remote.shown, remote.is_writable)
    found.outage, found.write_outage = _outage(remote, False), _outage(remote, True)
    found.pending = uploads.waiting(root, remote.identity)
    name = envelope.name_of(*_ABSENT)
    try:
        service = remotes.service(remote, _LIST_SECONDS if lists else _SECONDS)
        service.has(name)  # the first answer pays for the connection
        started = time.monotonic()
        service.has(name)
        found.has_seconds = time.monotonic() - started
        service.get(name, 1 << 20)
        found.get_seconds = time.monotonic() - started - found.has_seconds
        if lists:
            sizes = [size for size, _ in bulk.listed(remote, service).values()]
            found.objects, found.bytes = len(sizes), sum(sizes)
    except ServiceError as error:
        found.fault, found.text = error.word, str(error)
    return found


def _outage(remote: Remote, for_writing: bool) -> dict[str, object] | None:
    outage = Breaker(remote.identity, for_writing=for_writing).outage()
    names = ("since", "until", "word", "text", "trips")
    return {name: getattr(outage, name) for name in names} if outage else None


def _show(found: Status) -> None:
    is_bad = found.fault and not found.is_read
    say_parts((f"{'bad' if is_bad else 'ok':<4}", RED if is_bad else GREEN), f" {found.url}: {found.rights}")
    if is_bad:
        say(f"     {found.text}")
        hint = remotes.advice(found.fault, found.url, found.text)
        say(*([f"     to mend it: {hint}"] if hint else []))
    elif found.has_seconds is not None and found.get_seconds is not None:
        asked, got = remotes.milliseconds(found.has_seconds), remotes.milliseconds(found.get_seconds)
        say(f"     answers in {asked}, and in {got} where it lacks what is asked for")
        say(*([f"     cannot be listed: {found.text}"] if found.fault else []))
    for words, outage in (("left alone", found.outage), ("not written to", found.write_outage)):
        if outage:
            since, until = (moment(float(str(outage[name])), "%H:%M:%S") for name in ("since", "until"))
            why = f" by compiles since {since}, until {until}: {outage['text']}"
            say_parts("     ", (words, YELLOW), why)
    if found.objects is not None:
        say(f"     {count_words(found.objects, 'object')}, {size_words(found.bytes or 0)}")
    if found.pending:
        say(f"     {count_words(found.pending, 'object')} still to be sent")

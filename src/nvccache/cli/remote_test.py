"""`nvccache remote test`: which rights this user has, found out by using them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import click

from nvccache.cli import remotes
from nvccache.cli.output import GREEN, RED, YELLOW, bar, json_option, say, say_json, say_parts
from nvccache.remote import envelope
from nvccache.remote.breaker import Breaker
from nvccache.remote.service import Service, ServiceError
from nvccache.remote_url import Remote

READ, WRITE, READ_BACK, LIST, DELETE = "read", "write", "read back", "list", "delete"
_SECONDS = 5.0  # for an answer: a compile does not wait that long
_NEEDED = (READ, WRITE, READ_BACK)  # the others are for `status --list`, `pull` and `prune` alone
_YES, _NO = "yes", "no"
_COLOURS = {_YES: GREEN, _NO: RED}
_PROBE = b"nvccache remote test"


@dataclass
class Right:
    """One right that was tried."""

    right: str
    is_there: bool  # whether this user has it
    seconds: float  # that it took to find out
    fault: str = ""  # why it is missing: a word of outcomes.REMOTE_FAULTS
    text: str = ""  # and a clause

    @property
    def is_needed(self) -> bool:
        return self.right in _NEEDED


@click.command("test")
@json_option
def test(as_json: bool) -> None:
    """Read, and where a remote is written to, write, read back, list and delete a probe.

    With `NVCCACHE_READONLY` nothing is written. A remote that compiles leave alone after a fault, and that
    passes, is asked by them again at once. Ends with status 1 if a right is missing that compiles need.
    """
    chosen = remotes.load()
    shown = []
    is_bad = False
    for remote in chosen.remotes:
        with bar(f"asking {remote.shown}", is_long=True):
            is_written = remote.is_writable and not chosen.settings.readonly
            rights = list(tried(remote, is_written))
        is_bad |= any(not each.is_there and each.is_needed for each in rights)
        _end_outages(remote, {each.right for each in rights if each.is_there})
        shown.append(
            {"url": remote.shown, "is_writable": remote.is_writable, "rights": list(map(asdict, rights))}
        )
        if not as_json:
            _show(remote, rights)
    if as_json:
        say_json({"remotes": shown, "is_bad": is_bad})
    if is_bad:
        sys.exit(1)


def tried(remote: Remote, is_written: bool) -> Iterator[Right]:
    """The rights that a remote needs, used one after the other as far as they go."""
    key = os.urandom(32).hex()
    name, content = envelope.name_of("probe-v1", key), envelope.seal("probe-v1", key, _PROBE)
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


def _end_outages(remote: Remote, rights: set[str]) -> None:
    """Have compiles use at once what works again."""
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
        raise ServiceError("broken", "what was written is not what is read")


def _find(service: Service, name: str) -> None:
    folder = name.rpartition("/")[0]
    try:
        is_found = any(found == name for found, _, _ in service.list(f"{folder}/"))
    except ServiceError as error:
        raise ServiceError("broken", text=remotes.NO_LIST) if error.word == "broken" else error from None
    if not is_found:
        raise ServiceError("broken", "what was written is not listed")


def _show(remote: Remote, rights: list[Right]) -> None:
    say(remote.shown)
    for right in rights:
        word = _YES if right.is_there else _NO
        colour = _COLOURS[word] if right.is_needed or right.is_there else YELLOW
        why = remotes.milliseconds(right.seconds) if right.is_there else right.text
        if not right.is_there and not right.is_needed:
            why += "; compiles do without"
        say_parts(f"  {right.right:<10}", (f"{word:<4}", colour), why)
        hint = remotes.advice(right.fault, remote.shown, right.text) if right.is_needed else ""
        say(*([f"  {'':<14}to mend it: {hint}"] if hint else []))

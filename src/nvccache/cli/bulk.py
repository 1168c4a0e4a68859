"""Moving many objects to or from a remote: several at once, with a bar, and as far as the remote permits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from nvccache.cli import remotes
from nvccache.cli.output import bar, say, say_json
from nvccache.cli.units import count_words, size_words
from nvccache.remote import parallel
from nvccache.remote.service import Service, ServiceError, is_of_remote
from nvccache.remote_url import Remote

Item = TypeVar("Item")

_AT_ONCE = 12  # requests
_STALL_SECONDS = 120.0
_MOST_IN_A_ROW = 20  # errors of single objects, after which the remote is the matter


@dataclass
class Moved:
    """What became of the objects that were to be moved, on one remote."""

    url: str
    objects: int = 0  # that were moved, or would be
    bytes: int = 0
    present: int = 0  # that were there already
    refused: int = 0  # that were not what they should be, or could not be moved
    left: int = 0  # that nobody came to, because of a fault
    fault: str = ""
    text: str = ""

    @property
    def is_bad(self) -> bool:
        return bool(self.fault or self.refused or self.left)

    def fail(self, error: ServiceError) -> None:
        self.fault, self.text = error.word, str(error)


def each(
    chosen: Sequence[Remote],
    work: Callable[[Remote], Moved],
    done: str,
    would: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Do the work of a command for each remote and show what became of it; status 1 if something is bad."""
    found = []
    for remote in chosen:
        found.append(work(remote))
        if not as_json:
            _show(found[-1], done, would if dry_run else done)
    if as_json:
        say_json({"remotes": [asdict(moved) for moved in found], "dry_run": dry_run})
    if any(moved.is_bad for moved in found):
        sys.exit(1)


def move(title: str, work: Callable[[Item], int], items: Sequence[Item], moved: Moved) -> None:
    """Do the work for each item, which returns the bytes that it moved, 0 where it was there already."""
    done = failed = 0
    with bar(title) as tell:
        try:
            for _, size, error in parallel.each(work, items, _AT_ONCE, _STALL_SECONDS, is_of_remote):
                done += 1
                tell(done, len(items))
                failed = failed + 1 if error else 0
                if isinstance(error, ServiceError) and (is_of_remote(error) or failed >= _MOST_IN_A_ROW):
                    moved.fail(error)
                    break
                if error and not isinstance(error, (ServiceError, ValueError)):
                    raise error
                _count(moved, size, error)
        except parallel.StalledError as error:
            moved.fail(ServiceError("timeout", str(error)))
    moved.left = len(items) - moved.objects - moved.present - moved.refused


def _count(moved: Moved, size: int | None, error: Exception | None) -> None:
    if error:
        moved.refused += 1
    elif size:
        moved.objects += 1
        moved.bytes += size
    else:
        moved.present += 1


def listed(remote: Remote, service: Service) -> dict[str, tuple[int, float]]:
    """The names of ours on a remote, their sizes and times of change; raises ServiceError.

    One that has no lists, such as a web server without PROPFIND, is `broken`.
    """
    with bar(f"listing {remote.shown}", is_long=True):
        try:
            return {name: (size, changed) for name, size, changed in service.list(remotes.PREFIX)}
        except ServiceError as error:
            if error.word != "broken":
                raise
            raise ServiceError("broken", text=remotes.NO_LIST) from None


def _show(moved: Moved, done: str, verb: str) -> None:
    """What became of it, in words."""
    if not any((moved.objects, moved.present, moved.is_bad)):
        say(f"`{moved.url}`: nothing to be {done}")
        return
    size = f", {size_words(moved.bytes)}" if moved.bytes else ""
    present = f"; {moved.present} there already" if moved.present else ""
    refused = f"; {moved.refused} refused" if moved.refused else ""
    left = f"; {moved.left} left" if moved.left else ""
    say(f"`{moved.url}`: {verb} {count_words(moved.objects, 'object')}{size}{present}{refused}{left}")
    if moved.fault:
        hint = remotes.advice(moved.fault, moved.url, moved.text)
        say(f"  {moved.text}", *([f"  to mend it: {hint}"] if hint else []))

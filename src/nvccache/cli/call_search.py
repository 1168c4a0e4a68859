"""Which call is meant by a path: of a product, of a source, or the end of either; the newest of all without.

The exact product goes before the exact source, and both before a path that only ends so. Of several calls the
newest is taken.
"""

from __future__ import annotations

import os

from nvccache import outcomes
from nvccache.store import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nvccache.store.event_line import Event

_ALIKE = 0.75
_MOST_NAMES = 5000  # that are compared with one that is not known


class Match:
    """A call, the path by which it was found, and further paths that would have fitted as well."""

    __slots__ = ("call", "others", "path")

    def __init__(self, call: Event, path: str, others: list[str]) -> None:
        self.call = call
        self.path = path
        self.others = others


def newest_compile(root: str) -> Event | None:
    """The last call of all but those that only asked nvcc about itself; raises events.JournalError."""
    return next(filter(_is_compile, events.newest(root)), None)


def exact(root: str, typed: str) -> tuple[Event | None, Event | None]:
    """The last call that made this file, and the last one that read it; raises events.JournalError."""
    locate = _Locations()
    wanted = locate(os.path.abspath(typed))
    last_reader = None
    for call in _naming(root, typed):
        if call.product and locate(call.product) == wanted:
            return call, last_reader
        if not last_reader and wanted in map(locate, sources_of(call)):
            last_reader = call
    return None, last_reader


def ending(root: str, typed: str) -> Match | None:
    """The last call of a product, or else of a source, whose path ends so; raises events.JournalError."""
    end = os.path.normpath(typed)
    calls = list(_naming(root, typed))
    return _last(calls, end, _products_of) or _last(calls, end, sources_of)


def since(root: str, found: Event) -> Event:
    """The last call for the same product, if that is one of which nobody looked at the sources: a bypass."""
    last = events.last_call(root, found.product) if found.product else None
    return last if last and not last.sources else found


def near(root: str, typed: str) -> str:
    """A product or a source whose name is most like this one, as a path; empty if none is."""
    import difflib

    wanted = os.path.basename(typed).lower()
    paths: dict[str, str] = {}
    for call in filter(_is_compile, events.newest(root)):
        for path in (*_products_of(call), *sources_of(call)):
            paths.setdefault(os.path.basename(path).lower(), path)
        if len(paths) >= _MOST_NAMES:
            break
    found = difflib.get_close_matches(wanted, paths, 1, _ALIKE)
    return paths[found[0]] if found else ""


def sources_of(call: Event) -> list[str]:
    """The sources of a call, as whole paths; `..` stays, since links may stand before it."""
    return [os.path.join(call.directory, source) for source in call.sources]


def shown(path: str) -> str:
    """A path as it is typed from here, where it is below the working directory."""
    here = os.path.join(os.getcwd(), "")
    return path[len(here) :] if path.startswith(here) else path


def _products_of(call: Event) -> list[str]:
    return [call.product] if call.product else []


def _naming(root: str, typed: str) -> Iterator[Event]:
    """The calls that may be meant, newest first: first the compiles, then the queries (`-M` of a source)."""
    name = os.path.basename(os.path.normpath(typed))
    for wants_queries in (False, True):
        calls = filter(_is_compile, events.newest(root, name))
        yield from (call for call in calls if (call.outcome in outcomes.QUERIES) == wants_queries)


def _is_compile(call: Event) -> bool:
    """Whether a call is about a source: no compile asks nvcc for its version."""
    return call.reason != "information" and (call.outcome not in outcomes.QUERIES or bool(call.sources))


def _last(calls: Iterable[Event], end: str, paths_of: Callable[[Event], list[str]]) -> Match | None:
    last = None
    found: dict[str, None] = {}
    for call in calls:
        for path in map(os.path.normpath, paths_of(call)):
            if path.endswith(os.sep + end):
                last = last or call
                found[path] = None
    return Match(last, next(iter(found)), list(found)[1:]) if last else None


class _Locations:
    """Where files lie whatever links lead there. The name itself is kept: it may be a link on purpose."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)

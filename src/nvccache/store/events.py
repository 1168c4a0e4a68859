"""Reads the event log: one event per call, oldest first.

    $NVCCACHE_DIR/journal/
      calls-v12.log          one line per call (event_line.py)
      calls-v12.old.log      the log before it, renamed when it reached 4 MiB

This module also groups calls into builds. It skips lines that are incomplete or malformed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator

from nvccache import outcomes
from nvccache.store import directory as directories
from nvccache.store.directory import Directory, StoreError
from nvccache.store.event_line import (
    CACHED,
    FOLDER,
    LOCAL,
    LOG,
    OLD_LOG,
    Event,
    StageEvent,
    parse_line,
    quote,
)

LOGS = (OLD_LOG, LOG)
_PAUSE_SECONDS = 300.0  # the pause between calls after which a new build begins
# Reasons for bypassing calls that query nvcc and compile nothing.
_QUERY_REASONS = ("information", "preprocess_only", "query_streams")
# Directories in which CMake tests the compiler while it configures a project.
_CONFIGURE_CHECKS = re.compile(r"/CMakeFiles/(?:CMakeScratch|CMakeTmp|[^/]+/CompilerId[A-Z]+)/")
_AHEAD_SECONDS = 3600.0  # how far another machine's clock may be ahead


def read(cache: str | Directory, since: float = 0.0) -> Iterator[Event]:
    """The events of calls that began at the Unix time `since` or later, in the order in which they ended.

    If there is no log, there are no events. Raises StoreError.
    """
    root = directories.at(cache)
    for name in LOGS:
        yield from (event for event in events_in(root, name) if event.started >= since)


def newest(cache: str | Directory, text: str = "") -> Iterator[Event]:
    """The events whose lines contain this text, latest first; raises StoreError."""
    root = directories.at(cache)
    wanted = quote(text).encode(errors="surrogateescape")
    for name in reversed(LOGS):
        content = _content(root, name)
        for line in reversed(content.split(b"\n") if wanted in content else []):
            event = parse_line(line) if wanted in line else None
            if event:
                yield event


def builds(calls: Iterable[Event]) -> list[list[Event]]:
    """The calls, grouped into builds; builds and their calls are ordered by start time.

    A new build begins after a pause, or with a call whose product the current build has already made.
    """
    groups: list[list[Event]] = []
    products: set[str] = set()
    over = 0.0  # the latest end of a call so far
    # Calls that ran while a clock was far ahead are left out. They would always belong to the latest build.
    past = (call for call in calls if call.started <= time.time() + _AHEAD_SECONDS)
    for call in sorted(past, key=lambda call: (call.started, call.ended)):
        if not groups or call.started > over + _PAUSE_SECONDS or call.product in products:
            groups.append([])
            products = set()
        groups[-1].append(call)
        products |= {call.product} - {""}
        over = max(over, call.ended)
    return groups


def last_build(calls: Iterable[Event]) -> list[Event]:
    """The calls of the latest build that has a compile.

    Calls by which CMake tests the compiler are left out, even if compiles follow in the same build.
    """
    found = builds(call for call in calls if not _is_configure_check(call))
    return next((build for build in reversed(found) if any(map(is_compile, build))), [])


def is_compile(call: Event) -> bool:
    """Whether a user would call this a compile: neither a query such as `--version` nor a test by CMake."""
    if call.outcome == outcomes.BYPASS:
        # `nvcc -v` without files only shows where nvcc's programs are.
        is_query = call.reason in _QUERY_REASONS or not (call.sources or call.product)
    else:
        is_query = call.outcome in outcomes.QUERIES
    return not is_query and not _is_configure_check(call)


def _is_configure_check(call: Event) -> bool:
    paths = (os.path.join(call.directory, path, "") for path in (".", *call.sources))
    return any(map(_CONFIGURE_CHECKS.search, paths))


def ran_elsewhere(stage: StageEvent) -> bool:
    """Whether a stage's result came from another machine."""
    return stage.where not in ("", LOCAL)


def was_cached(stage: StageEvent) -> bool:
    """Whether an executor already had a stage's result."""
    return ran_elsewhere(stage) and stage.away == CACHED


def why_here(stage: StageEvent) -> str:
    """One word that says why a stage that was sent to another machine ran here; empty for other stages."""
    return stage.away if stage.where == LOCAL else ""


def tool_spent(stage: StageEvent) -> float:
    """The seconds that a tool ran for a stage in this call, on any machine; 0 if the result was cached."""
    return 0.0 if stage.is_hit or was_cached(stage) else stage.cost


def overhead(call: Event) -> float:
    """The seconds that nvccache itself took; for a direct hit, the time of the whole call."""
    return call.seconds if call.outcome == outcomes.DIRECT_HIT else call.overhead


def events_in(root: Directory, name: str) -> Iterator[Event]:
    """The events of a log; none if the log does not exist. Raises StoreError."""
    return filter(None, map(parse_line, _content(root, name).split(b"\n")))


def where(root: Directory) -> str:
    return os.path.join(root.path, FOLDER)


def cause(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _content(root: Directory, name: str) -> bytes:
    try:
        return root.read(f"{FOLDER}/{name}")[0]
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreError(f"cannot read the counts in `{where(root)}`: {cause(error)}") from None

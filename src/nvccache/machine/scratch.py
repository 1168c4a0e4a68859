"""The scratch directory of a call: where it is, and that it goes, whatever happens to the call."""

from __future__ import annotations

import os
import re

from nvccache.machine import leftovers, process
from nvccache.machine.watchdog import Watchdog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from nvccache.machine.jobserver import Jobserver

    Result = TypeVar("Result")

# nvcc and its tools write file names into commands and C text; these they do not quote as they should.
_UNQUOTABLE = frozenset('\\"$`\n')


def choose(environ: Mapping[str, str]) -> str:
    """The absolute path of a scratch directory, which is not made yet: a signal must not leave it behind."""
    parent = os.path.abspath(environ.get("TMPDIR") or "/tmp")
    return os.path.join(parent, leftovers.new_name())


def can_be_named(path: str) -> bool:
    """Whether nvcc can have its intermediate files there."""
    return _UNQUOTABLE.isdisjoint(path)


def within(path: str, jobserver: Jobserver | None, work: Callable[[Watchdog | None], Result]) -> Result:
    """Do some work while there is such a directory. Raises OSError where it cannot be made."""
    watchdog = Watchdog.start(path, jobserver)
    if watchdog:
        process.spare(watchdog.pid)
    lock = -1
    try:
        lock = leftovers.make(path)
        return work(watchdog)
    finally:
        _put_away(path, watchdog)
        if lock >= 0:
            os.close(lock)


def temporary_below(path: str) -> str:
    """Where the tools put what they leave behind when they fail; it goes with the scratch directory."""
    return os.path.join(path, "tmp")


def hide(text: bytes, path: str, environ: Mapping[str, str]) -> bytes:
    """Diagnostics with intermediates under their base names: the directory's name means nothing.

    What the tools themselves have put away for a while is said to lie where `environ`, the user's, has it.
    """
    users = environ.get("TMPDIR") or "/tmp"
    text = text.replace(os.fsencode(temporary_below(path)) + b"/", os.fsencode(users) + b"/")
    return text.replace(os.fsencode(path) + b"/", b"")


def is_named(path: str, text: bytes) -> bool:
    """Whether diagnostics hold the base name of a product, by itself or at the end of another path."""
    name = os.fsencode(os.path.basename(path))
    if not name or name not in text:
        return False
    return re.search(rb"(?<![\w.+-])%s(?![\w+-]|\.\w)" % re.escape(name), text) is not None


def _put_away(path: str, watchdog: Watchdog | None) -> None:
    try:
        leftovers.remove(path)
    except process.Interrupted:  # which comes once
        leftovers.remove(path)
        raise
    finally:
        if watchdog:
            watchdog.dismiss()

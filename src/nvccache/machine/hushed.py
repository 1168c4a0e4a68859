"""Keeping what a library writes by itself from the caller's standard error."""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def standard_error(is_hushed: bool) -> Iterator[None]:
    """Have standard error lead nowhere in a block, unless it is a terminal, whose size tools ask for.

    The client of remotes, which is written in Rust, tells there of a thread that it cannot have, before it
    raises what can be caught.
    """
    try:
        kept = os.dup(2) if is_hushed and not os.isatty(2) else -1
    except OSError:  # it is closed
        kept = -1
    if kept < 0:
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

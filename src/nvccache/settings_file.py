"""Reads the user's settings file; only imported if it exists.

A file that is not TOML has no setting: which of its lines were meant is not guessed.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

_LARGEST = 1 << 20  # bytes


def read(path: str) -> str:
    """The text of a file; raises OSError and ValueError. A FIFO or a device must not block a compile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no regular file")
        text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise OSError(0, "it is too large")
    return text.decode("utf-8-sig")


def parse(text: str) -> dict[str, Any]:
    """Raises ValueError and RecursionError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)

"""Reads the user's settings file. Only imported if it exists or a setting is invalid.

A file that is not TOML has no setting: which of its lines were meant is not guessed.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection
from typing import Any

from nvccache.values import dataclass

_LARGEST = 1 << 20  # bytes
UNKNOWN, FILE = "unknown", "file"  # instead of a setting's name, for a misspelled one and for the file itself


@dataclass(slots=True)
class Problem:
    """An invalid setting."""

    setting: str  # its name, UNKNOWN or FILE
    where: str  # the variable, or the setting and the file
    text: str
    word: str = ""  # the misspelled name


def read(path: str, settings: Collection[str]) -> tuple[dict[str, object], list[Problem]]:
    """The settings in the file, and its problems."""
    try:
        values = parse(read_bytes(path).decode("utf-8-sig"))
    except OSError as error:
        return {}, [
            Problem(FILE, f"`{path}`", f"cannot be read: {error.strerror}; the defaults are in force")
        ]
    except (ValueError, RecursionError) as error:
        return {}, [Problem(FILE, f"`{path}`", f"is not TOML: {error}; the defaults are in force")]
    unknown = [name for name in values if name not in settings]
    problems = [Problem(UNKNOWN, f"`{path}`", f"there is no setting `{name}`", name) for name in unknown]
    return {name: value for name, value in values.items() if name in settings}, problems


def read_bytes(path: str) -> bytes:
    """The bytes of a file; raises OSError. A FIFO must not block a compile, nor a device fill its memory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no regular file")
        with open(descriptor, "rb", closefd=False) as stream:
            text = stream.read(_LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(text) > _LARGEST:
        raise OSError(0, "it is too large")
    return text


def parse(text: str) -> dict[str, Any]:
    """Raises ValueError and RecursionError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)

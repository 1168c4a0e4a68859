"""What exists at a path, file status, directory listings, and the user of this process.

Part of the hot path.
"""

from __future__ import annotations

import os
import stat

from nvccache.files import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# What can exist at a path. In an input record, one of these precedes each name that was looked up.
ABSENT, FOLDER, EXECUTABLE, PRESENT, UNREACHABLE = "-", "d", "x", "+", "!"
WHOLE_STATUS = "="  # the first character of a result of `status_of`
LIKE = "~"  # the first character of a value of `dates_of_copies`


def state_of(path: str) -> str:
    """What exists at a path; links are followed."""
    return state_and_link(path)[0]


def state_and_link(path: str) -> tuple[str, bool]:
    """What exists at a path, and whether the path itself is a link; links are followed."""
    is_link = False
    try:
        mode = os.lstat(path).st_mode
        is_link = stat.S_ISLNK(mode)
        if is_link:
            mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, is_link
    except (OSError, ValueError):
        return UNREACHABLE, is_link
    if stat.S_ISDIR(mode):
        return FOLDER, is_link
    return EXECUTABLE if stat.S_ISREG(mode) and os.access(path, os.X_OK) else PRESENT, is_link


def user_and_groups() -> str:
    """The user and groups of this process, which decide what it may read."""
    return ":".join(map(str, (os.geteuid(), os.getegid(), *sorted(os.getgroups()))))


def digest_of_listing(directory: str) -> str:
    """The digest of the names and types of a directory's entries; empty if it cannot be listed.

    Links are not followed, since their targets are not part of a listing.
    """
    try:
        with os.scandir(directory) as entries:
            found = sorted(entry.name + _kind_of(entry) for entry in entries)
        return keys.digest_bytes(os.fsencode("\0".join(found)))
    except (OSError, ValueError):
        return ""


def _kind_of(entry: os.DirEntry[str]) -> str:
    """The type of an entry. No system call is needed: the listing contains it."""
    if entry.is_symlink():
        return "/l"
    return "/f" if entry.is_file() else "/d" if entry.is_dir() else "/o"


def date_and_size(path: str) -> str:
    """A file's path, date in whole seconds, and size, as one text; empty if there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{path}:{status.st_mtime_ns // 10**9}:{status.st_size}"


def dates_of_copies(copies: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """For each path of a copy: LIKE, followed by the first path with the same digest and the same date.

    `copies` consists of (path, digest). With `#pragma once` and `#import`, gcc skips a file that is equal to
    one that it has read, if both have the same date, in seconds. The date itself does not matter.
    """
    first: dict[tuple[str, str], str] = {}
    dated = sorted((path, (digest, date_and_size(path)[len(path) :])) for path, digest in copies)
    return [(path, LIKE + first.setdefault(key, path)) for path, key in dated]


def status_of(path: str) -> str:
    """What a program can learn from a file's status; empty if there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    numbers = (status.st_dev, status.st_ino, status.st_mode, status.st_nlink, status.st_uid, status.st_gid)
    return WHOLE_STATUS + " ".join(map(str, (*numbers, status.st_size, status.st_mtime_ns)))

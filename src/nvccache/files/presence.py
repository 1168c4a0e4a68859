"""What is there under a name, what is in a directory, and who asks. Part of the hot path."""

from __future__ import annotations

import os
import stat

from nvccache.files import keys

# What can be found under a name; each stands before the name in a reading.
ABSENT, FOLDER, EXECUTABLE, PRESENT, UNREACHABLE = "-", "d", "x", "+", "!"


def state_of(path: str) -> str:
    """What is there under a name, links followed."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except (OSError, ValueError):
        return UNREACHABLE
    if stat.S_ISDIR(mode):
        return FOLDER
    return EXECUTABLE if stat.S_ISREG(mode) and os.access(path, os.X_OK) else PRESENT


def reader() -> str:
    """Who this process is, as far as it decides what may be read."""
    return ":".join(map(str, (os.geteuid(), os.getegid(), *sorted(os.getgroups()))))


def digest_of_listing(directory: str) -> str:
    """The digest of the names in a directory, each with what it is; empty if it cannot be listed.

    Links are not followed: where they lead is in no listing.
    """
    try:
        with os.scandir(directory) as entries:
            found = sorted(
                [
                    entry.name + ("/f" if entry.is_file(follow_symlinks=False) else _kind_of(entry))
                    for entry in entries
                ]
            )
        return keys.digest_bytes(os.fsencode("\0".join(found)))
    except (OSError, ValueError):
        return ""


def _kind_of(entry: os.DirEntry[str]) -> str:
    """What no regular file is; what the kernel says with the name, so that nothing is asked for it."""
    if entry.is_dir(follow_symlinks=False):
        return "/d"
    return "/l" if entry.is_symlink() else "/o"

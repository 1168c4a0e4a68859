"""CACHEDIR.TAG marks a directory as ours, and backup programs skip directories that have it.

A directory that is not empty and lacks our tag is foreign: nothing in it is read, written or removed.
Part of the hot path. All functions raise OSError.
"""

from __future__ import annotations

import os
import stat

from nvccache.files import untrusted

NAME = "CACHEDIR.TAG"
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
_TEMPORARY_PREFIX = ".nvccache-tag-"  # of a tag that is being written; random characters follow
_FILE_SYSTEM_FOLDER = "lost+found"
_SCRATCH_PREFIX = "nvccache-"  # of a user's scratch directories, which may be here; then the uid


class ForeignDirectoryError(OSError):
    """The directory is not empty and lacks our tag."""


def is_in(folder: str) -> bool:
    """Whether a directory has our tag; raises only PermissionError, if the tag cannot be read."""
    try:
        descriptor = os.open(f"{folder}/{NAME}", os.O_RDONLY | untrusted.FILE)
    except PermissionError:
        raise
    except OSError:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_file and os.read(descriptor, len(SIGNATURE)) == SIGNATURE
    finally:
        os.close(descriptor)


def is_free(folder: str) -> bool:
    """Whether a directory holds no files but ours.

    Empty subdirectories are allowed: a call that is about to write can leave some when the cache is removed.
    So are our own scratch directories and other cache directories.
    """
    with os.scandir(folder) as entries:
        return all(map(_is_free_entry, entries))


def _is_free_entry(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(_TEMPORARY_PREFIX) or entry.name == _FILE_SYSTEM_FOLDER:
        return True
    if entry.name.startswith(_SCRATCH_PREFIX) and entry.name.removeprefix(_SCRATCH_PREFIX).isdecimal():
        return True
    return entry.is_dir(follow_symlinks=False) and (is_in(entry.path) or is_free(entry.path))


def add(folder: str, mode: int) -> None:
    """Write the tag into a directory; other calls may do so at the same time."""
    fresh = f"{folder}/{_TEMPORARY_PREFIX}{os.urandom(8).hex()}"
    untrusted.write_new(fresh, SIGNATURE, mode)
    os.rename(fresh, f"{folder}/{NAME}")

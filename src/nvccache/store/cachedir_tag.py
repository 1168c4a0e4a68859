"""CACHEDIR.TAG marks a directory as ours, and backup programs skip directories that have it.

A directory that is not empty and lacks our tag is foreign: nothing in it is read, written or removed.
Part of the hot path.
"""

from __future__ import annotations

import os
import stat

from nvccache.files import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "CACHEDIR.TAG"
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
_TEMPORARY_PREFIX = ".nvccache-tag-"  # of a tag that is being written; random characters follow
_FILE_SYSTEM_FOLDERS = ("lost+found",)  # allowed in an empty directory
_SCRATCH_PREFIX = "nvccache-"  # of a user's scratch directories, which may be here; then the uid
_MAX_DEPTH = 4  # of empty directories nested in an empty directory


class ForeignDirectoryError(OSError):
    """The directory is not empty and lacks our tag."""


def is_in(folder: int) -> bool:
    """Whether an open directory has our tag; raises PermissionError if the tag cannot be read."""
    try:
        descriptor = os.open(NAME, os.O_RDONLY | untrusted.FILE, dir_fd=folder)
    except PermissionError:
        raise
    except OSError:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_file and os.read(descriptor, len(SIGNATURE)) == SIGNATURE
    finally:
        os.close(descriptor)


def is_free(folder: int) -> bool:
    """Whether an open directory holds no files but ours; raises OSError.

    Empty subdirectories are allowed: a call that is about to write can leave some when the cache is removed.
    So are our own scratch directories and other cache directories.
    """
    return not any(_holds_file(name, folder, _MAX_DEPTH) for name in _names_in(folder))


def _holds_file(name: str, folder: int, depth: int) -> bool:
    if name.startswith(_TEMPORARY_PREFIX) or name in _FILE_SYSTEM_FOLDERS:
        return False
    if name.startswith(_SCRATCH_PREFIX) and name.removeprefix(_SCRATCH_PREFIX).isdecimal():
        return False
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) or not depth:
        return True
    child = os.open(name, untrusted.FOLDER, dir_fd=folder)
    try:
        return not is_in(child) and any(_holds_file(inner, child, depth - 1) for inner in _names_in(child))
    finally:
        os.close(child)


def _names_in(folder: int) -> Iterator[str]:
    descriptor = os.open(".", untrusted.LISTED, dir_fd=folder)
    try:
        return iter(os.listdir(descriptor))
    finally:
        os.close(descriptor)


def add(folder: int, mode: int, is_exact: bool) -> None:
    """Write the tag into a directory; other calls may do so at the same time. Raises OSError."""
    fresh = _TEMPORARY_PREFIX + os.urandom(8).hex()
    untrusted.write_new(fresh, SIGNATURE, folder, mode, is_exact)
    try:
        os.rename(fresh, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        untrusted.remove(fresh, folder)
        raise

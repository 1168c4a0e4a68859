"""CACHEDIR.TAG: what makes a directory ours, and tells backup programs to leave it out.

A directory that holds something and has no tag of ours is somebody else's: nothing in it is read, written or
removed. Part of the hot path.
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
_ON_ITS_WAY = ".nvccache-tag-"  # followed by something random, until it is renamed
_OF_FILE_SYSTEMS = ("lost+found",)  # what an empty directory may hold
_SCRATCH = "nvccache-"  # what calls make where TMPDIR is the directory, up to 16 hexadecimal digits
_DEEPEST = 4  # how far down an empty directory may be made of empty ones


class ForeignDirectoryError(OSError):
    """The directory holds something and is no cache of ours."""


def is_in(folder: int) -> bool:
    """Whether an open directory has our tag; raises PermissionError where that cannot be told."""
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
    """Whether no file of anybody's is in an open directory; raises OSError.

    Empty directories are nothing: they stay when a cache is removed while a call is about to write to it.
    Directories of our own, tagged or scratch, may lie in one that becomes ours only now.
    """
    return not any(_holds_file(name, folder, _DEEPEST) for name in _names_in(folder))


def _holds_file(name: str, folder: int, depth: int) -> bool:
    if name.startswith(_ON_ITS_WAY) or name in _OF_FILE_SYSTEMS:
        return False
    if name.startswith(_SCRATCH) and len(name) == len(_SCRATCH) + 16:
        return False
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) or not depth:
        return True
    below = os.open(name, untrusted.FOLDER, dir_fd=folder)
    try:
        return not is_in(below) and any(_holds_file(inner, below, depth - 1) for inner in _names_in(below))
    finally:
        os.close(below)


def _names_in(folder: int) -> Iterator[str]:
    descriptor = os.open(".", untrusted.LISTED, dir_fd=folder)
    try:
        return iter(os.listdir(descriptor))
    finally:
        os.close(descriptor)


def add(folder: int, mode: int, is_exact: bool) -> None:
    """Make a directory ours; another call may do so at the same time. Raises OSError."""
    fresh = _ON_ITS_WAY + os.urandom(8).hex()
    untrusted.write_new(fresh, SIGNATURE, folder, mode, is_exact)
    try:
        os.rename(fresh, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        untrusted.remove(fresh, folder)
        raise

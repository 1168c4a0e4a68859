"""CACHEDIR.TAG: what makes a directory ours, and tells backup programs to leave it out.

A directory that holds something and has no tag of ours is somebody else's: nothing in it is read, written or
removed. Part of the hot path.
"""

from __future__ import annotations

import os
import stat

from nvccache import untrusted

NAME = "CACHEDIR.TAG"
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
_ON_ITS_WAY = ".nvccache-tag-"  # followed by something random, until it is renamed
_OF_FILE_SYSTEMS = ("lost+found",)  # what an empty directory may hold


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
        return is_file and os.read(descriptor, len(_SIGNATURE)) == _SIGNATURE
    finally:
        os.close(descriptor)


def is_free(folder: int) -> bool:
    """Whether nothing is in an open directory; raises OSError."""
    descriptor = os.open(".", untrusted.LISTED, dir_fd=folder)
    try:
        names = os.listdir(descriptor)
    finally:
        os.close(descriptor)
    return all(name.startswith(_ON_ITS_WAY) or name in _OF_FILE_SYSTEMS for name in names)


def add(folder: int, mode: int, is_exact: bool) -> None:
    """Make a directory ours; another call may do so at the same time. Raises OSError."""
    fresh = _ON_ITS_WAY + os.urandom(8).hex()
    untrusted.write_new(fresh, _SIGNATURE, folder, mode, is_exact)
    try:
        os.rename(fresh, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        untrusted.remove(fresh, folder)
        raise

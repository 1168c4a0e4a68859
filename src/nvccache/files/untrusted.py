"""Reads and writes files in directories to which others can write, and files whose paths come from records.

Part of the hot path. All functions raise OSError unless their docstrings say otherwise.
"""

from __future__ import annotations

import errno
import os
import stat

# Opening a FIFO must not block, and a terminal must not become this process's controlling terminal.
FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
MAX_BYTES = 1 << 34  # the maximum size of an input; some calls link archives of gigabytes


def open_named(path: str, max_bytes: int = MAX_BYTES) -> int:
    """A descriptor to read a regular file of at most `max_bytes`; links are followed."""
    status = os.stat(path)  # first, since opening has side effects on some devices
    if can_be_read(status, max_bytes):
        descriptor = os.open(path, FILE & ~os.O_NOFOLLOW)
        if can_be_read(os.fstat(descriptor), max_bytes):
            return descriptor
        os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file, or too large", path)


def read_named(path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file of at most `max_bytes`; links are followed."""
    descriptor = open_named(path, max_bytes)
    try:
        return read_whole(descriptor)
    finally:
        os.close(descriptor)


def can_be_read(status: os.stat_result, max_bytes: int = MAX_BYTES) -> bool:
    """Whether a file with this status can be read to its end without blocking.

    Reading a FIFO waits for a writer, a device may have no end, and files in /proc may have either problem.
    """
    if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
        return False
    from nvccache.files import signatures

    return not signatures.is_pseudo_file_system(status.st_dev)


def read_all(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, or as many as it has."""
    content = os.read(descriptor, size)
    while len(content) < size and (part := os.read(descriptor, size - len(content))):
        content += part
    return content


def read_whole(descriptor: int) -> bytes:
    """The content of an open file; raises OSError if it is longer than its status says."""
    content = read_all(descriptor, os.fstat(descriptor).st_size)
    check_at_end(descriptor)
    return content


def check_at_end(descriptor: int) -> None:
    """Raise OSError if a file that was read up to its size has more content: it grows, or reports no size."""
    if os.read(descriptor, 1):
        raise OSError(errno.EINVAL, "the file is larger than its reported size")


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_atomically(path: str, prefix: str, content: bytes, mode: int) -> None:
    """Write a file under a temporary name, which begins with `prefix`, and rename it.

    If `mode` lets others write, the file gets exactly this mode; otherwise, the umask applies.
    """
    temporary = prefix + os.urandom(16).hex()
    try:  # a signal may raise an exception when the file exists, but `open` has not returned yet
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE, mode)
        try:
            if mode & WRITABLE_BY_OTHERS:
                os.fchmod(descriptor, mode)
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        remove(temporary)
        raise


def make_folder(path: str, mode: int) -> None:
    """Create a folder if it is missing. `mode` is as above; an inherited setgid bit stays set."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return
    if mode & WRITABLE_BY_OTHERS:
        os.chmod(path, mode | os.stat(path).st_mode & stat.S_ISGID)


def remove(path: str) -> None:
    """Remove a file if possible; raises nothing."""
    try:  # noqa: SIM105
        os.unlink(path)
    except OSError:
        pass

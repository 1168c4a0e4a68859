"""How what lies in a directory that is not trusted is opened, and what is done with it once it is open.

Part of the hot path. All functions raise OSError unless they say that they do not.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # to open something in it, not to list it
# A FIFO must not wait for its other end, and a terminal must not become ours.
FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOST = 1 << 34  # bytes of what a compile may read; archives of several gigabytes are linked


class Permissions:
    """Who is trusted below a directory, and what those who share it may do with what is made there."""

    __slots__ = ("_is_shared", "_owners", "umask")

    def __init__(self, umask: int | None) -> None:
        self.umask = umask  # None: that of the process counts
        self._is_shared = False
        self._owners: tuple[int, ...] = ()

    def learn_from(self, status: os.stat_result) -> None:
        """Take over what the directory itself says, as far as no umask has been set."""
        self._is_shared = bool(status.st_mode & _OF_OTHERS)
        self._owners = (os.geteuid(), 0, status.st_uid)
        if self.umask is None and self._is_shared:
            self.umask = ~status.st_mode & 0o077

    def trusts(self, status: os.stat_result) -> bool:
        """Whether the owner of what has this status is trusted."""
        return self._is_shared or status.st_uid in self._owners

    def of_file(self, mode: int) -> tuple[int, bool]:
        """The mode of a new file, and whether the process's umask is not to count as well."""
        return (mode, False) if self.umask is None else (mode & ~self.umask, True)

    def of_lock(self) -> tuple[int, bool]:
        """The same for a file that those who may not write it may not read either."""
        umask = 0o077 if self.umask is None else self.umask
        mode = 0o600
        for writes, both in ((0o020, 0o060), (0o002, 0o006)):
            mode |= 0 if umask & writes else both
        return mode, True

    def give_to_folder(self, name: str, above: int) -> None:
        """Give a new folder its permissions; raises OSError."""
        if self.umask is None:
            return
        descriptor = os.open(name, LISTED, dir_fd=above)
        try:
            status = os.fstat(descriptor)
            mode = 0o777 & ~self.umask
            try:
                os.fchmod(descriptor, mode | status.st_mode & stat.S_ISGID)
            except PermissionError:
                # Nix's sandbox forbids the bit. It says nothing where all who build there are of this group.
                if status.st_gid != os.getegid():
                    raise
                os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def enter(name: str, above: int, permissions: Permissions | None = None) -> int:
    """A descriptor of a folder, which is made with `permissions` if it is not there."""
    try:
        return os.open(name, FOLDER, dir_fd=above)
    except FileNotFoundError:
        if permissions is None:
            raise
    try:
        os.mkdir(name, 0o777, dir_fd=above)
    except FileExistsError:
        pass
    else:
        permissions.give_to_folder(name, above)
    return os.open(name, FOLDER, dir_fd=above)


def open_named(path: str, most: int = 0) -> int:
    """A descriptor to read the regular file that a record may have named, links followed.

    `most` bytes are all that it may have, if given.
    """
    status = os.stat(path)  # first: there are devices that do something when they are opened
    if can_be_read(status, most or _MOST):
        descriptor = os.open(path, FILE & ~os.O_NOFOLLOW)
        if can_be_read(os.fstat(descriptor), most or _MOST):
            return descriptor
        os.close(descriptor)
    raise OSError(errno.EINVAL, "no regular file of a sane size", path)


def read_named(path: str, most: int) -> bytes:
    """The content of such a file; what is added meanwhile is not read."""
    descriptor = open_named(path, most)
    try:
        return read_all(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def can_be_read(status: os.stat_result, most: int = _MOST) -> bool:
    """Whether what has this status is a file that ends, and soon.

    A FIFO would wait for a writer; a device never ends, nor do some files of /proc, of which others wait.
    """
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        return False
    from nvccache.files import signatures

    return not signatures.makes_when_read(status.st_dev)


def read_all(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, or as many as there are; what is added meanwhile is not read."""
    content = os.read(descriptor, size)
    if len(content) == size:
        return content
    parts = [content]
    rest = size - len(content)
    while rest and (part := os.read(descriptor, rest)):
        parts.append(part)
        rest -= len(part)
    return b"".join(parts)


def chunks_of(descriptor: int, length: int) -> Iterator[bytes]:
    """What an open file holds, piecemeal; raises OSError for one that has more than its size says."""
    rest = os.fstat(descriptor).st_size
    while rest > 0 and (chunk := os.read(descriptor, min(rest, length))):
        yield chunk
        rest -= len(chunk)
    object_to_more(descriptor)


def object_to_more(descriptor: int) -> None:
    """Raise OSError where a file is read as far as its size says, and goes on: it grows, or has no size."""
    if os.read(descriptor, 1):
        raise OSError(errno.EINVAL, "more than its size says")


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_new(name: str, content: bytes, folder: int | None, mode: int, is_exact: bool) -> None:
    """Write a file that is not there yet, in a folder that is open; what cannot be finished is removed.

    `is_exact` gives it this very mode, otherwise the process's umask counts.
    """
    descriptor = os.open(name, NEW, mode, dir_fd=folder)
    try:
        try:
            if is_exact:
                os.fchmod(descriptor, mode)
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
    except BaseException:
        remove(name, folder)
        raise


def touch(descriptor: int, status: os.stat_result) -> None:
    """Mark a file as used just now, since eviction goes by modification time; raises nothing.

    Not one that has another name somewhere, which would be touched as well.
    """
    if status.st_nlink == 1:
        try:  # noqa: SIM105
            os.utime(descriptor)
        except OSError:
            pass  # it belongs to another user


def remove(name: str, folder: int | None) -> None:
    """Remove a file if that can be done; raises nothing."""
    try:  # noqa: SIM105
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass

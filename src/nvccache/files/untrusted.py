"""Opens, reads and writes files in directories that are not trusted.

Part of the hot path. All functions raise OSError unless their docstrings say otherwise.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # to open entries, not to list them
# Opening a FIFO must not block, and a terminal must not become the controlling one.
FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MAX_BYTES = 1 << 34  # bytes of what a compile may read; archives of several gigabytes are linked


class Permissions:
    """The permissions of new files in a directory."""

    __slots__ = ("_is_shared", "_umask")

    def __init__(self) -> None:
        self._umask = 0o077
        self._is_shared = False

    def adopt(self, status: os.stat_result) -> None:
        """Adopt the permissions of the directory."""
        self._is_shared = bool(status.st_mode & WRITABLE_BY_OTHERS)
        self._umask = ~status.st_mode & 0o077

    def of_file(self, mode: int) -> tuple[int, bool]:
        """The mode of a new file, and whether it is exact, without applying the process's umask."""
        return mode & ~self._umask, self._is_shared

    def of_lock(self) -> tuple[int, bool]:
        """The same for a file that only users who can write it can read."""
        mode = 0o600
        for writes, both in ((0o020, 0o060), (0o002, 0o006)):
            mode |= 0 if self._umask & writes else both
        return mode, True

    def apply_to_folder(self, name: str, parent: int) -> None:
        """Set the permissions of a new folder."""
        if not self._is_shared:
            return
        descriptor = os.open(name, LISTED, dir_fd=parent)
        try:
            status = os.fstat(descriptor)
            mode = self.of_file(0o777)[0]
            try:
                os.fchmod(descriptor, mode | status.st_mode & stat.S_ISGID)
            except PermissionError:
                # Nix's sandbox forbids the setgid bit, which is not needed if the group is the process's.
                if status.st_gid != os.getegid():
                    raise
                os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def others_may_write(status: os.stat_result) -> bool:
    """Whether users other than the owner may write; the group of this user alone does not count."""
    writers = status.st_mode & WRITABLE_BY_OTHERS
    return bool(writers) and not (writers == stat.S_IWGRP and _is_own_group(status))


def _is_own_group(status: os.stat_result) -> bool:
    """Whether a file of this user has the user's own group: of the same name, without another member."""
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        return False
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return (group.gr_name, group.gr_gid) == (user.pw_name, user.pw_gid) and {*group.gr_mem} <= {user.pw_name}


def open_folder(name: str, parent: int, permissions: Permissions | None = None) -> int:
    """A descriptor of a folder; with `permissions`, a missing one is created."""
    try:
        return os.open(name, FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if permissions is None:
            raise
    try:
        os.mkdir(name, permissions.of_file(0o777)[0], dir_fd=parent)
    except FileExistsError:
        pass
    else:
        permissions.apply_to_folder(name, parent)
    return os.open(name, FOLDER, dir_fd=parent)


def open_named(path: str, max_bytes: int = 0) -> int:
    """A descriptor to read a regular file, whose path may come from a record; links are followed.

    Raises OSError if it has more than `max_bytes`, or _MAX_BYTES if that is 0.
    """
    status = os.stat(path)  # before opening, which has side effects on some devices
    if can_be_read(status, max_bytes or _MAX_BYTES):
        descriptor = os.open(path, FILE & ~os.O_NOFOLLOW)
        if can_be_read(os.fstat(descriptor), max_bytes or _MAX_BYTES):
            return descriptor
        os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file of a sane size", path)


def read_named(path: str, max_bytes: int) -> bytes:
    """The content of such a file, without anything appended while it is read."""
    descriptor = open_named(path, max_bytes)
    try:
        return read_all(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def can_be_read(status: os.stat_result, max_bytes: int = _MAX_BYTES) -> bool:
    """Whether a file with this status can be read to its end without blocking.

    A FIFO waits for a writer, a device may have no end, and files of /proc may do either.
    """
    if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
        return False
    from nvccache.files import signatures

    return not signatures.is_pseudo_file_system(status.st_dev)


def read_all(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, or as many as it has."""
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
    """The content of an open file in chunks; raises OSError if it goes on after its size."""
    rest = os.fstat(descriptor).st_size
    while rest > 0 and (chunk := os.read(descriptor, min(rest, length))):
        yield chunk
        rest -= len(chunk)
    check_at_end(descriptor)


def check_at_end(descriptor: int) -> None:
    """Raise OSError if a file that was read up to its size goes on: it is growing, or reports no size."""
    if os.read(descriptor, 1):
        raise OSError(errno.EINVAL, "larger than its reported size")


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_new(name: str, content: bytes, folder: int | None, mode: int, is_exact: bool) -> None:
    """Write a new file in an open folder; it is removed if that fails.

    With `is_exact` it gets exactly this mode, otherwise the process's umask applies.
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
    """Mark a file as used by its modification time, which eviction goes by; raises nothing.

    Skips files with another hard link, since that would be touched as well.
    """
    if status.st_nlink == 1:
        try:  # noqa: SIM105
            os.utime(descriptor)
        except OSError:
            pass  # it belongs to another user


def remove(name: str, folder: int | None) -> None:
    """Remove a file if possible; raises nothing."""
    try:  # noqa: SIM105
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass

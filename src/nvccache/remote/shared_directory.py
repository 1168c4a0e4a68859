"""A directory as a remote: of a file server that several machines have mounted.

Whoever else may write there may leave links, FIFOs, devices or files of any size, and half of what they were
writing when they died: so nothing is opened that could be waited for, no link is followed below the
directory, and a file appears whole, by its name, or not at all. It is not synced: what a server loses when it
crashes is missing or broken, and both are found out when it is read.

What is made has the permissions of the directory, for those who share it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from nvccache.files import untrusted
from nvccache.remote.service_error import ServiceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_IN_THE_WAY = (errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)
_TEMPORARY = ".new-"
_STALE = 3600.0  # seconds after which nobody is still writing a file


class SharedDirectory:
    """Raises ServiceError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get(self, name: str, most: int) -> bytes | None:
        folder, _, last = name.rpartition("/")
        try:
            within = self._enter(folder)
            try:
                descriptor = os.open(last, os.O_RDONLY | untrusted.FILE, dir_fd=within)
            finally:
                os.close(within)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                    return None
                return untrusted.read_all(descriptor, status.st_size)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise _fault(error) from None

    def has(self, name: str, size: int | None = None) -> bool:
        folder, _, last = name.rpartition("/")
        try:
            within = self._enter(folder)
            try:
                found = os.stat(last, dir_fd=within, follow_symlinks=False)
                return stat.S_ISREG(found.st_mode) and size in (None, found.st_size)
            finally:
                os.close(within)
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise _fault(error) from None

    def put(self, name: str, content: bytes) -> None:
        folder, _, last = name.rpartition("/")
        temporary = _TEMPORARY + os.urandom(16).hex()
        try:
            permissions = self._permissions(make=True)
            within = self._enter(folder, permissions)
            try:
                untrusted.write_new(temporary, content, within, *permissions.of_file(0o666))
                try:
                    os.rename(temporary, last, src_dir_fd=within, dst_dir_fd=within)
                except BaseException:
                    untrusted.remove(temporary, within)
                    raise
            finally:
                os.close(within)
        except OSError as error:
            raise _fault(error) from None

    def delete(self, name: str) -> None:
        folder, _, last = name.rpartition("/")
        try:
            within = self._enter(folder)
            try:
                os.unlink(last, dir_fd=within)
            finally:
                os.close(within)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _fault(error) from None

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        """The files whose names begin with `prefix`, but for those that are being written."""
        for inside, last, _, status in self._files():
            name = inside + last
            if name.startswith(prefix) and not last.startswith(_TEMPORARY) and stat.S_ISREG(status.st_mode):
                yield name, status.st_size, status.st_mtime

    def sweep(self) -> None:
        """Remove what was left half written long ago."""
        for _, last, folder, status in self._files():
            if last.startswith(_TEMPORARY) and status.st_mtime < time.time() - _STALE:
                untrusted.remove(last, folder)

    def _files(self) -> Iterator[tuple[str, str, int, os.stat_result]]:
        """Folder, name, the folder's descriptor, and status of all that is no folder."""
        try:
            top = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _ABSENT:
                return
            raise _fault(error) from None
        try:
            for where, _, names, folder in os.fwalk(".", dir_fd=top):
                inside = "" if where == "." else where.removeprefix("./") + "/"
                for last in names:
                    try:
                        status = os.stat(last, dir_fd=folder, follow_symlinks=False)
                    except OSError:
                        continue  # it has just been removed
                    yield inside, last, folder, status
        except OSError as error:
            raise _fault(error) from None
        finally:
            os.close(top)

    def _permissions(self, make: bool) -> untrusted.Permissions:
        if make and not os.path.isdir(self._path):
            # But not what it lies in: that may be a misspelt mount, or one that is not there yet.
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._path)
        permissions = untrusted.Permissions(None)
        permissions.learn_from(os.stat(self._path))
        return permissions

    def _enter(self, folder: str, permissions: untrusted.Permissions | None = None) -> int:
        """A descriptor of a folder; with `permissions` it is made if it is not there."""
        descriptor = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in folder.split("/") if folder else []:
            try:
                inner = _enter_one(name, descriptor, permissions)
            finally:
                os.close(descriptor)
            descriptor = inner
        return descriptor


def _enter_one(name: str, above: int, permissions: untrusted.Permissions | None) -> int:
    try:
        return os.open(name, untrusted.FOLDER, dir_fd=above)
    except FileNotFoundError:
        if permissions is None:
            raise
    try:
        os.mkdir(name, 0o777, dir_fd=above)
    except FileExistsError:
        pass
    else:
        permissions.give_to_folder(name, above)
    return os.open(name, untrusted.FOLDER, dir_fd=above)


def _fault(error: OSError) -> ServiceError:
    said = error.strerror or ""
    if error.errno in _DENIED:
        return ServiceError("denied", said)
    if error.errno in _FULL:
        return ServiceError("full", said)
    if error.errno in _IN_THE_WAY:
        return ServiceError("broken", said)  # of this name, and not of the directory
    return ServiceError("unreachable", said)

"""A directory as a remote: of a file server that several machines have mounted.

Others who may write there may leave links, FIFOs, devices or files of any size, and half of what they were
writing when they died: so nothing is opened that could be waited for, no link is followed below the
directory, and a file appears whole, by its name, or not at all. It is not synced: what a server loses when it
crashes is missing or broken, and both are found when it is read.

What is made has the permissions of the directory, for those who share it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator

from nvccache.files import untrusted
from nvccache.remote.service import Service, ServiceError

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
_WORDS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "denied"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "full"),
    # Of this name, and not of the directory.
    **dict.fromkeys((errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY), "broken"),
}
_TEMPORARY = ".new-"
_STALE = 3600.0  # seconds after which nobody is still writing a file


class SharedDirectory(Service):
    def __init__(self, path: str) -> None:
        self._path = path

    def get(self, name: str, most: int) -> bytes | None:
        try:
            with self._folder_of(name) as (folder, last):
                descriptor = os.open(last, os.O_RDONLY | untrusted.FILE, dir_fd=folder)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                    return None
                return untrusted.read_all(descriptor, status.st_size)
            finally:
                os.close(descriptor)
        except OSError as error:
            _absent(error)
            return None

    def has(self, name: str, size: int | None = None) -> bool:
        try:
            with self._folder_of(name) as (folder, last):
                found = os.stat(last, dir_fd=folder, follow_symlinks=False)
                return stat.S_ISREG(found.st_mode) and size in (None, found.st_size)
        except OSError as error:
            _absent(error)
            return False

    def put(self, name: str, content: bytes) -> None:
        temporary = _TEMPORARY + os.urandom(16).hex()
        try:
            permissions = self._permissions()
            with self._folder_of(name, permissions) as (folder, last):
                untrusted.write_new(temporary, content, folder, *permissions.of_file(0o666))
                try:
                    os.rename(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    untrusted.remove(temporary, folder)
                    raise
        except OSError as error:
            raise _fault(error) from None

    def delete(self, name: str) -> None:
        try:
            with self._folder_of(name) as (folder, last):
                os.unlink(last, dir_fd=folder)
        except OSError as error:
            _absent(error)

    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        for inside, last, _, status in self._files():
            name = inside + last
            if name.startswith(prefix) and not last.startswith(_TEMPORARY) and stat.S_ISREG(status.st_mode):
                yield name, status.st_size, status.st_mtime

    def sweep(self) -> None:
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

    def _permissions(self) -> untrusted.Permissions:
        """What is made is given them; the directory itself is made if it is not there."""
        if not os.path.isdir(self._path):
            # But not what it lies in: that may be a misspelt mount, or one that is not there yet.
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._path)
        permissions = untrusted.Permissions(None)
        permissions.adopt(os.stat(self._path))
        return permissions

    @contextlib.contextmanager
    def _folder_of(
        self, name: str, permissions: untrusted.Permissions | None = None
    ) -> Iterator[tuple[int, str]]:
        """A descriptor of a name's folder, made with `permissions` if it is not there; the last part."""
        *folders, last = name.split("/")
        descriptor = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                inner = untrusted.open_folder(folder, descriptor, permissions)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, last
        finally:
            os.close(descriptor)


def _absent(error: OSError) -> None:
    """Raises ServiceError, unless there is only no such name."""
    if error.errno not in _ABSENT:
        raise _fault(error) from None


def _fault(error: OSError) -> ServiceError:
    return ServiceError(_WORDS.get(error.errno or 0, "unreachable"), error.strerror or "")

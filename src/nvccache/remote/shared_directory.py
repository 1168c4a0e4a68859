"""A directory as a remote, on a file server that several machines mount.

Other writers can leave symbolic links, FIFOs, devices, files of any size, and partial files if they die. So
no file is opened in a manner that can block, links below the directory are not followed, and files are
renamed into place whole. They are not synced: what a crashed server loses is missing or damaged, which
reading detects.

New files and folders get the permissions of the directory, so that others can share them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from nvccache.files import untrusted
from nvccache.remote.service import UNUSABLE, Service, ServiceError

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
_WORDS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "denied"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "full"),
    # Faults of one name, not of the directory.
    **dict.fromkeys((errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY), "broken"),
}
NO_DIRECTORY = "there is no such directory"
_OF_DIRECTORY = {errno.ENOENT: NO_DIRECTORY, errno.ENOTDIR: "it is not a directory"}
_TEMPORARY = ".new-"


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
            if error.errno in _ABSENT:
                return None
            raise _fault(error) from None

    def put(self, name: str, content: bytes) -> None:
        temporary = _TEMPORARY + os.urandom(16).hex()
        try:
            permissions = untrusted.Permissions()
            with self._folder_of(name, permissions) as (folder, last):
                untrusted.write_new(temporary, content, folder, *permissions.of_file(0o666))
                try:
                    os.rename(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    untrusted.remove(temporary, folder)
                    raise
        except OSError as error:
            raise _fault(error) from None

    def _open(self, flags: int) -> int:
        """A descriptor of the directory; raises ServiceError.

        A missing one is not made: it may be misspelt, or its file system not mounted yet.
        """
        try:
            return os.open(self._path, flags | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            text = _OF_DIRECTORY.get(error.errno or 0)
            raise (ServiceError(UNUSABLE, text=text) if text else _fault(error)) from None

    @contextlib.contextmanager
    def _folder_of(
        self, name: str, permissions: untrusted.Permissions | None = None
    ) -> Iterator[tuple[int, str]]:
        """A descriptor of a name's folder, and the last path component.

        If `permissions` are given, they adopt those of the directory, and missing folders are made.
        """
        *folders, last = name.split("/")
        descriptor = self._open(os.O_PATH)
        try:
            if permissions:
                permissions.adopt(os.fstat(descriptor))
            for folder in folders:
                inner = untrusted.open_folder(folder, descriptor, permissions)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, last
        finally:
            os.close(descriptor)


def _fault(error: OSError) -> ServiceError:
    return ServiceError(_WORDS.get(error.errno or 0, UNUSABLE), error.strerror or "")

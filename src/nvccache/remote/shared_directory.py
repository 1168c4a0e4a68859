"""A remote that is a directory, such as one on a file server that several machines mount.

Other writers can leave symbolic links, FIFOs, devices and files of any size; if they die, also partial files.
Therefore, opening a file never blocks, nothing is written through a link, and a file is renamed into place
when it is complete. Files are not synced, because a reader detects what the server lost in a crash.

New files and folders get the permissions of the directory, so that others can share them.
"""

from __future__ import annotations

import errno
import os

from nvccache.files import untrusted
from nvccache.remote.backend import UNUSABLE, Backend, BackendError

# Errors that mean that an object is absent. EINVAL: not a regular file, or too large.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.ENODEV)
_WORDS: dict[int | None, str] = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "denied"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "full"),
    # Errors that affect one name, not the whole directory.
    **dict.fromkeys((errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY), "broken"),
}


class SharedDirectory(Backend):
    def __init__(self, path: str) -> None:
        self._path = path

    def get(self, name: str, most: int) -> bytes | None:
        try:
            return untrusted.read_named(f"{self._path}/{name}", most)
        except OSError as error:
            if error.errno in _ABSENT:
                self._mode()
                return None
            raise _fault(error) from None

    def put(self, name: str, content: bytes) -> None:
        mode = self._mode()
        *folders, last = name.split("/")
        folder = self._path
        try:
            for each in folders:
                folder = f"{folder}/{each}"
                untrusted.make_folder(folder, 0o777 & mode)
                if os.path.islink(folder):
                    raise OSError(errno.ELOOP, "a folder in the path is a symbolic link")
            untrusted.write_atomically(f"{folder}/{last}", f"{folder}/.new-", content, 0o666 & mode)
        except OSError as error:
            raise _fault(error) from None

    def _mode(self) -> int:
        """The permissions of the directory; raises BackendError.

        A missing directory is not created: its path may be misspelt, or its file system not mounted yet.
        """
        try:
            return os.stat(f"{self._path}/").st_mode
        except OSError as error:
            raise _fault(error) from None


def _fault(error: OSError) -> BackendError:
    return BackendError(_WORDS.get(error.errno, UNUSABLE), error.strerror or "")

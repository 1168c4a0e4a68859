"""The scratch directory of a call, and the removal of stale scratch directories.

If a call is killed by SIGKILL, its tools run to their end, like nvcc's, and a call on a later day removes its
directory. A call locks its directory, which the kernel unlocks when the process dies.

    $TMPDIR/nvccache-<uid>/ one per user; removed with the last directory in it
    $TMPDIR/nvccache-<uid>/<random>/ one per call

Other users must not be able to replace these directories, since the tools load a library from there.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Mapping

from nvccache.files import flock, untrusted
from nvccache.machine import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Result = TypeVar("Result")

_NAME = r"[0-9a-f]{16}"
_STALE_SECONDS = 24 * 3600.0  # a directory is stale if it got no new file for so long
_TRIES = 100
# nvcc and its tools do not quote these characters correctly in commands and C text.
_UNQUOTABLE = frozenset('\\"$`\n')


def choose(environ: Mapping[str, str], cache: str) -> str:
    """The absolute path of a new scratch directory, which is created later.

    If other users could replace it in TMPDIR, the cache directory is used; if they could replace it there,
    too, /tmp. With umask 002, the user's group may write to TMPDIR and to the cache directory.
    """
    parent = os.path.abspath(environ.get("TMPDIR") or "/tmp")
    if os.path.isdir(parent) and not _is_safe(_of_user(parent)) and os.path.isabs(cache):
        with contextlib.suppress(OSError):
            os.makedirs(cache, 0o700, exist_ok=True)  # the cache may not exist before the user's first call
            parent = cache if _is_safe(_of_user(cache)) else "/tmp"
    return os.path.join(_of_user(parent), new_name())


def new_name() -> str:
    return os.urandom(8).hex()


def _of_user(parent: str) -> str:
    """The directory of this user's scratch directories."""
    return os.path.join(parent, f"nvccache-{os.geteuid()}")


def _is_safe(path: str) -> bool:
    """Whether a directory, which may not exist yet, is safe from being replaced by other users."""
    try:
        parent = os.stat(os.path.dirname(path))
        if parent.st_mode & untrusted.WRITABLE_BY_OTHERS and not parent.st_mode & stat.S_ISVTX:
            return False
        status = os.lstat(path)
    except FileNotFoundError as error:
        return str(error.filename) == path
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def is_quotable(path: str) -> bool:
    """Whether nvcc quotes this path correctly, so that its intermediate files can be there."""
    return _UNQUOTABLE.isdisjoint(path)


def hide_paths(text: bytes, path: str) -> bytes:
    """Diagnostics that show intermediates by base name, without the path of the scratch directory."""
    return text.replace(os.fsencode(path) + b"/", b"")


def is_mentioned(path: str, text: bytes) -> bool:
    """Whether diagnostics contain the base name of a product, on its own or at the end of a path."""
    name = os.fsencode(os.path.basename(path))
    if not name or name not in text:
        return False
    return re.search(rb"(?<![\w.+-])%s(?![\w+-]|\.\w)" % re.escape(name), text) is not None


def within(path: str, work: Callable[[], Result]) -> Result:
    """Call `work` while the scratch directory exists; raises OSError if it cannot be created."""
    lock = -1
    try:
        lock = make(path)
        return work()
    finally:
        try:
            remove(path)
        except process.Interrupted:  # `remove` was interrupted, which happens at most once in a process
            remove(path)
            raise
        finally:
            if lock >= 0:
                os.close(lock)
        sweep(os.path.dirname(path))


def make(path: str) -> int:
    """Create a scratch directory, which is locked until the returned descriptor is closed; raises OSError."""
    parent = os.path.dirname(path)
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent, 0o700)
        if not _is_safe(parent):
            raise OSError(f"other users could replace `{parent}`")
        with contextlib.suppress(FileNotFoundError):  # another call has just removed the empty parent
            os.mkdir(path, 0o700)
            break
    descriptor = os.open(path, untrusted.FOLDER)
    with contextlib.suppress(OSError):  # without locks, no call removes the directory as stale
        flock.take(descriptor)
    return descriptor


def sweep(parent: str) -> None:
    """Remove stale scratch directories from `parent`, which another call may have removed meanwhile."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if re.fullmatch(_NAME, entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_stale(entry.path)


def _remove_if_stale(path: str) -> None:
    """Remove a scratch directory if it is stale; raises OSError if it is not a directory."""
    descriptor = os.open(path, untrusted.FOLDER)
    try:
        if time.time() - os.fstat(descriptor).st_mtime > _STALE_SECONDS and flock.take(descriptor):
            remove(path)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove as much of a scratch directory as possible; links are not followed.

    Does not use `shutil.rmtree`, since importing shutil takes long: it also loads modules for archives.
    """
    for _ in range(_TRIES):
        _remove_folder(path)
        if not os.path.lexists(path):
            break  # if it exists, a compiler that outlived its driver has just created a file in it
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))


def _remove_folder(path: str) -> None:
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                _remove_folder(entry.path)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
    with contextlib.suppress(OSError):
        os.rmdir(path)

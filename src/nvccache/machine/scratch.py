"""The scratch directory of a call, and the removal of stale ones.

If a call is killed outright, its tools run to their end, as nvcc's do, and a call on a later day removes its
directory. One in use is locked by its call; the kernel releases the locks of dead processes.

    $TMPDIR/nvccache-<uid>/             the user's; removed with the last directory in it
    $TMPDIR/nvccache-<uid>/<random>/    one call's

The tools load a library from there, so other users must not be able to replace these directories.
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
_STALE_SECONDS = 24 * 3600.0  # without a new file
_TRIES = 100
# nvcc and its tools write file names into commands and C text, and do not quote these correctly.
_UNQUOTABLE = frozenset('\\"$`\n')


def choose(environ: Mapping[str, str], cache: str) -> str:
    """The absolute path of a new scratch directory, which is created later.

    If others could exchange it in TMPDIR, it is in the cache directory or, failing that, in /tmp: with umask
    002, the user's own group may write to the first two.
    """
    parent = os.path.abspath(environ.get("TMPDIR") or "/tmp")
    if os.path.isdir(parent) and not _is_safe(_of_user(parent)) and os.path.isabs(cache):
        with contextlib.suppress(OSError):
            os.makedirs(cache, 0o700, exist_ok=True)  # it may be the user's first call
            parent = cache if _is_safe(_of_user(cache)) else "/tmp"
    return os.path.join(_of_user(parent), new_name())


def new_name() -> str:
    return os.urandom(8).hex()


def _of_user(parent: str) -> str:
    """The directory of this user's scratch directories."""
    return os.path.join(parent, f"nvccache-{os.geteuid()}")


def _is_safe(path: str) -> bool:
    """Whether the user's directory can be created, or exists and cannot be exchanged by others."""
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
    """Diagnostics without the path of the scratch directory: intermediates appear under their base names."""
    return text.replace(os.fsencode(path) + b"/", b"")


def is_mentioned(path: str, text: bytes) -> bool:
    """Whether diagnostics contain the base name of a product, on its own or at the end of a path."""
    name = os.fsencode(os.path.basename(path))
    if not name or name not in text:
        return False
    return re.search(rb"(?<![\w.+-])%s(?![\w+-]|\.\w)" % re.escape(name), text) is not None


def within(path: str, work: Callable[[], Result]) -> Result:
    """Call `work` while the directory exists; raises OSError if it cannot be created."""
    lock = -1
    try:
        lock = make(path)
        return work()
    finally:
        try:
            remove(path)
        except process.Interrupted:  # raised at most once
            remove(path)
            raise
        finally:
            if lock >= 0:
                os.close(lock)
        sweep(os.path.dirname(path))


def make(path: str) -> int:
    """Create a directory that is locked until the returned descriptor is closed; raises OSError."""
    parent = os.path.dirname(path)
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent, 0o700)
        if not _is_safe(parent):
            raise OSError(f"other users could exchange `{parent}`")
        with contextlib.suppress(FileNotFoundError):  # another call has just removed the empty parent
            os.mkdir(path, 0o700)
            break
    descriptor = os.open(path, untrusted.FOLDER)
    with contextlib.suppress(OSError):  # a file system without locks, on which no call removes it as stale
        flock.take(descriptor)
    return descriptor


def sweep(parent: str) -> None:
    """Remove stale scratch directories from `parent`, which may itself have been removed meanwhile."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if re.fullmatch(_NAME, entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_stale(entry.path)


def _remove_if_stale(path: str) -> None:
    """Raises OSError if it is not a directory."""
    descriptor = os.open(path, untrusted.FOLDER)
    try:
        if time.time() - os.fstat(descriptor).st_mtime > _STALE_SECONDS and flock.take(descriptor):
            remove(path)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove as much of a scratch directory as possible; links are not followed.

    Does not use `shutil.rmtree`, since importing shutil loads the archive modules.
    """
    for _ in range(_TRIES):
        _remove_folder(path)
        if not os.path.lexists(path):
            break  # else a compiler whose driver has been ended has just created its output
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

"""The scratch directory of a call, and the removal of stale ones.

If a call and its watchdog are both killed, the next call that creates a directory removes theirs. A directory
in use is locked by its call; the kernel releases the locks of dead processes. Locks are known only to the
machine, until it reboots, so the name includes a hash of its boot id; directories of other machines are
removed when they are old. The name includes the uid, since TMPDIR may hold many directories of other users.

    $TMPDIR/nvccache-<uid>-<machine><random>
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping

from nvccache.files import flock, keys

_NAME = r"nvccache-(\d+)-([0-9a-f]{6})[0-9a-f]{10}"
_STALE_SECONDS = 24 * 3600.0  # without a new file
_SWEEP_SECONDS = 0.1  # a call waits at its end for the sweep
_TRIES, _PAUSE_SECONDS = 100, 0.002
# nvcc and its tools write file names into commands and C text, and do not quote these correctly.
_UNQUOTABLE = frozenset('\\"$`\n')


def choose(environ: Mapping[str, str]) -> str:
    """The absolute path of a new scratch directory; it is created later, by `make`, under the watchdog."""
    parent = os.path.abspath(environ.get("TMPDIR") or "/tmp")
    return os.path.join(parent, new_name())


def is_quotable(path: str) -> bool:
    """Whether nvcc quotes this path correctly, so that its intermediate files can be there."""
    return _UNQUOTABLE.isdisjoint(path)


def temporary_directory(path: str) -> str:
    """The TMPDIR of the tools: files that they leave there when they fail go with the scratch directory."""
    return os.path.join(path, "tmp")


def hide_paths(text: bytes, path: str, environ: Mapping[str, str]) -> bytes:
    """Diagnostics without the path of the scratch directory: intermediates appear under their base names.

    Paths of the tools' own temporary files appear in the TMPDIR of `environ`, the user's environment.
    """
    users_directory = environ.get("TMPDIR") or "/tmp"
    text = text.replace(os.fsencode(temporary_directory(path)) + b"/", os.fsencode(users_directory) + b"/")
    return text.replace(os.fsencode(path) + b"/", b"")


def is_mentioned(path: str, text: bytes) -> bool:
    """Whether diagnostics contain the base name of a product, on its own or at the end of a path."""
    name = os.fsencode(os.path.basename(path))
    if not name or name not in text:
        return False
    return re.search(rb"(?<![\w.+-])%s(?![\w+-]|\.\w)" % re.escape(name), text) is not None


def new_name() -> str:
    """An unpredictable name for a directory of this user on this machine."""
    return f"nvccache-{os.geteuid()}-{_boot()}{os.urandom(5).hex()}"


def _boot() -> str:
    """Identifies this boot of this machine; the same in all its containers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as stream:
            return keys.digest_bytes(stream.read())[:6]
    except OSError:
        return os.urandom(3).hex()  # matches no machine, so that only age makes it stale


def make(path: str) -> int:
    """Create a directory that is locked until the returned descriptor is closed; raises OSError."""
    os.mkdir(path, 0o700)
    for _ in range(_TRIES):
        descriptor = _lock(path)
        if descriptor >= 0:
            return descriptor
        # Another call took it for a stale one, before it was locked.
        time.sleep(_PAUSE_SECONDS)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    raise OSError(f"cannot lock `{path}`")


def _lock(path: str) -> int:
    """Lock a directory and return its descriptor; -1 if another call has removed it or is doing so."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    try:
        is_ours = flock.take(descriptor, shared=True)
        if is_ours and os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return descriptor
    except FileNotFoundError:
        pass
    except OSError:
        return descriptor  # a file system without locks, where no call can take it for a stale one either
    os.close(descriptor)
    return -1


def sweep(parent: str, excluded: str) -> None:
    """Remove this user's stale scratch directories from `parent`, until time is up."""
    machine = _boot()
    ends_at = time.monotonic() + _SWEEP_SECONDS
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            match = re.fullmatch(_NAME, entry.name) if entry.name != excluded else None
            if match and int(match[1]) == os.geteuid():
                with contextlib.suppress(OSError):
                    _remove_if_stale(entry.path, is_from_here=match[2] == machine)
            if time.monotonic() > ends_at:
                return


def remove(path: str) -> None:
    """Remove as much of a directory tree as possible; links are not followed.

    Not by `shutil.rmtree`, since importing shutil loads the archive modules.
    """
    with contextlib.suppress(FileNotFoundError):
        for _, folders, files, descriptor in os.fwalk(path, topdown=False):
            for name in files:
                _try(os.unlink, name, descriptor)
            for name in folders:
                _try(os.rmdir, name, descriptor)
                _try(os.unlink, name, descriptor)  # a link to a directory
    _try(os.rmdir, path, None)


def _try(removing: Callable[..., None], name: str, descriptor: int | None) -> None:
    with contextlib.suppress(OSError):
        removing(name, dir_fd=descriptor)


def _remove_if_stale(path: str, is_from_here: bool) -> None:
    """Raises OSError if it is not a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            return
        if not is_from_here and time.time() - found.st_mtime < _STALE_SECONDS:
            return
        if flock.take(descriptor):
            remove(path)
    finally:
        os.close(descriptor)

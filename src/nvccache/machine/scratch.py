"""The scratch directory of a call: where it is, that nobody uses one that was left behind, and that it goes.

Where everything was killed at once, the watchdog included, a directory stays. The next call that makes one
of its own removes it. A directory in use is locked by its call; the kernel frees the lock of the dead. That
is only known on this machine, while it is up, so the name says which that was; others go when they are old.
The name says whose it is, too: there may be many that others have left, or put there.

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
_OLD = 24 * 3600.0  # seconds without a new file
_SWEEP_SECONDS = 0.1  # for what is left to be looked through, at the end of a call that waits for it
_TRIES, _PAUSE_SECONDS = 100, 0.002
# nvcc and its tools write file names into commands and C text; these they do not quote as they should.
_UNQUOTABLE = frozenset('\\"$`\n')


def choose(environ: Mapping[str, str]) -> str:
    """The absolute path of a scratch directory, which is not made yet: a signal must not leave it behind."""
    parent = os.path.abspath(environ.get("TMPDIR") or "/tmp")
    return os.path.join(parent, new_name())


def can_be_named(path: str) -> bool:
    """Whether nvcc can have its intermediate files there."""
    return _UNQUOTABLE.isdisjoint(path)


def temporary_below(path: str) -> str:
    """Where the tools put what they leave behind when they fail; it goes with the scratch directory."""
    return os.path.join(path, "tmp")


def hide(text: bytes, path: str, environ: Mapping[str, str]) -> bytes:
    """Diagnostics with intermediates under their base names: the directory's name means nothing.

    What the tools themselves have put away for a while is said to lie where `environ`, the user's, has it.
    """
    users = environ.get("TMPDIR") or "/tmp"
    text = text.replace(os.fsencode(temporary_below(path)) + b"/", os.fsencode(users) + b"/")
    return text.replace(os.fsencode(path) + b"/", b"")


def is_named(path: str, text: bytes) -> bool:
    """Whether diagnostics hold the base name of a product, by itself or at the end of another path."""
    name = os.fsencode(os.path.basename(path))
    if not name or name not in text:
        return False
    return re.search(rb"(?<![\w.+-])%s(?![\w+-]|\.\w)" % re.escape(name), text) is not None


def new_name() -> str:
    """A name that nobody can foresee, for a directory of this machine."""
    return f"nvccache-{os.geteuid()}-{_machine()}{os.urandom(5).hex()}"


def _machine() -> str:
    """This machine since it was started, containers included."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as stream:
            return keys.digest_bytes(stream.read())[:6]
    except OSError:
        return os.urandom(3).hex()  # no machine: what is left goes when it is old


def make(path: str) -> int:
    """Make a directory that is locked until the returned descriptor is closed; raises OSError."""
    os.mkdir(path, 0o700)
    for _ in range(_TRIES):
        descriptor = _lock(path)
        if descriptor >= 0:
            return descriptor
        # Another call has taken it for one that was left, before it was locked.
        time.sleep(_PAUSE_SECONDS)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    raise OSError(f"cannot lock `{path}`")


def _lock(path: str) -> int:
    """The descriptor of the locked directory; negative if it has been, or is being, removed."""
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
        return descriptor  # no locks on this file system: nobody will take it for one that was left, either
    os.close(descriptor)
    return -1


def sweep(parent: str, spared: str) -> None:
    """Remove what calls of this user have left in a directory, but for the one named `spared`.

    What there is no time for is left to the next call.
    """
    machine = _machine()
    ends_at = time.monotonic() + _SWEEP_SECONDS
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            match = re.fullmatch(_NAME, entry.name) if entry.name != spared else None
            if match and int(match[1]) == os.geteuid():
                with contextlib.suppress(OSError):
                    _remove_if_left(entry.path, is_from_here=match[2] == machine)
            if time.monotonic() > ends_at:
                return


def remove(path: str) -> None:
    """Remove a directory and what is in it, as far as that is possible; no link is followed.

    As `shutil.rmtree` does, whose module loads all that there is for archives.
    """
    with contextlib.suppress(FileNotFoundError):
        for _, folders, files, descriptor in os.fwalk(path, topdown=False):
            for name in files:
                _drop(os.unlink, name, descriptor)
            for name in folders:
                _drop(os.rmdir, name, descriptor)
                _drop(os.unlink, name, descriptor)  # a link to a directory
    _drop(os.rmdir, path, None)


def _drop(removing: Callable[..., None], name: str, descriptor: int | None) -> None:
    with contextlib.suppress(OSError):
        removing(name, dir_fd=descriptor)


def _remove_if_left(path: str, is_from_here: bool) -> None:
    """Raises OSError where it is no directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            return
        if not is_from_here and time.time() - found.st_mtime < _OLD:
            return
        if flock.take(descriptor):
            remove(path)
    finally:
        os.close(descriptor)

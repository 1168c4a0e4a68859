"""Queues uploads on disk, per remote, and starts the uploader.

    $NVCCACHE_DIR/remote/
      <remote>-<time>-<random>.queue   what one call published: a line `<bucket> <key>` per object
      <remote>.lock                    held by the uploader of that remote

`<remote>` is the identity of a remote, 16 hexadecimal digits that disclose no credentials. Queue files are
created atomically, and only the holder of the lock removes one, after sending its objects. Files that could
not be sent within a day are removed as stale (store/layout.py). records/send_queued.py is the uploader.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping

from nvccache.config import Config
from nvccache.files import flock
from nvccache.store import directory as directories
from nvccache.store import locks
from nvccache.store.directory import Directory, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.remote_url import Remote

Item = tuple[str, str]  # bucket and key

FOLDER = "remote"
# The files of the folder; layout.py has the same pattern.
NAME = re.compile(r"[0-9a-f]{16}(?:-[0-9a-f]{16}-[0-9a-f]{8}\.queue|\.lock)")
WAIT_ELSEWHERE = (
    "still to be sent to a remote that is not set now: `nvccache remote push --all` sends them to one that is"
)
_PROGRAM = "nvccache.records.send_queued"
_LARGEST = 1 << 22  # bytes of a queue file
_LINE = re.compile(r"([a-z][a-z-]{0,30}-v\d{1,4}) ([0-9a-f]{16,128})")
_POLL_SECONDS = 0.05


def send_soon(config: Config, items: Iterable[Item], environ: Mapping[str, str]) -> None:
    """Queue what a call has published for all writable remotes, and start uploaders in the background."""
    from nvccache import remote_url

    root = directories.of(config)
    for remote in remote_url.parse(config.remote):
        if remote.is_writable and enqueue(root, remote.identity, items):
            start_uploader(root, remote.identity, environ, config.log)


def enqueue(cache: str | Directory, identity: str, items: Iterable[Item]) -> bool:
    """Queue items; False if there are none, too many, or the disk is full."""
    content = _content(items)
    if not content or len(content) > _LARGEST:
        return False
    name = f"{identity}-{time.time_ns():016x}-{os.urandom(4).hex()}.queue"
    try:
        directories.at(cache).write(f"{FOLDER}/{name}", content)
    except OSError:
        return False
    return True


def start_uploader(root: Directory, identity: str, environ: Mapping[str, str], log: str = "") -> bool:
    """Start a process that sends the queue and inherits its lock; False if one is running or none can start.

    Call this after `enqueue`: a running uploader checks the queue once more after releasing the lock.
    """
    from nvccache.remote.breaker import Breaker

    outages = [Breaker(identity, for_writing=for_writing).outage() for for_writing in (False, True)]
    if any(outage and not outage.is_over for outage in outages):
        return False
    try:
        lock = take_lock(root, identity)
    except (OSError, StoreError):
        return False
    if lock is None:
        return False
    from nvccache.machine import process

    path = os.path.abspath(root.path)
    # Absolute, since the uploader has another working directory.
    settings = {"NVCCACHE_DIR": path} | ({"NVCCACHE_LOG": os.path.abspath(log)} if log else {})
    try:
        return process.start_detached(_PROGRAM, [path, identity, str(lock)], {**environ, **settings}, (lock,))
    finally:
        os.close(lock)  # not `flock.release`, which would also release the uploader's lock


def take_lock(root: Directory, identity: str, seconds: float = 0.0) -> int | None:
    """A descriptor that holds an uploader's lock, or None after `seconds`. Raises OSError and StoreError."""
    descriptor = locks.open_to_lock(root, f"{FOLDER}/{identity}.lock")
    until = time.monotonic() + seconds
    while not flock.take_or_close(descriptor):
        if time.monotonic() >= until:
            os.close(descriptor)
            return None
        time.sleep(_POLL_SECONDS)
    return descriptor


def pending(cache: str | Directory, identity: str = "") -> list[str]:
    """The queue files of one remote, or of all; raises OSError.

    Newest first, so an object that a slow connection never gets through does not block later ones.
    """
    try:
        found = directories.at(cache).list(FOLDER)
    except FileNotFoundError:
        return []
    names = [name for name, _ in found if name.startswith(identity) and name.endswith(".queue")]
    return sorted(filter(NAME.fullmatch, names), key=lambda name: name.partition("-")[2], reverse=True)


def read(root: Directory, name: str) -> list[Item]:
    """The items of a queue file, none if it is invalid. Raises OSError."""
    try:
        content, _ = root.read(f"{FOLDER}/{name}", _LARGEST)
    except (FileNotFoundError, directories.UntrustedFileError):
        return []
    lines = map(_LINE.fullmatch, content.decode(errors="replace").split("\n"))
    return [(line[1], line[2]) for line in lines if line]


def keep(root: Directory, name: str, items: Iterable[Item]) -> None:
    """Leave only these items in a queue file, if it can be written; the lock must be held."""
    with contextlib.suppress(OSError):
        root.write(f"{FOLDER}/{name}", _content(items))


def _content(items: Iterable[Item]) -> bytes:
    return "".join([f"{bucket} {key}\n" for bucket, key in dict.fromkeys(items)]).encode()


def remove(root: Directory, name: str) -> None:
    """Remove a queue file; the lock must be held. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        root.unlink(f"{FOLDER}/{name}")


def items(cache: str | Directory, identity: str = "") -> set[tuple[str, Item]]:
    """The objects still to be sent, to one remote or to all, each with the identity of the remote."""
    root = directories.at(cache)
    with contextlib.suppress(OSError, StoreError):
        return {(name[:16], item) for name in pending(root, identity) for item in read(root, name)}
    return set()


def count_pending(cache: str | Directory, identity: str = "") -> int:
    """The number of objects still to be sent, to one remote or to all."""
    return len(items(cache, identity))


def count_elsewhere(cache: str | Directory, remotes: Iterable[Remote]) -> int:
    """The number of objects still to be sent, but to none of these remotes, as after a change of the URL."""
    written = {remote.identity for remote in remotes if remote.is_writable}
    return count_pending(cache) - sum(count_pending(cache, identity) for identity in written)

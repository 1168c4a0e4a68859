"""The queue of objects to send to remotes, and the start of the uploader, the process that sends them.

    $NVCCACHE_DIR/remote/
      <remote>/<bucket>.<key>    an empty file for each object to be sent there
      lock                       held by the uploader

`<remote>` is the identity of a remote: 16 hexadecimal digits that disclose no credentials. Calls add the
objects that they publish; the uploader (records/send_queued.py) removes those that it has sent.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping

from nvccache.config import Config
from nvccache.files import flock
from nvccache.remote import outages
from nvccache.store import directory as directories
from nvccache.store import locks
from nvccache.store.directory import Directory, StoreError

Item = tuple[str, str]  # bucket and key

_FOLDER = "remote"
_PROGRAM = "nvccache.records.send_queued"
_STALE_SECONDS = 86400.0  # an item is dropped if its remote has not been reached for so long


def send_soon(config: Config, items: Iterable[Item], environ: Mapping[str, str]) -> None:
    """Queue what a call has published for all writable remotes, and start the uploader in the background."""
    from nvccache import remote_url

    root = directories.at(config.dir)
    identities = [each.identity for each in remote_url.parse(config.remote) if each.is_writable]
    if enqueue(root, identities, items) and not all(map(is_left_alone, identities)):
        start_uploader(root, environ, config.log)


def is_left_alone(identity: str) -> bool:
    """Whether a remote is skipped because of an outage, so that nothing is sent to it."""
    return any(map(outages.current, (identity, outages.OF_WRITING.format(identity))))


def enqueue(root: Directory, identities: Iterable[str], items: Iterable[Item]) -> bool:
    """Queue items for remotes; returns False if there are none, or if the queue cannot be written."""
    paths = [_path(identity, item) for item in items for identity in identities]
    try:
        for path in paths:
            os.close(root.open(path, os.O_RDWR, make=True)[0])
    except (OSError, StoreError):
        return False
    return bool(paths)


def start_uploader(root: Directory, environ: Mapping[str, str], log: str = "") -> bool:
    """Start the uploader, which inherits the lock; returns False if one is running or none can be started.

    Call this after `enqueue`: a running uploader checks the queue again after it has released the lock.
    """
    try:
        lock = take_lock(root)
    except (OSError, StoreError):
        return False
    if lock is None:
        return False
    from nvccache.machine import process

    path = os.path.abspath(root.path)
    # Absolute paths, since the uploader has another working directory.
    settings = {"NVCCACHE_DIR": path} | ({"NVCCACHE_LOG": os.path.abspath(log)} if log else {})
    try:
        return process.start_detached(_PROGRAM, [path, str(lock)], {**environ, **settings}, (lock,))
    finally:
        os.close(lock)  # not `flock.release`, which would also release the uploader's lock


def take_lock(root: Directory, seconds: float = 0.0) -> int | None:
    """A descriptor of the uploader's lock, or None if it is still taken after `seconds`.

    Raises OSError and StoreError.
    """
    with contextlib.suppress(TimeoutError):
        return locks.acquire(root, f"{_FOLDER}/lock", seconds, flock.take)
    return None


def queued(cache: str | Directory, identity: str) -> list[Item]:
    """The items to be sent to a remote, the oldest first; none if the queue cannot be read."""
    try:
        listed = directories.at(cache).list(f"{_FOLDER}/{identity}")
    except (OSError, StoreError):
        return []
    listed.sort(key=lambda each: (each[1].st_mtime_ns, each[0]))
    return [(bucket, key) for bucket, dot, key in (name.partition(".") for name, _ in listed) if dot]


def remove(root: Directory, identity: str, item: Item) -> None:
    """Remove an item for a remote from the queue; raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        root.unlink(_path(identity, item))


def remove_stale(root: Directory, identity: str) -> None:
    """Remove items that have waited for more than a day; raises OSError."""
    for name, status in root.list(f"{_FOLDER}/{identity}"):
        if time.time() - status.st_mtime > _STALE_SECONDS:
            root.unlink(f"{_FOLDER}/{identity}/{name}")


def _path(identity: str, item: Item) -> str:
    return f"{_FOLDER}/{identity}/{'.'.join(item)}"

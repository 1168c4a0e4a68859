"""The queue of uploads on disk, and the start of the uploader.

    $NVCCACHE_DIR/remote/
      queue   a line `<remote> <bucket> <key>` for each object and remote
      lock    held by the uploader

`<remote>` is the identity of a remote, 16 hexadecimal digits that disclose no credentials. Calls append what
they publish; the uploader (records/send_queued.py) removes what it has sent. Both lock the file meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping

from nvccache.config import Config
from nvccache.files import flock, untrusted
from nvccache.remote import outages
from nvccache.store import directory as directories
from nvccache.store import locks
from nvccache.store.directory import Directory, StoreError

Item = tuple[str, str]  # bucket and key

_QUEUE, _LOCK = "remote/queue", "remote/lock"
_PROGRAM = "nvccache.records.send_queued"
_LARGEST = 1 << 22  # bytes of the queue
_SECONDS = 1.0  # to wait for the lock of the queue, which is held for a moment


def send_soon(config: Config, items: Iterable[Item], environ: Mapping[str, str]) -> None:
    """Queue what a call has published for all writable remotes, and start the uploader in the background."""
    from nvccache import remote_url

    root = directories.configured(config)
    identities = [each.identity for each in remote_url.parse(config.remote) if each.is_writable]
    if enqueue(root, identities, items) and not all(map(is_left_alone, identities)):
        start_uploader(root, environ, config.log)


def is_left_alone(identity: str) -> bool:
    """Whether nothing is sent to a remote now."""
    return any(map(outages.current, (identity, outages.OF_WRITING.format(identity))))


def enqueue(root: Directory, identities: Iterable[str], items: Iterable[Item]) -> bool:
    """Queue items for remotes; False if there are none, or the queue cannot be written.

    A queue that has grown too large is dropped: its remote has not been reached for long.
    """
    wanted = list(dict.fromkeys(items))
    lines = [f"{remote} {bucket} {key}\n" for remote in identities for bucket, key in wanted]
    if not lines:
        return False
    try:
        descriptor = locks.acquire(root, _QUEUE, _SECONDS)
        try:
            if os.lseek(descriptor, 0, os.SEEK_END) > _LARGEST:
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
            untrusted.write_all(descriptor, "".join(lines).encode())
        finally:
            flock.release(descriptor)
    except (OSError, StoreError):
        return False
    return True


def start_uploader(root: Directory, environ: Mapping[str, str], log: str = "") -> bool:
    """Start a process that sends the queue and inherits the lock; False if one is running or none can start.

    Call this after `enqueue`: a running uploader checks the queue once more after releasing the lock.
    """
    try:
        lock = take_lock(root)
    except (OSError, StoreError):
        return False
    if lock is None:
        return False
    from nvccache.machine import process

    path = os.path.abspath(root.path)
    # Absolute, since the uploader has another working directory.
    settings = {"NVCCACHE_DIR": path} | ({"NVCCACHE_LOG": os.path.abspath(log)} if log else {})
    try:
        return process.start_detached(_PROGRAM, [path, str(lock)], {**environ, **settings}, (lock,))
    finally:
        os.close(lock)  # not `flock.release`, which would also release the uploader's lock


def take_lock(root: Directory, seconds: float = 0.0) -> int | None:
    """A descriptor that holds the uploader's lock, or None after `seconds`. Raises OSError and StoreError."""
    with contextlib.suppress(TimeoutError):
        return locks.acquire(root, _LOCK, seconds)
    return None


def queued(cache: str | Directory, identity: str) -> list[Item]:
    """What is to be sent to a remote, the oldest first; what cannot be read counts as nothing."""
    try:
        content, _ = directories.at(cache).read(_QUEUE)
    except (OSError, StoreError):
        return []
    return list(dict.fromkeys((bucket, key) for remote, bucket, key in _lines(content) if remote == identity))


def remove(root: Directory, identity: str, items: Collection[Item]) -> None:
    """Take items for a remote out of the queue. Raises OSError."""
    descriptor = locks.acquire(root, _QUEUE, _SECONDS)
    try:
        content = untrusted.read_all(descriptor, 2 * _LARGEST)
        rest = [line for line in _lines(content) if line[0] != identity or line[1:] not in items]
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
        untrusted.write_all(descriptor, "".join([f"{' '.join(line)}\n" for line in rest]).encode())
    finally:
        flock.release(descriptor)


def _lines(content: bytes) -> list[tuple[str, str, str]]:
    """Identity, bucket and key of each line; others are cut off, or of an earlier version."""
    fields = [line.split(" ") for line in content.decode(errors="replace").split("\n")]
    return [(each[0], each[1], each[2]) for each in fields if len(each) == 3]

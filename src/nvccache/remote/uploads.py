"""The queue of uploads on disk, and the start of the uploader.

    $NVCCACHE_DIR/remote/
      queue   a line `<time> <remote> <bucket> <key>` for each object and remote
      lock    held by the uploader

`<remote>` is the identity of a remote, 16 hexadecimal digits that disclose no credentials. Calls append what
they publish; the uploader (records/send_queued.py) removes what it has sent. Both lock the file meanwhile.
Lines older than a day are dropped.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
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
_DAY = 86400.0
_LINE = re.compile(r"(\d{1,12}) ([0-9a-f]{16}) ([a-z][a-z-]{0,30}-v\d{1,4}) ([0-9a-f]{16,128})")
_POLL_SECONDS = 0.05


def send_soon(config: Config, items: Iterable[Item], environ: Mapping[str, str]) -> None:
    """Queue what a call has published for all writable remotes, and start the uploader in the background."""
    from nvccache import remote_url

    root = directories.of(config)
    remotes = [each for each in remote_url.parse(config.remote) if each.is_writable]
    is_queued = enqueue(root, [each.identity for each in remotes], items)
    if is_queued and not all(is_left_alone(each.identity) for each in remotes):
        start_uploader(root, environ, config.log)


def is_left_alone(identity: str) -> bool:
    """Whether nothing is sent to a remote now."""
    return any(map(outages.current, (identity, outages.OF_WRITING.format(identity))))


def enqueue(root: Directory, identities: Iterable[str], items: Iterable[Item]) -> bool:
    """Queue items for remotes; False if there are none, the queue is full, or it cannot be written."""
    now, wanted = int(time.time()), list(dict.fromkeys(items))
    content = "".join(
        [f"{now} {remote} {bucket} {key}\n" for remote in identities for bucket, key in wanted]
    ).encode()
    if not content:
        return False
    try:
        descriptor = locks.acquire(root, _QUEUE, _SECONDS, flock.take)
    except (OSError, StoreError):
        return False
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size + len(content) > _LARGEST:
            return False
        try:
            untrusted.write_all(descriptor, content)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)  # half a line would spoil the next one
            return False
    finally:
        flock.release(descriptor)
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
    descriptor = locks.open_to_lock(root, _LOCK)
    until = time.monotonic() + seconds
    while not flock.take_or_close(descriptor):
        if time.monotonic() >= until:
            os.close(descriptor)
            return None
        time.sleep(_POLL_SECONDS)
    return descriptor


def queued(cache: str | Directory, identity: str) -> list[Item]:
    """What is to be sent to a remote, the oldest first; what cannot be read counts as nothing."""
    with contextlib.suppress(OSError, StoreError):
        content, _ = directories.at(cache).read(_QUEUE, _LARGEST)
        lines = map(_LINE.fullmatch, content.decode(errors="replace").split("\n"))
        return list(dict.fromkeys((line[3], line[4]) for line in lines if line and line[2] == identity))
    return []


def remove(root: Directory, identity: str, items: Collection[Item]) -> None:
    """Take items for a remote out of the queue, and all old lines. Raises OSError."""
    descriptor = locks.acquire(root, _QUEUE, _SECONDS, flock.take)
    try:
        content = os.pread(descriptor, _LARGEST, 0).decode(errors="replace")
        rest = []
        for line in filter(None, map(_LINE.fullmatch, content.split("\n"))):
            is_done = line[2] == identity and (line[3], line[4]) in items
            if not is_done and time.time() - int(line[1]) < _DAY:
                rest.append(f"{line[0]}\n")
        os.lseek(descriptor, 0, os.SEEK_SET)
        untrusted.write_all(descriptor, "".join(rest).encode())
        os.ftruncate(descriptor, len("".join(rest)))
    finally:
        flock.release(descriptor)

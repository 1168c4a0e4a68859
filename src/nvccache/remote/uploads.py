"""What has still to be sent to remotes: a queue on disk for each of them, and the start of its uploader.

    $NVCCACHE_DIR/remote/
      <remote>-<time>-<random>.queue   what one call has published: a line `<bucket> <key>` for each object
      <remote>.lock                    held by the process that sends to that remote

`<remote>` is the identity of a remote, 16 hexadecimal characters that disclose no credentials. A file appears
whole or not at all, and only the holder of the lock removes it, once its objects were sent. One that nobody
could send within a day goes like anything stale (store/layout.py). Knows nothing of how an object is sent
(records/send_queued.py).
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

Item = tuple[str, str]  # bucket and key

FOLDER = "remote"
# What may lie in the folder; layout.py has the same pattern.
NAME = re.compile(r"[0-9a-f]{16}(?:-[0-9a-f]{16}-[0-9a-f]{8}\.queue|\.lock)")
_PROGRAM = "nvccache.records.send_queued"
_LARGEST = 1 << 22  # bytes of what one call queues
_LINE = re.compile(r"([a-z][a-z-]{0,30}-v\d{1,4}) ([0-9a-f]{16,128})")
_POLL_SECONDS = 0.05


def send_soon(config: Config, items: Iterable[Item], environ: Mapping[str, str]) -> None:
    """Have what a call has published sent to every remote that is written to, without waiting for it."""
    from nvccache import remote_url

    root = directories.of(config)
    for remote in remote_url.parse(config.remote):
        if remote.is_writable and enqueue(root, remote.identity, items):
            start_uploader(root, remote.identity, environ, config.log)


def enqueue(place: str | Directory, identity: str, items: Iterable[Item]) -> bool:
    """Queue what a call has published; whether there was anything, and room on the disk for it."""
    content = "".join([f"{bucket} {key}\n" for bucket, key in dict.fromkeys(items)]).encode()
    if not content or len(content) > _LARGEST:
        return False
    name = f"{identity}-{time.time_ns():016x}-{os.urandom(4).hex()}.queue"
    try:
        directories.at(place).write(f"{FOLDER}/{name}", content)
    except OSError:
        return False  # it is not sent, and the build is none the worse for it
    return True


def start_uploader(root: Directory, identity: str, environ: Mapping[str, str], log: str = "") -> bool:
    """Start a process that sends what is queued, unless there is one; whether it was started.

    The process is handed the lock. To be called after `enqueue`: it looks at the queue once more when it has
    given the lock up.
    """
    from nvccache.remote.breaker import Breaker

    outages = [Breaker(identity, for_writing=for_writing).outage() for for_writing in (False, True)]
    if any(outage and time.time() < outage.until for outage in outages):
        return False
    try:
        lock = take_lock(root, identity)
    except (OSError, StoreError):
        return False
    if lock is None:
        return False
    from nvccache.machine import process

    path = os.path.abspath(root.path)
    # Relative to the directory of the call, which the uploader does not have.
    settings = {"NVCCACHE_DIR": path} | ({"NVCCACHE_LOG": os.path.abspath(log)} if log else {})
    try:
        return process.start_detached(_PROGRAM, [path, identity, str(lock)], {**environ, **settings}, (lock,))
    finally:
        os.close(lock)  # and not `flock.let_go`, which would take it from the uploader, too


def take_lock(root: Directory, identity: str, seconds: float = 0.0) -> int | None:
    """The lock of who sends to a remote as a descriptor; None if it is not free within so many seconds.

    Raises OSError and StoreError.
    """
    descriptor = locks.open_to_lock(root, f"{FOLDER}/{identity}.lock")
    until = time.monotonic() + seconds
    while not flock.take_or_close(descriptor):
        if time.monotonic() >= until:
            os.close(descriptor)
            return None
        time.sleep(_POLL_SECONDS)
    return descriptor


def pending(place: str | Directory, identity: str = "") -> list[str]:
    """The queued files of one remote, or of all, newest first; raises OSError.

    So an object that no attempt gets through, on a slow line, holds up nothing that is queued later.
    """
    try:
        found = directories.at(place).list(FOLDER)
    except FileNotFoundError:
        return []
    names = [name for name, _ in found if name.startswith(identity) and name.endswith(".queue")]
    return sorted(filter(NAME.fullmatch, names), key=lambda name: name.partition("-")[2], reverse=True)


def read(root: Directory, name: str) -> list[Item]:
    """The items in a queued file, none where it is no file of ours. Raises OSError."""
    try:
        content, _ = root.read(f"{FOLDER}/{name}", _LARGEST)
    except (FileNotFoundError, directories.UntrustedFileError):
        return []
    lines = map(_LINE.fullmatch, content.decode(errors="replace").split("\n"))
    return [(line[1], line[2]) for line in lines if line]


def remove(root: Directory, name: str) -> None:
    """Take a file out of the queue; the lock must be held. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        root.unlink(f"{FOLDER}/{name}")


def waiting(place: str | Directory, identity: str = "") -> int:
    """How many objects have still to be sent, to one remote or to all."""
    root = directories.at(place)
    with contextlib.suppress(OSError, StoreError):
        return len({(name[:16], item) for name in pending(root, identity) for item in read(root, name)})
    return 0

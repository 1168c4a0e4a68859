"""The uploader: a background process that sends what calls have queued for a remote.

    python -m nvccache.records.send_queued DIRECTORY REMOTE LOCK

A call that has published something starts it (remote/uploads.py) with the remote's identity and the
descriptor of a lock that it holds. It loads the client once, sends everything queued, waits a moment for
more, and ends. `nvccache remote push` does the same in the foreground.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping

from nvccache import config, log, remote_url
from nvccache.files import flock
from nvccache.records.transfer import Transfer
from nvccache.remote import parallel, uploads
from nvccache.remote.breaker import Breaker
from nvccache.remote.kinds import connect
from nvccache.remote.service import Service, ServiceError, is_remote_fault, opens_breaker
from nvccache.remote.uploads import Item
from nvccache.remote_url import Remote
from nvccache.store import directory
from nvccache.store.directory import Directory, StoreError
from nvccache.store.store import Store
from nvccache.values import dataclass, field

_NICE = 10
_LINGER_SECONDS = 1.0
_POLL_SECONDS = 0.1
_LIFE_SECONDS = 600.0
_ANSWER_SECONDS = 120.0  # no call waits for it, and a large product takes long on a slow line
_STALL_SECONDS = 150.0  # without a finished item
_AT_ONCE = 6  # concurrent requests
_FILES_AT_ONCE = 64  # of the queue, per round


@dataclass(slots=True)
class Sender:
    """Sends what is queued for one remote; the caller must hold its lock."""

    _root: Directory
    _remote: Remote
    _transfer: Transfer
    _environ: Mapping[str, str]
    _until: float = float("inf")  # by the monotonic clock
    objects: int = 0  # sent
    bytes: int = 0
    present: int = 0  # on the remote already
    refused: int = 0  # items that failed, though the remote works; not tried again
    fault: ServiceError | None = None  # of the remote; it ended the work
    _service: Service | None = None
    _last_error: str = ""  # of a refused item
    _sent: set[Item] = field(default_factory=set)  # blobs never change: each is sent once

    def is_over(self) -> bool:
        return self.fault is not None or time.monotonic() >= self._until

    def send_pending(self, progress: Callable[[int, int], None] = lambda done, of: None) -> bool:
        """Send until the queue is empty, the remote fails or time is up; whether anything was queued.

        Raises OSError.
        """
        is_any = False
        while not self.is_over() and (names := uploads.pending(self._root, self._remote.identity)):
            is_any = True
            self._send_files(names[:_FILES_AT_ONCE], progress)
        return is_any

    def linger(self) -> None:
        """Send until nothing was queued for a moment: a build's next call then starts no uploader."""
        quiet_since = time.monotonic()
        while not self.is_over() and time.monotonic() < quiet_since + _LINGER_SECONDS:
            if self.send_pending():
                quiet_since = time.monotonic()
            else:
                time.sleep(_POLL_SECONDS)

    def log_lines(self) -> list[str]:
        """A summary for the log; empty if there was nothing to do."""
        if not (self.objects or self.refused or self.fault):
            return []
        fault = f"; {self.fault.word}: {self.fault}" if self.fault else ""
        refused = f"; gave up {self.refused} ({self._last_error})" if self.refused else ""
        return [f"sent {self.objects} objects, {self.bytes} bytes, to `{self._remote.shown}`{fault}{refused}"]

    def _send_files(self, names: list[str], progress: Callable[[int, int], None]) -> None:
        """Send the items in these files of the queue; what was sent leaves its file."""
        files = {name: uploads.read(self._root, name) for name in names}
        last = {item for items in files.values() for item in items if self._transfer.is_sent_last(item)}
        # Records change: one that is queued again is sent again.
        self._sent -= last
        blobs = dict.fromkeys(item for items in files.values() for item in items if item not in last)
        failed = self._send_all([item for item in blobs if item not in self._sent], progress)
        # A record refers to blobs of the same call: without all of them it is not sent.
        whole = [items for items in files.values() if not failed.intersection(items)]
        records = dict.fromkeys(item for items in whole for item in items if item in last)
        failed |= self._send_all(list(records), progress)
        for name, items in files.items():
            if failed.intersection(items) or self._sent.issuperset(items):
                uploads.remove(self._root, name)
            elif self._sent.intersection(items):
                uploads.keep(self._root, name, [item for item in items if item not in self._sent])

    def _send_all(self, items: list[Item], progress: Callable[[int, int], None]) -> set[Item]:
        """Send items; returns those that failed though the remote works."""
        failed: set[Item] = set()
        if self.is_over():
            return failed
        try:
            self._service = self._service or connect(self._remote, self._environ, _ANSWER_SECONDS)
            ended = parallel.each(self._send, items, _AT_ONCE, _STALL_SECONDS, is_remote_fault)
            for number, (item, size, error) in enumerate(ended, 1):
                if error is None:
                    self._count(item, size or 0)
                    progress(number, len(items))
                elif isinstance(error, ServiceError) and is_remote_fault(error):
                    self._stop(error)
                else:
                    self._last_error = f"{type(error).__name__}: {error}"
                    failed.add(item)
                if self.is_over():
                    break
        except ServiceError as error:
            self._stop(error)
        except parallel.StalledError as error:
            self._stop(ServiceError("timeout", str(error)))
        self.refused += len(failed)
        return failed

    def _send(self, item: Item) -> int:
        assert self._service
        return self._transfer.send(item, self._service)

    def _count(self, item: Item, size: int) -> None:
        if not self._sent:
            self._breaker().close()
        self._sent.add(item)
        self.bytes += size
        if size:
            self.objects += 1
        else:
            self.present += 1

    def _stop(self, fault: ServiceError) -> None:
        self.fault = fault
        if opens_breaker(fault):
            self._breaker().trip(fault.word, str(fault))

    def _breaker(self) -> Breaker:
        return Breaker(self._remote.identity, for_writing=True)


def main(arguments: list[str]) -> None:
    """Send what is queued, and what is queued meanwhile, with the settings of the environment."""
    path, identity, descriptor = arguments
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    settings = config.load({**os.environ, "NVCCACHE_DIR": path})
    found = [each for each in remote_url.parse(settings.remote) if each.identity == identity]
    if settings.readonly or not found:
        return
    root = directory.of(settings)
    until = time.monotonic() + _LIFE_SECONDS
    sender = Sender(root, found[0], Transfer(Store(root, is_readonly=True)), os.environ, until)
    lock: int | None = int(descriptor)
    with contextlib.suppress(OSError, StoreError):
        while lock is not None:
            sender.linger()
            flock.release(lock)
            # A call that found the lock held has started no uploader: look at the queue once more.
            lock = None
            if not sender.is_over() and uploads.pending(root, identity):
                lock = uploads.take_lock(root, identity)
    log.write(settings.log, *sender.log_lines())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        os._exit(0)  # without joining threads that wait for a hanging server

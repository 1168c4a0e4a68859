"""The uploader: a background process that sends what calls have queued for remotes.

    python -m nvccache.records.send_queued DIRECTORY LOCK

A call that has queued something starts the uploader (remote/uploads.py), and passes it the descriptor of a
lock. The uploader sends what is queued for one remote after the other, waits a moment for more, and ends.
`nvccache remote push` does the same in the foreground.

Only blobs and records are sent, even if a queue names other files of the cache. Each is sealed with its
bucket and key (remote/envelope.py).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TypeGuard

from nvccache import config, log, remote_url
from nvccache.files import flock
from nvccache.records import record
from nvccache.records.tiered_store import COMPRESSED, LARGEST, RAW
from nvccache.remote import envelope, outages, uploads
from nvccache.remote.backend import Backend, BackendError, connect
from nvccache.remote.uploads import Item
from nvccache.remote_url import Remote
from nvccache.store import store
from nvccache.store.directory import Directory, StoreError
from nvccache.store.store import Store
from nvccache.values import dataclass

_NICE = 10
_LINGER_SECONDS = 1.0
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 60.0  # for one request: no call waits for it, and a slow line takes long for a large object
_STALL_SECONDS = 90.0  # if no item is finished in this time, the remote is given up: a request may never end
_AT_ONCE = 6  # concurrent requests


@dataclass(slots=True)
class Sender:
    """Sends what is queued for one remote; the caller must hold the uploader's lock."""

    _root: Directory
    _remote: Remote
    _environ: Mapping[str, str]
    objects: int = 0  # the number of objects sent
    bytes: int = 0
    refused: int = 0  # items that failed although the remote works; they are not tried again
    fault: BackendError | None = None  # the error of the remote after which nothing more is sent
    _backend: Backend | None = None

    def has_more(self) -> bool:
        """Whether something is queued for the remote, and the remote has not failed."""
        return not self.fault and bool(uploads.queued(self._root, self._remote.identity))

    def log_line(self) -> str:
        """A summary for the log; empty if there was nothing to do."""
        if not (self.objects or self.refused or self.fault):
            return ""
        fault = f"; {self.fault.word}: {self.fault}" if self.fault else ""
        refused = f"; gave up {self.refused}" if self.refused else ""
        return f"sent {self.objects} objects, {self.bytes} bytes, to `{self._remote.shown}`{fault}{refused}"

    def send_pending(self) -> bool:
        """Send until the queue is empty or the remote fails; False if it was empty before. Raises OSError."""
        uploads.remove_stale(self._root, self._remote.identity)
        is_any = False
        while self.has_more():
            is_any = True
            # The newest items are sent first, so that an old one that always times out does not block them.
            items = uploads.queued(self._root, self._remote.identity)[::-1]
            # Records are sent after the blobs to which they refer.
            for is_record in (False, True):
                self._send_all([item for item in items if (item[0] == store.RECORD) == is_record])
        return is_any

    def _send_all(self, items: Sequence[Item]) -> None:
        """Send items until the remote fails. Those that were sent or refused are removed from the queue."""
        if not items or self.fault:
            return
        waiting = deque(items)
        results: SimpleQueue[tuple[Item, int, Exception | None]] = SimpleQueue()

        def send_waiting() -> None:
            with contextlib.suppress(IndexError):
                while True:
                    results.put(self._attempt(waiting.popleft()))

        try:
            self._backend = self._backend or connect(self._remote, self._environ, _ANSWER_SECONDS)
            for _ in range(min(_AT_ONCE, len(items))):
                # Not a ThreadPool, which needs /dev/shm. The process can end before daemon threads do.
                threading.Thread(target=send_waiting, daemon=True).start()
            for _ in items:
                item, size, error = results.get(timeout=_STALL_SECONDS)
                if error and _is_of_remote(error):
                    raise error
                self.refused += error is not None
                self.objects += size > 0
                self.bytes += size
                uploads.remove(self._root, self._remote.identity, item)
        except (BackendError, Empty) as error:
            self.fault = error if isinstance(error, BackendError) else BackendError("timeout")
            if self.fault.is_lasting:
                identity = outages.OF_WRITING.format(self._remote.identity)
                outages.begin(identity, self.fault.word, self.fault.text)
        finally:
            waiting.clear()

    def _attempt(self, item: Item) -> tuple[Item, int, Exception | None]:
        """Send an item. Returns the item with the number of bytes sent, or with 0 and the error."""
        if self.fault:
            return item, 0, self.fault
        assert self._backend
        try:
            return item, send(item, Store(self._root, is_readonly=True), self._backend), None
        except Exception as error:
            if _is_of_remote(error):
                self.fault = error  # so that no further items are sent
            return item, 0, error


def _is_of_remote(error: Exception) -> TypeGuard[BackendError]:
    """Whether the remote as a whole has failed, and not only one object."""
    return isinstance(error, BackendError) and error.word != "broken"


def send(item: Item, cache: Store, backend: Backend) -> int:
    """Send an item; returns its bytes, 0 if it is no longer in the cache. Raises BackendError."""
    body, name = body_of(item, cache), envelope.name_of(*item)
    if body is None:
        return 0
    if item[0] == store.RECORD:
        theirs = backend.get(name, envelope.max_sealed_size(LARGEST))
        with contextlib.suppress(ValueError):  # the remote's object is damaged, or not a record
            # If another machine sends the same record at this moment, the entries of one of them are lost.
            body = record.merged(body, envelope.unseal(theirs, *item, LARGEST) if theirs else body)
    content = envelope.seal(*item, body)
    backend.put(name, content)
    return len(content)


def body_of(item: Item, cache: Store) -> bytes | None:
    """The body of an item to be sent; None if it is no longer in the cache or must not be shared."""
    bucket, key = item
    body = None
    if bucket == store.RECORD:
        stored = cache.find_record(bucket, key)
        with contextlib.suppress(ValueError):
            body = record.without_hints(stored) if stored is not None else None
    elif bucket == store.BLOB:
        content = cache.read_blob(key)
        is_raw = os.path.exists(cache.path(bucket, key))
        body = (RAW if is_raw else COMPRESSED) + content if content is not None else None
    return None if body is None or len(body) > LARGEST else body


def main(arguments: list[str]) -> None:
    """Send what is queued, and what calls queue while this runs, with the settings of the environment."""
    path, descriptor = arguments
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    settings = config.load({**os.environ, "NVCCACHE_DIR": path})
    if settings.readonly:
        return
    root = Directory(settings.dir)
    remotes = [each for each in remote_url.parse(settings.remote) if each.is_writable]
    senders = [Sender(root, each, os.environ) for each in remotes if not uploads.is_left_alone(each.identity)]
    lock: int | None = int(descriptor)
    with contextlib.suppress(OSError, StoreError):
        while lock is not None:
            # Wait a moment: the next call of a build will queue more, and would start another uploader.
            quiet_since = time.monotonic()
            while time.monotonic() < quiet_since + _LINGER_SECONDS and any(
                not each.fault for each in senders
            ):
                if any(sender.send_pending() for sender in senders):
                    quiet_since = time.monotonic()
                time.sleep(_POLL_SECONDS)
            flock.release(lock)
            # Calls that queued something while the lock was held have started no uploader, so look once more.
            lock = uploads.take_lock(root) if any(each.has_more() for each in senders) else None
    log.write(settings.log, *filter(None, [each.log_line() for each in senders]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        os._exit(0)  # does not wait for threads whose server may never answer

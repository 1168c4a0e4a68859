"""The uploader: a background process that sends what calls have queued for remotes.

    python -m nvccache.records.send_queued DIRECTORY LOCK

A call that has published something starts it (remote/uploads.py) with the descriptor of a lock that it
holds. It sends everything queued to one remote after the other, waits a moment for more, and ends.
`nvccache remote push` does the same in the foreground.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from nvccache import config, log, remote_url
from nvccache.files import flock
from nvccache.records import transfer
from nvccache.remote import outages, uploads
from nvccache.remote.kinds import connect
from nvccache.remote.service import Service, ServiceError, is_lasting
from nvccache.remote.uploads import Item, is_left_alone
from nvccache.remote_url import Remote
from nvccache.store import directory, store
from nvccache.store.directory import Directory, StoreError
from nvccache.store.store import Store
from nvccache.values import dataclass

_NICE = 10
_LINGER_SECONDS = 1.0
_POLL_SECONDS = 0.1
_LIFE_SECONDS = 600.0
_ANSWER_SECONDS = 60.0  # no call waits for it, and a large object takes long on a slow line
_STALL_SECONDS = 90.0  # without a finished item: a request to a server that drips may never end
_AT_ONCE = 6  # concurrent requests
_ITEMS_AT_A_TIME = 512


@dataclass(slots=True)
class Sender:
    """Sends what is queued for one remote; the caller must hold the uploader's lock."""

    _root: Directory
    _remote: Remote
    _environ: Mapping[str, str]
    _until: float = float("inf")  # by the monotonic clock
    objects: int = 0  # sent
    bytes: int = 0
    refused: int = 0  # items that failed, though the remote works; not tried again
    fault: ServiceError | None = None  # of the remote; it ended the work
    _service: Service | None = None

    def has_more(self) -> bool:
        """Whether there is something to send, and it may be sent."""
        if self.fault or time.monotonic() >= self._until:
            return False
        return bool(uploads.queued(self._root, self._remote.identity))

    def log_line(self) -> str:
        """A summary for the log; empty if there was nothing to do."""
        if not (self.objects or self.refused or self.fault):
            return ""
        fault = f"; {self.fault.word}: {self.fault}" if self.fault else ""
        refused = f"; gave up {self.refused}" if self.refused else ""
        return f"sent {self.objects} objects, {self.bytes} bytes, to `{self._remote.shown}`{fault}{refused}"

    def send_pending(self, progress: Callable[[int, int], None] = lambda done, of: None) -> bool:
        """Send until the queue is empty, the remote fails or time is up; whether anything was queued.

        Raises OSError.
        """
        is_any = False
        while self.has_more():
            is_any = True
            # The newest first: an object that never gets through a slow line does not block later ones.
            items = uploads.queued(self._root, self._remote.identity)[-_ITEMS_AT_A_TIME:]
            done: set[Item] = set()
            # Records refer to blobs: they come last.
            for some in _split(items):
                for item in self._send_all(some):
                    done.add(item)
                    progress(len(done), len(items))
            uploads.remove(self._root, self._remote.identity, done)
        return is_any

    def _send_all(self, items: Sequence[Item]) -> Iterator[Item]:
        """Send items; yields those that are done, which are all unless the remote fails."""
        if not items or self.fault:
            return
        try:
            service = self._service = self._service or connect(self._remote, self._environ, _ANSWER_SECONDS)
            cache = Store(self._root, is_readonly=True)
            for item, size, error in _in_parallel(lambda item: transfer.send(item, cache, service), items):
                if error and _is_of_remote(error):
                    raise error
                self.refused += error is not None
                self.objects += size > 0
                self.bytes += size
                yield item
        except ServiceError as error:
            self.fault = error
            if is_lasting(error):
                outages.begin(outages.OF_WRITING.format(self._remote.identity), error.word, error.text)


def _split(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    records = [item for item in items if item[0] == store.RECORD]
    return [item for item in items if item[0] != store.RECORD], records


def _is_of_remote(error: Exception) -> bool:
    """Whether the remote as a whole failed, not one object."""
    return isinstance(error, ServiceError) and error.word != "broken"


def _in_parallel(
    work: Callable[[Item], int], items: Sequence[Item]
) -> Iterator[tuple[Item, int, Exception | None]]:
    """Each item with what `work` returned or raised, in order of completion, on daemon threads.

    Raises ServiceError if none ends for long. After a fault of the remote no further items begin.
    """
    waiting, ended = list(reversed(items)), queue.SimpleQueue[tuple[Item, int, Exception | None]]()

    def serve() -> None:
        while True:
            try:
                item = waiting.pop()
            except IndexError:
                return
            try:
                ended.put((item, work(item), None))
            except Exception as error:
                if _is_of_remote(error):
                    waiting.clear()
                ended.put((item, 0, error))

    for _ in range(min(_AT_ONCE, len(items))):
        threading.Thread(target=serve, daemon=True).start()
    try:
        for _ in range(len(items)):
            yield ended.get(timeout=_STALL_SECONDS)
    except queue.Empty:
        raise ServiceError("timeout") from None
    finally:
        waiting.clear()


def main(arguments: list[str]) -> None:
    """Send what is queued, and what is queued meanwhile, with the settings of the environment."""
    path, descriptor = arguments
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    settings = config.load({**os.environ, "NVCCACHE_DIR": path})
    if settings.readonly:
        return
    root = directory.of(settings)
    until = time.monotonic() + _LIFE_SECONDS
    remotes = [each for each in remote_url.parse(settings.remote) if each.is_writable]
    senders = [Sender(root, each, os.environ, until) for each in remotes if not is_left_alone(each.identity)]
    lock: int | None = int(descriptor)
    with contextlib.suppress(OSError, StoreError):
        while lock is not None:
            _send_until_quiet(senders)
            flock.release(lock)
            # A call that found the lock held has started no uploader: look at the queue once more.
            lock = uploads.take_lock(root) if any(each.has_more() for each in senders) else None
    log.write(settings.log, *filter(None, [each.log_line() for each in senders]))


def _send_until_quiet(senders: Sequence[Sender]) -> None:
    """Send until nothing was queued for a moment: a build's next call then starts no uploader."""
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + _LINGER_SECONDS and not all(each.fault for each in senders):
        if sum(sender.send_pending() for sender in senders):
            quiet_since = time.monotonic()
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        os._exit(0)  # without joining threads that wait for a hanging server

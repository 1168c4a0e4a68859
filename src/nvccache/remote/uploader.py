"""Sends what is queued for remotes: in a process of its own that ends soon, or for `nvccache remote push`.

That process is started by a call that has published something (uploads.py), loads the client once, sends what
this and other calls have queued, waits a moment for more, and ends. An item leaves the queue when it is on
the remote, when it is no longer in the cache, or when it has failed too often. A fault of the remote ends the
work and leaves the queue for the next one. Knows nothing of what items are (records/transfer.py).
"""

from __future__ import annotations

import time

from nvccache import log
from nvccache.remote import parallel, uploads
from nvccache.remote.breaker import Breaker
from nvccache.remote.service import Service
from nvccache.remote.service_error import ServiceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Protocol

    from nvccache.remote.uploads import Item
    from nvccache.remote_url import Remote
    from nvccache.store.directory import Directory

    Tell = Callable[[int, int], None]

    class Transfer(Protocol):
        """Knows what items are."""

        def send(self, item: Item, service: Service) -> int:
            """Have an item on a remote; the bytes sent, 0 where there was nothing to send."""

        def is_promise(self, item: Item) -> bool:
            """Whether others are to be there before this one is."""


_LINGER_SECONDS = 1.0
_POLL_SECONDS = 0.1
_LOCK_SECONDS = 2.0  # somebody may only be looking whether there is something to do
_LIFE_SECONDS = 600.0
_ANSWER_SECONDS = 120.0  # nobody waits for it, and a large product takes its time on a slow line
_STALL_SECONDS = 150.0  # in which no item is done
_MOST_BYTES = 4 << 30  # that one process sends
_AT_ONCE = 6  # requests
_FILES_AT_ONCE = 64  # of the queue; their items are sent once, and promises last
_MOST_TRIES = 5
_OF_ITEM = ("broken",)  # what is the matter with one item and not with the remote
_OF_EITHER = ("timeout",)  # it may have been too large for the line
# What keeps a remote from being read as well. Credentials to write are not those to read, nor is room needed.
_OF_READERS = ("unreachable", "throttled", "tls")


class Sender:
    """Sends what is queued for one remote; its lock must be held while `drain` is under way."""

    def __init__(
        self,
        root: Directory,
        remote: Remote,
        transfer: Transfer,
        environ: Mapping[str, str],
        until: float = float("inf"),
        is_asked_for: bool = False,
    ) -> None:
        """With `is_asked_for` somebody waits for it: an outage and the number of bytes do not stop it."""
        self.remote = remote
        self._is_asked_for = is_asked_for
        self._transfer = transfer
        self._until = until  # by the monotonic clock
        self.fault: ServiceError | None = None  # of the remote, which ended the work
        self._root = root
        self._environ = environ
        self._service: Service | None = None
        self._breakers = Breaker(remote.identity), Breaker(remote.identity, for_writing=True)
        self._before = uploads.state_of(root, remote.identity)
        self.state = uploads.State()  # of what this one has done
        self._done: set[Item] = set()  # what is named by what it holds is sent once
        self._failed: set[str] = set()  # files of the queue that hold what failed

    @property
    def is_spent(self) -> bool:
        """Whether it is for another process to go on."""
        if self.fault or time.monotonic() >= self._until:
            return True
        return self.state.bytes >= _MOST_BYTES and not self._is_asked_for

    def drain(self, tell: Tell | None = None) -> None:
        """Send until nothing is left, the remote has a fault, or the time or the bytes are spent."""
        if not self.is_spent and not self._may_begin():
            self._write_down()
        while not self.is_spent:
            names = self.waiting()[:_FILES_AT_ONCE]
            if not names:
                return
            self._send_files(names, tell)
            self._write_down()

    def _may_begin(self) -> bool:
        """Whether there is a client, and the remote is not left alone for now."""
        if self._service:
            return True
        for breaker in () if self._is_asked_for else self._breakers:
            outage = breaker.outage()
            if outage and not breaker.may_ask():
                self.fault = ServiceError(outage.word)
                return False
        try:
            self._service = Service(self.remote, self._environ, _ANSWER_SECONDS)
        except ServiceError as error:
            self._stop(error)
        return self._service is not None

    def waiting(self) -> list[str]:
        """The files of the queue that this process has not failed to send."""
        found = uploads.pending(self._root, self.remote.identity)
        return [name for name, _ in found if name not in self._failed]

    def _send_files(self, names: list[str], tell: Tell | None) -> None:
        files = {name: uploads.read(self._root, name) for name in names}
        wanted = dict.fromkeys(item for items in files.values() for item in items)
        first = [item for item in wanted if not self._transfer.is_promise(item) and item not in self._done]
        failed = self._send_all(first, files, tell)
        whole = {name for name, items in files.items() if not failed.intersection(items)}
        promises = dict.fromkeys(
            item for name in whole for item in files[name] if self._transfer.is_promise(item)
        )
        if not self.is_spent:
            failed |= self._send_all(promises, files, tell)
        for name, items in files.items():
            left = {item: tries for item, tries in items.items() if item not in self._done}
            self._put_back(name, left, failed)
        # These change; what was queued from now on is to be sent again.
        self._done -= {item for item in self._done if self._transfer.is_promise(item)}

    def _send_all(
        self, items: Iterable[Item], files: Mapping[str, Mapping[Item, int]], tell: Tell | None
    ) -> set[Item]:
        """Send items; those that failed by themselves."""
        failed: set[Item] = set()
        everything = list(items)
        try:
            sent = parallel.each(self._send, everything, _AT_ONCE, _STALL_SECONDS, _is_of_remote)
            for item, size, error in sent:
                if error is None:
                    self._count(item, size or 0)
                    if tell:
                        tell(len(self._done), sum(map(len, files.values())))
                else:
                    self._fail(item, error, failed)
                if self.is_spent:
                    break
        except parallel.StalledError as error:
            self._stop(ServiceError("timeout", str(error)))
        return failed

    def _fail(self, item: Item, error: Exception, failed: set[Item]) -> None:
        if isinstance(error, ServiceError) and _is_of_remote(error):
            self._stop(error)
            if error.word not in _OF_EITHER:
                return
        else:
            self.state.fail("broken", f"{type(error).__name__}: {error}")
        failed.add(item)

    def _send(self, item: Item) -> int:
        assert self._service
        return self._transfer.send(item, self._service)

    def _count(self, item: Item, size: int) -> None:
        if not self._done:
            for breaker in self._breakers:
                breaker.close()
        self._done.add(item)
        self.state.sent_at = time.time()
        if size:
            self.state.sent += 1
            self.state.bytes += size
        else:
            self.state.present += 1

    def _put_back(self, name: str, left: dict[Item, int], failed: set[Item]) -> None:
        """Have a file of the queue hold what is left of it, but for what has failed too often."""
        kept = {item: tries + (item in failed) for item, tries in left.items()}
        kept = {item: tries for item, tries in kept.items() if tries < _MOST_TRIES}
        self.state.dropped += len(left) - len(kept)
        if kept:
            self._failed.add(name)
        try:
            uploads.keep(self._root, name, kept)
        except OSError:
            self._failed.add(name)  # it stays as it is, and will be sent again

    def _stop(self, fault: ServiceError) -> None:
        self.fault = fault
        self.state.fail(fault.word, str(fault))
        for_reading, for_writing = self._breakers
        for_writing.trip(fault.word, str(fault))
        if fault.word in _OF_READERS:
            for_reading.trip(fault.word, str(fault))
        if fault.word == "denied":
            self.state.refused_until = time.time() + uploads.REFUSED_SECONDS

    def _write_down(self) -> None:
        """Keep what became of it; what a remote forbids to write is not kept for it."""
        if self.fault and self.fault.word == "denied":
            for name, _ in uploads.pending(self._root, self.remote.identity):
                self.state.dropped += len(uploads.read(self._root, name))
                uploads.keep(self._root, name, {})
        uploads.write_state(self._root, self.remote.identity, self._before.then(self.state))


def _is_of_remote(error: Exception) -> bool:
    return isinstance(error, ServiceError) and error.word not in _OF_ITEM


def serve(
    root: Directory,
    remotes: Iterable[Remote],
    transfer: Transfer,
    environ: Mapping[str, str],
    log_path: str = "",
) -> None:
    """Send what is queued for remotes that are written to, and what is queued meanwhile."""
    until = time.monotonic() + _LIFE_SECONDS
    for remote in remotes:
        while remote.is_writable and time.monotonic() < until:
            with uploads.sending(root, remote.identity, _LOCK_SECONDS) as is_ours:
                if not is_ours:
                    break  # who holds it looks at the queue once more when it has let go
                sender = Sender(root, remote, transfer, environ, until)
                _send_and_linger(sender)
            _log(log_path, sender)
            if sender.is_spent or not sender.waiting():
                break


def _send_and_linger(sender: Sender) -> None:
    """Send until nothing was queued for a moment: a build's next call then needs no process of its own."""
    while not sender.is_spent:
        sender.drain()
        quiet_until = time.monotonic() + _LINGER_SECONDS
        while not sender.waiting() and time.monotonic() < quiet_until:
            time.sleep(_POLL_SECONDS)
        if not sender.waiting():
            return


def _log(log_path: str, sender: Sender) -> None:
    state = sender.state
    if not (state.sent or state.dropped or state.word):
        return
    words = f"sent {state.sent} objects, {state.bytes} bytes, to `{sender.remote.shown}`"
    fault = f"; {state.word}: {state.text}" if state.word else ""
    dropped = f"; gave up {state.dropped}" if state.dropped else ""
    log.write(log_path, words + dropped + fault)

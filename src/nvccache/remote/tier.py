"""Queries remotes in order, for each object only once, and within one time limit for all waits of a call.

The queries run on a few threads, which also open and check the envelopes. If a query fails, the object counts
as absent, this call does not use the remote again, and other processes skip it for a while (outages.py).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from nvccache.remote import envelope, outages
from nvccache.remote.backend import Backend, BackendError, connect
from nvccache.remote_url import Remote

_THREADS = 8
# A request: bucket, key, the maximum size of the body in bytes, and the number of the first remote to query.
Name = tuple[str, str, int, int]


class _Client:
    """One remote, and what this call knows about it."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.backend: Backend | None = None
        self.connecting = threading.Lock()
        self.has_answered = False
        # A word of outcomes.REMOTE_FAULTS, or empty. After a fault, the remote is no longer used.
        self.fault = "left_alone" if outages.current(remote.identity) else ""


class Tier:
    """The remotes of one call. Thread-safe; raises nothing. Logs a sentence for each remote that fails."""

    def __init__(
        self,
        remotes: list[Remote],
        environ: Mapping[str, str],
        seconds: float,
        log: Callable[[str], None] = lambda sentence: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.asked = self.found = self.bytes_in = 0  # objects queried and found, and bytes received
        self.waited = 0.0  # the seconds during which at least one thread waited
        self._clients = [_Client(each) for each in remotes]
        self.faults = dict.fromkeys(each.fault for each in self._clients if each.fault)  # words, in order
        self._environ = environ
        self._limit = seconds
        self._log = log
        self._clock = clock
        self._changed = threading.Condition()
        self._is_closed = False
        self._answers: dict[Name, tuple[bytes, int] | None] = {}  # a body, and the number of its remote
        self._tried: dict[Name, _Client] = {}  # the remote that is queried for each name
        self._waiting = 0  # threads
        self._since = 0.0  # when the first waiting thread began to wait
        self._work: queue.SimpleQueue[Name] = queue.SimpleQueue()
        self._threads = 0

    def prefetch(self, wanted: Iterable[tuple[str, str, int]]) -> None:
        """Start to fetch objects, each given as (bucket, key, maximum size in bytes); returns at once."""
        for bucket, key, most in wanted:
            self._request((bucket, key, most, 0))

    def each(self, bucket: str, key: str, most: int) -> Iterator[bytes]:
        """The body of this object on each remote that has it, in the order of the remotes."""
        number = 0
        while number < len(self._clients) and (answer := self._answer((bucket, key, most, number))):
            yield answer[0]
            number = answer[1] + 1

    def note_broken(self) -> None:
        """Record that a remote's answer cannot be used."""
        self.faults["broken"] = None

    def close(self) -> None:
        """Send no more requests, and end all waits, even those in progress."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _request(self, name: Name) -> None:
        with self._changed:
            if name in self._answers or name in self._tried:
                return
            usable = [each for each in self._clients[name[3] :] if not each.fault]
            if not usable or self._is_closed or self.waited >= self._limit or not self._has_thread():
                self._answers[name] = None
                return
            self._tried[name] = usable[0]
            self.asked += name[3] == 0
        self._work.put(name)

    def _has_thread(self) -> bool:
        """Start a thread for a new request unless there are enough; returns False if no thread is running."""
        if self._threads < _THREADS:
            try:
                # A daemon thread: if a server hangs, the thread must not keep the process from ending.
                threading.Thread(target=self._serve, daemon=True).start()
                self._threads += 1
            except RuntimeError:
                pass
        return self._threads > 0

    def _serve(self) -> None:
        while True:
            name = self._work.get()
            answer = self._look_up(name)
            with self._changed:
                self._answers[name] = answer
                self._changed.notify_all()

    def _look_up(self, name: Name) -> tuple[bytes, int] | None:
        bucket, key, most, start = name
        for number, client in enumerate(self._clients[start:], start):
            if self._is_closed:
                break
            if client.fault:
                continue
            self._tried[name] = client
            try:
                content = self._fetch(client, envelope.name_of(bucket, key), envelope.max_sealed_size(most))
                if content is not None:
                    body = envelope.unseal(content, bucket, key, most)
                    with self._changed:
                        self.found += 1
                        self.bytes_in += len(content)
                    return body, number
            except BackendError as error:
                self._note_fault(client, error)
            except ValueError:
                self.note_broken()
        return None

    def _fetch(self, client: _Client, name: str, most: int) -> bytes | None:
        """Raises BackendError."""
        try:
            with client.connecting:
                client.backend = client.backend or connect(client.remote, self._environ, self._limit)
            content = client.backend.get(name, most)
        except BackendError:
            raise
        except BaseException as error:  # a panic in opendal is not an Exception
            raise BackendError("broken", type(error).__name__) from None
        client.has_answered = True
        return content

    def _answer(self, name: Name) -> tuple[bytes, int] | None:
        """Wait for an answer. If time is up and the remote has not answered any request, it has a fault."""
        self._request(name)
        with self._changed:
            if not self._waiting:
                self._since = self._clock()
            self._waiting += 1
            try:
                until = self._since + self._limit - self.waited
                while name not in self._answers and not self._is_closed and self._clock() < until:
                    self._changed.wait(until - self._clock())
            finally:
                self._waiting -= 1
                if not self._waiting:
                    self.waited += self._clock() - self._since
            if name in self._answers or self._is_closed:
                return self._answers.get(name)
            late = self._tried[name]
        if not late.has_answered:
            self._note_fault(late, BackendError("timeout"))
        return None

    def _note_fault(self, client: _Client, error: BackendError) -> None:
        with self._changed:
            if client.fault:
                return
            self.faults[error.word] = None
            if error.is_lasting:
                outages.begin(client.remote.identity, error.word, error.text)
            self._log(f"`{client.remote.shown}` is not used: {error.text}")
            client.fault = error.word  # set last: the process may end as soon as another thread sees it

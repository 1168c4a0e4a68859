"""Queries the remotes of a call, within one time budget, and each name only once.

All remotes are queried at once, on threads: in sequence, a name that none has would cost the sum of their
latencies instead of the longest, and a remote that hangs would hide those after it. The first usable answer
wins. Envelopes are opened and checked on these threads.

A failure counts as an absent name and as a fault, and opens the remote's breaker (breaker.py).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from nvccache.remote import envelope
from nvccache.remote.breaker import Breaker
from nvccache.remote.kinds import connect
from nvccache.remote.service import Service, ServiceError, opens_breaker
from nvccache.remote_url import Remote

_THREADS = 8  # per remote, so that one that hangs does not block others
_GARBAGE = 3  # unusable answers without a usable one, after which the breaker opens
# The answers so far to one name: a body, or None if absent or failed.
Answers = dict["RemoteClient", bytes | None]


class Budget:
    """How long a call may still wait for remotes. Its threads share it and hold the condition's lock.

    Only time spent waiting counts, and only once if several threads wait.
    """

    def __init__(self, changed: threading.Condition, seconds: float) -> None:
        self._changed = changed
        self._seconds = seconds
        self._waiting = 0  # threads
        self._since = 0.0  # when the first of them began
        self._waited = 0.0  # seconds, before that

    @property
    def waited(self) -> float:
        """Seconds in which at least one thread waited."""
        with self._changed:
            return self._waited + (time.monotonic() - self._since if self._waiting else 0.0)

    @property
    def left(self) -> float:
        return max(0.0, self._seconds - self.waited)

    def wait(self, until: Callable[[], bool]) -> bool:
        """Wait for a condition; False if the time runs out first."""
        if until():
            return True
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1
        try:
            return self._changed.wait_for(until, self.left)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._waited += time.monotonic() - self._since


class Pool:
    """At most `most` threads, started on demand. They are daemons, so one that hangs does not block exit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._threads = 0
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def start(self, work: Callable[[], None]) -> bool:
        """Queue `work`, which must not raise; False if this process cannot start any thread."""
        with self._lock:
            if self._threads < self._most:
                try:
                    threading.Thread(target=self._serve, name="nvccache-remote", daemon=True).start()
                    self._threads += 1
                except RuntimeError:
                    if not self._threads:
                        return False
        self._work.put(work)
        return True

    def _serve(self) -> None:
        while True:
            self._work.get()()


class RemoteClient:
    """One remote, with its connections and what they cost."""

    def __init__(
        self,
        remote: Remote,
        environ: Mapping[str, str],
        timeout: float,
        log: Callable[[str], None],
    ) -> None:
        self.shown = remote.shown  # the URL without credentials
        self.requested = 0  # names
        self.found = 0
        self.bytes_in = 0
        self.faults: dict[str, int] = {}  # word of outcomes.REMOTE_FAULTS -> how often
        self.pool = Pool(_THREADS)
        self.is_skipped: bool | None = None  # None until the breaker has been checked
        self.has_answered = False
        self._remote = remote
        self._environ = environ
        self._timeout = timeout
        self._breaker = Breaker(remote.identity)
        self._log = log
        self._service: Service | None = None
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._garbage = 0

    def is_available(self) -> bool:
        if self.is_skipped is None:
            self.is_skipped = not self._breaker.may_request()
            outage = self._breaker.outage()
            if self.is_skipped and outage:
                self._count("left_alone")
                until = time.strftime("%H:%M:%S", time.localtime(outage.until))
                self._log(f"`{self.shown}` is skipped until {until}: {outage.text}")
        return not self.is_skipped

    def fetch(self, bucket: str, key: str, most: int) -> bytes | None:
        """The body under a key, or None; blocks."""
        if self.is_skipped:
            return None
        name = envelope.name_of(bucket, key)
        try:
            with self._making:
                if self._service is None:
                    self._service = connect(self._remote, self._environ, self._timeout)
            content = self._service.get(name, envelope.max_sealed_size(most))
            body = None if content is None else envelope.unseal(content, bucket, key, most)
            self._note_answer(content)
            return body
        except ServiceError as error:
            self.note_fault(error)
        except ValueError as error:
            self._note_garbage(str(error))
        except BaseException as error:  # a panic in opendal is not an Exception
            self.note_fault(ServiceError("broken", type(error).__name__))
        return None

    def _note_answer(self, content: bytes | None) -> None:
        with self._lock:
            is_first = not self.has_answered
            self.has_answered = True
            self.found += content is not None
            self.bytes_in += len(content or b"")
        if is_first:
            self._breaker.close()

    def _note_garbage(self, why: str) -> None:
        """One entry may be damaged; a server with only unusable answers is not a cache."""
        self.note_rejection()
        self._garbage += 1
        if self._garbage >= _GARBAGE and not self.has_answered:
            self.note_fault(ServiceError("broken", why))

    def note_rejection(self) -> None:
        with self._lock:
            self._count("broken")

    def note_fault(self, error: ServiceError) -> None:
        """Skip the remote from now on; if the remote is at fault, all processes do."""
        with self._lock:
            if self.is_skipped:
                return
            self._count(error.word)
            if opens_breaker(error):
                seconds = self._breaker.trip(error.word, error.text).until - time.time()
                self._log(f"`{self.shown}` is skipped for {seconds:.0f} s: {error.text}")
            else:
                self._log(f"`{self.shown}` is not used: {error.text}")
            self.is_skipped = True  # last, since the process may end as soon as another thread sees this

    def _count(self, word: str) -> None:
        self.faults[word] = self.faults.get(word, 0) + 1


class Tier:
    """Thread-safe; raises nothing. `log` gets a sentence about each remote that is skipped."""

    def __init__(
        self,
        remotes: list[Remote],
        environ: Mapping[str, str],
        timeout: float,
        log: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._changed = threading.Condition()
        self._budget = Budget(self._changed, timeout)
        self._is_closed = False
        self._answers: dict[tuple[str, str], Answers] = {}  # by bucket and key
        self.remotes = [RemoteClient(each, environ, timeout, log) for each in remotes]

    @property
    def waited(self) -> float:
        """Seconds that the call has waited for remotes."""
        return self._budget.waited

    def prefetch(self, wanted: Iterable[tuple[str, str, int]]) -> None:
        """Start fetching (bucket, key, most bytes of the body); returns at once."""
        for bucket, key, most in wanted:
            self._request(bucket, key, most)

    def get(self, bucket: str, key: str, most: int) -> bytes | None:
        """The body under a key; None if no remote has it, or none answers in time."""
        return next(self.each(bucket, key, most), None)

    def each(self, bucket: str, key: str, most: int) -> Iterator[bytes]:
        """The bodies of all remotes that have the key, as they arrive."""
        answers = self._request(bucket, key, most)
        given: set[RemoteClient] = set()
        while True:
            self._wait(answers, lambda: len(answers) > len(given))
            with self._changed:
                new = {remote: answer for remote, answer in answers.items() if remote not in given}
            if not new:
                return
            given.update(new)
            yield from [body for body in new.values() if body is not None and len(body) <= most]

    def reject(self, bucket: str, key: str, body: bytes) -> None:
        """Treat a body as absent on the remotes that sent it: it turned out to be unusable."""
        with self._changed:
            answers = self._answers[bucket, key]
            for remote in [remote for remote, answer in answers.items() if answer == body]:
                answers[remote] = None
                remote.note_rejection()

    def close(self) -> None:
        """Send no more requests, and end all waits, including those in progress."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _request(self, bucket: str, key: str, most: int) -> Answers:
        """Request a name from all remotes, unless already done."""
        with self._changed:
            answers = self._answers.get((bucket, key))
            if answers is not None:
                return answers
            answers = self._answers[bucket, key] = {}
            for remote in self.remotes:
                if not (self._budget.left and not self._is_closed and remote.is_available()):
                    answers[remote] = None
                    continue
                remote.requested += 1
                if not remote.pool.start(partial(self._fetch_from, answers, remote, bucket, key, most)):
                    answers[remote] = None
        return answers

    def _fetch_from(self, answers: Answers, remote: RemoteClient, bucket: str, key: str, most: int) -> None:
        answer = None if self._is_closed else remote.fetch(bucket, key, most)
        with self._changed:
            answers[remote] = answer
            self._changed.notify_all()

    def _wait(self, answers: Answers, until: Callable[[], bool]) -> None:
        """Wait for an answer; if the time runs out, skip remotes that have not answered at all."""
        with self._changed:
            if self._budget.wait(lambda: self._is_closed or len(answers) == len(self.remotes) or until()):
                return
            late = [remote for remote in self.remotes if remote not in answers]
        for remote in late:
            if not remote.has_answered:
                remote.note_fault(ServiceError("timeout"))

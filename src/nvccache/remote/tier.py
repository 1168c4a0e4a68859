"""The remotes of a call, as the store asks them: within one limit of time, each name once.

All remotes are asked for a name at once, on threads: one after the other, a name that is nowhere would cost
the sum of their distances instead of the longest, and one that hangs would hide those behind it. The first
usable answer counts. An answer is unsealed on its thread: only what was asked for gets out of here.

Whatever goes wrong is an absent name, a fault that is counted, and an outage of that remote (breaker.py).
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
from nvccache.remote.service import OwnLimitError, Service, ServiceError
from nvccache.remote_url import Remote

_THREADS = 8  # for each remote, so that one that hangs does not keep those of others
_GARBAGE = 3  # unusable answers without a usable one, after which a remote is left alone
# To one name, as far as there are any: a body, or None for absent, whatever the reason.
Answers = dict["RemoteInUse", bytes | None]


class Budget:
    """How long a call may still wait for remotes; shared by its threads, which hold the condition's lock.

    Only time in which the call really waits counts, and once where several of its threads wait.
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
        """Wait until something holds; False if the time is over before."""
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
    """At most `most` threads, started as there is work. They are daemons: one that hangs keeps no process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._threads = 0
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def start(self, work: Callable[[], None]) -> bool:
        """Have something done, which must not raise; False where this process gets no thread for it."""
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


class RemoteInUse:
    """One remote in use, and what came of it."""

    def __init__(
        self,
        remote: Remote,
        environ: Mapping[str, str],
        timeout: float,
        log: Callable[[str], None],
    ) -> None:
        self.shown = remote.shown  # the URL without credentials
        self.asked = 0  # names
        self.found = 0
        self.bytes_in = 0
        self.faults: dict[str, int] = {}  # word of outcomes.REMOTE_FAULTS -> how often
        self.pool = Pool(_THREADS)
        self.is_out: bool | None = None  # None before the breaker was asked
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

    def may_be_asked(self) -> bool:
        if self.is_out is None:
            self.is_out = not self._breaker.may_ask()
            outage = self._breaker.outage()
            if self.is_out and outage:
                self._count("left_alone")
                until = time.strftime("%H:%M:%S", time.localtime(outage.until))
                self._log(f"`{self.shown}` is left alone until {until}: {outage.text}")
        return not self.is_out

    def answer(self, bucket: str, key: str, most: int) -> bytes | None:
        """The body that the remote has, waited for."""
        if self.is_out:
            return None
        name = envelope.name_of(bucket, key)
        try:
            with self._making:
                if self._service is None:
                    self._service = connect(self._remote, self._environ, self._timeout)
            content = self._service.get(name, envelope.most_sealed(most))
            body = None if content is None else envelope.unseal(content, bucket, key, most)
            self._note_answer(content)
            return body
        except ServiceError as error:
            self.note_fault(error)
        except ValueError as error:
            self._note_garbage(str(error))
        except BaseException as error:  # what panics in opendal is no Exception; a remote never fails a call
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
        """One entry may be broken; a server of which nothing can be used is no cache at all."""
        self.note_refusal()
        self._garbage += 1
        if self._garbage >= _GARBAGE and not self.has_answered:
            self.note_fault(ServiceError("broken", why))

    def note_refusal(self) -> None:
        """An answer was unusable."""
        with self._lock:
            self._count("broken")

    def note_fault(self, error: ServiceError) -> None:
        """Leave the remote alone from now on; if the remote is at fault, all processes do."""
        with self._lock:
            if self.is_out:
                return
            self._count(error.word)
            if error.word == "not_installed" or isinstance(error, OwnLimitError):
                self._log(f"`{self.shown}` is not used: {error.text}")
            else:
                seconds = self._breaker.trip(error.word, error.text).until - time.time()
                self._log(f"`{self.shown}` is left alone for {seconds:.0f} s: {error.text}")
            self.is_out = True  # at last: a thread that finds it out may end the process at once

    def _count(self, word: str) -> None:
        self.faults[word] = self.faults.get(word, 0) + 1


class Tier:
    """Thread-safe; raises nothing. `log` gets a sentence about each remote that is left alone."""

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
        self._asked: dict[tuple[str, str], Answers] = {}  # by bucket and key
        self.remotes = [RemoteInUse(each, environ, timeout, log) for each in remotes]

    @property
    def waited(self) -> float:
        """Seconds for which the call has waited for remotes."""
        return self._budget.waited

    def prefetch(self, wanted: Iterable[tuple[str, str, int]]) -> None:
        """Start to fetch names (bucket, key, most bytes of the body); returns at once."""
        for bucket, key, most in wanted:
            self._ask(bucket, key, most)

    def get(self, bucket: str, key: str, most: int) -> bytes | None:
        """The body that was put under a key; None where no remote has it, or none answers in time."""
        return next(self.each(bucket, key, most), None)

    def each(self, bucket: str, key: str, most: int) -> Iterator[bytes]:
        """What the remotes have under a key, of each that has it, as it comes."""
        answers = self._ask(bucket, key, most)
        given: set[RemoteInUse] = set()
        while True:
            self._wait(answers, lambda: len(answers) > len(given))
            with self._changed:
                new = {remote: answer for remote, answer in answers.items() if remote not in given}
            if not new:
                return
            given.update(new)
            yield from [body for body in new.values() if body is not None and len(body) <= most]

    def refuse(self, bucket: str, key: str, body: bytes) -> None:
        """What came under a key is unusable after all: the remote that sent it has it no more."""
        with self._changed:
            answers = self._asked[bucket, key]
            for remote in [remote for remote, answer in answers.items() if answer == body]:
                answers[remote] = None
                remote.note_refusal()

    def close(self) -> None:
        """Ask no more, and wait no more for what is on its way, also where a thread waits already."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _ask(self, bucket: str, key: str, most: int) -> Answers:
        """Ask for a name, unless it has been asked for."""
        with self._changed:
            answers = self._asked.get((bucket, key))
            if answers is not None:
                return answers
            answers = self._asked[bucket, key] = {}
            for remote in self.remotes:
                if not (self._budget.left and not self._is_closed and remote.may_be_asked()):
                    answers[remote] = None
                    continue
                remote.asked += 1
                if not remote.pool.start(partial(self._have_answered, answers, remote, bucket, key, most)):
                    answers[remote] = None
        return answers

    def _have_answered(self, answers: Answers, remote: RemoteInUse, bucket: str, key: str, most: int) -> None:
        answer = None if self._is_closed else remote.answer(bucket, key, most)
        with self._changed:
            answers[remote] = answer
            self._changed.notify_all()

    def _wait(self, answers: Answers, until: Callable[[], bool]) -> None:
        """Wait for an answer; remotes that have given none at all when the time is over are left alone."""
        with self._changed:
            if self._budget.wait(lambda: self._is_closed or len(answers) == len(self.remotes) or until()):
                return
            late = [remote for remote in self.remotes if remote not in answers]
        for remote in late:
            if not remote.has_answered:
                remote.note_fault(ServiceError("timeout"))

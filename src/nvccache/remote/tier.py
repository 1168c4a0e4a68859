"""The remotes of a call, as the store asks them: within one budget of waiting, each name once.

All remotes are asked for a name at once, on threads of their own: one after the other, a name that is
nowhere would cost the sum of their distances instead of the longest, and one that hangs would hide those
behind it. Of those that have it the first in order is believed; one further back only after a moment in which
the first has said nothing. What comes is unsealed on the thread: nobody is given what was not asked for.

Whatever goes wrong is an absent name here, a fault in `counts`, and an outage of that remote (breaker.py).
"""

from __future__ import annotations

import threading
import time

from nvccache.remote import envelope
from nvccache.remote.breaker import Breaker
from nvccache.remote.deadline import Budget, Pool
from nvccache.remote.service import Service, ServiceError
from nvccache.remote.service_error import OwnLimitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from nvccache.config import Config
    from nvccache.remote_url import Remote

_THREADS = 8  # in all
_MOMENT = 0.1  # seconds for which a remote is waited for that comes before one that has answered
_NOTHING = 0.001  # seconds
_GARBAGE = 3  # answers that cannot be used, and none that can, after which a remote is left alone


class Counts:
    """What one remote was asked for and what came of it, for the event log."""

    __slots__ = ("asked", "bytes_in", "faults", "found", "shown")

    def __init__(self, shown: str) -> None:
        self.shown = shown  # the URL without credentials
        self.asked = 0
        self.found = 0
        self.bytes_in = 0
        self.faults: dict[str, int] = {}  # word of outcomes.REMOTE_FAULTS -> how often


class _Lookup:
    """One name: what each remote has said of it, once it has."""

    __slots__ = ("answers", "is_heard")

    def __init__(self, remotes: int) -> None:
        self.answers: list[bytes | bool | None] = [None] * remotes
        self.is_heard = [False] * remotes

    def best(self) -> bytes | bool | None:
        """The answer of the first that has it."""
        return next((answer for answer in self.answers if answer not in (None, False)), None)

    def is_any_heard_but(self, known: set[int]) -> bool:
        """Whether there is more to be known than of these remotes, or nothing more to come."""
        return sum(self.is_heard) > len(known) or all(self.is_heard)

    @property
    def is_settled(self) -> bool:
        """Whether nothing that is still to come could be better."""
        for answer, is_heard in zip(self.answers, self.is_heard, strict=True):
            if not is_heard:
                return False
            if answer not in (None, False):
                return True
        return True


class _Source:
    """One remote in use."""

    def __init__(
        self,
        remote: Remote,
        environ: Mapping[str, str],
        timeout: float,
        breaker: Breaker,
        say: Callable[[str], None] | None,
    ) -> None:
        self.remote = remote
        self.breaker = breaker
        self.counts = Counts(remote.shown)
        self._say = say
        self._environ = environ
        self._timeout = timeout
        self._service: Service | None = None
        self._lock = threading.Lock()
        self.is_out: bool | None = None  # None: nobody has looked
        self.has_answered = False
        self.garbage = 0

    def may_be_asked(self) -> bool:
        if self.is_out is None:
            self.is_out = not self.breaker.may_ask()
            if self.is_out:
                self._note_outage()
        return not self.is_out

    def _note_outage(self) -> None:
        """Say why this call does without, too, and not only the one that has met the fault."""
        outage = self.breaker.outage()
        if outage is None:
            return  # another process has just ended it
        with self._lock:
            self._count("left_alone")
        until = time.strftime("%H:%M:%S", time.localtime(outage.until))
        self._tell(f"`{self.remote.shown}` is left alone until {until}: {outage.text}")

    def _made(self) -> Service:
        with self._lock:
            if self._service is None:
                self._service = Service(self.remote, self._environ, self._timeout)
            return self._service

    def answer(self, bucket: str, key: str, most: int | None) -> bytes | bool | None:
        """What one remote says, on a thread of its pool."""
        name = envelope.name_of(bucket, key)
        try:
            if most is None:
                is_there = self._made().has(name)
                self._note_answer(None, is_there)
                return is_there
            content = self._made().get(name, envelope.most_sealed(most))
        except ServiceError as error:
            self.note_fault(error)
            return None
        except BaseException as error:  # what panics in opendal is no Exception; a remote never fails a call
            self.note_fault(ServiceError("broken", type(error).__name__))
            return None
        return self._opened(content, bucket, key, most)

    def _opened(self, content: bytes | None, bucket: str, key: str, most: int) -> bytes | None:
        body = None
        if content is not None:
            try:
                body = envelope.unseal(content, bucket, key, most)
            except ValueError as error:
                self._note_garbage(str(error))
                return None
        self._note_answer(content, body is not None)
        return body

    def _note_answer(self, content: bytes | None, is_found: bool) -> None:
        with self._lock:
            is_first = not self.has_answered
            self.has_answered = True
            self.counts.found += is_found
            self.counts.bytes_in += len(content or b"")
        if is_first:
            self.breaker.close()

    def _note_garbage(self, why: str) -> None:
        """One entry may be broken; a server of which nothing can be used is no cache at all."""
        with self._lock:
            self._count("broken")
            self.garbage += 1
            is_too_much = self.garbage >= _GARBAGE and not self.has_answered
        if is_too_much:
            self._trip(ServiceError("broken", why))

    def note_refusal(self) -> None:
        """What was taken for an answer is no good."""
        with self._lock:
            self._count("broken")

    def note_fault(self, error: ServiceError) -> None:
        with self._lock:
            self._count(error.word)
        if error.word == "not_installed" or isinstance(error, OwnLimitError):
            with self._lock:
                if self.is_out:
                    return
                self.is_out = True
            self._tell(f"`{self.remote.shown}` is not used: {error.text}")
        else:
            self._trip(error)

    def _trip(self, error: ServiceError) -> None:
        # All of it under the lock: whoever finds the remote out may end the process at once.
        with self._lock:
            if self.is_out:
                return
            self.is_out = True
            outage = self.breaker.trip(error.word, error.text)
            seconds = outage.until - time.time()
            self._tell(f"`{self.remote.shown}` is left alone for {seconds:.0f} s: {error.text}")

    def _tell(self, sentence: str) -> None:
        if self._say:
            self._say(sentence)

    def _count(self, word: str) -> None:
        self.counts.faults[word] = self.counts.faults.get(word, 0) + 1


class Tier:
    """Thread-safe; raises nothing. `say` is told in a sentence of each remote that is left alone."""

    def __init__(
        self,
        remotes: list[Remote],
        environ: Mapping[str, str],
        timeout: float,
        say: Callable[[str], None] | None = None,
        directory: str | None = None,
    ) -> None:
        self.remotes = remotes
        self._budget = Budget(timeout)
        self._changed = threading.Condition()
        self._is_closed = False
        self._lookups: dict[tuple[str, str, bool], _Lookup] = {}
        breakers = [Breaker(remote.identity, directory) for remote in remotes]
        self._sources = [
            _Source(remote, environ, timeout, breaker, say)
            for remote, breaker in zip(remotes, breakers, strict=True)
        ]
        # Of its own for each, so that one that hangs does not keep the others' threads.
        self._pools = [Pool(max(2, _THREADS // len(remotes))) for _ in remotes]

    @property
    def counts(self) -> list[Counts]:
        """By remote, in their order."""
        return [source.counts for source in self._sources]

    @property
    def waited(self) -> float:
        """Seconds for which the call has waited for remotes."""
        return self._budget.waited

    @property
    def is_writable(self) -> bool:
        return any(remote.is_writable for remote in self.remotes)

    def prefetch(self, wanted: Iterable[tuple[str, str, int]]) -> None:
        """Start to fetch names (bucket, key, most bytes of the body); returns at once."""
        for bucket, key, most in wanted:
            self._look_up(bucket, key, most)

    def get(self, bucket: str, key: str, most: int) -> bytes | None:
        """The body that was put under a key; None where no remote has it, or none says so in time."""
        found = self._wait(self._look_up(bucket, key, most))
        return found if isinstance(found, bytes) and len(found) <= most else None

    def each(self, bucket: str, key: str, most: int) -> Iterator[bytes]:
        """What the remotes have under a key, of each that has it, as it comes."""
        lookup = self._look_up(bucket, key, most)
        given: set[int] = set()
        while True:
            with self._changed:
                self._budget.wait(self._changed, lambda: self._is_closed or lookup.is_any_heard_but(given))
                heard = [index for index, is_heard in enumerate(lookup.is_heard) if is_heard]
                late = [] if self._is_closed or len(heard) > len(given) else self._late(lookup)
            for index in heard:
                answer = lookup.answers[index]
                if index not in given and isinstance(answer, bytes) and len(answer) <= most:
                    yield answer
            for source in late:
                source.note_fault(ServiceError("timeout"))
            if len(heard) == len(given) or len(heard) == len(lookup.is_heard):
                return
            given.update(heard)

    def has(self, bucket: str, key: str) -> bool:
        """Whether some remote says that it has a key: what it has may still be no good."""
        with self._changed:
            fetched = self._lookups.get((bucket, key, True))
        if fetched is not None:
            return self._wait(fetched) is not None
        return bool(self._wait(self._look_up(bucket, key, None)))

    def refuse(self, bucket: str, key: str, body: bytes) -> None:
        """What came under a key is no good after all: it is absent from now on, where it came from."""
        with self._changed:
            lookup = self._lookups[bucket, key, True]
            for index, answer in enumerate(lookup.answers):
                if answer == body:
                    lookup.answers[index] = None
                    self._sources[index].note_refusal()

    def close(self) -> None:
        """Ask no more; what is on its way is not waited for, also by those who have begun to wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for pool in self._pools:
            pool.drop()

    def _look_up(self, bucket: str, key: str, most: int | None) -> _Lookup:
        """The look-up of a name, begun unless it has been; `most` is None to ask only whether it is there."""
        identity = (bucket, key, most is not None)
        with self._changed:
            lookup = self._lookups.get(identity)
            if lookup is not None:
                return lookup
            lookup = self._lookups[identity] = _Lookup(len(self._sources))
            for index, source in enumerate(self._sources):
                if self._budget.left and not self._is_closed and source.may_be_asked():
                    source.counts.asked += 1
                    asking = self._asking(lookup, index, bucket, key, most)
                    lookup.is_heard[index] = not self._pools[index].start(asking)
                else:
                    lookup.is_heard[index] = True
        return lookup

    def _asking(
        self, lookup: _Lookup, index: int, bucket: str, key: str, most: int | None
    ) -> Callable[[], None]:
        def ask() -> None:
            answer: bytes | bool | None = None
            try:
                if not self._sources[index].is_out:
                    answer = self._sources[index].answer(bucket, key, most)
            finally:
                with self._changed:
                    lookup.answers[index] = answer
                    lookup.is_heard[index] = True
                    self._changed.notify_all()

        return ask

    def _wait(self, lookup: _Lookup) -> bytes | bool | None:
        with self._changed:
            self._budget.wait(
                self._changed, lambda: self._is_closed or lookup.is_settled or lookup.best() is not None
            )
            if self._is_closed:
                return lookup.best()
            if not lookup.is_settled and lookup.best() is not None:
                self._budget.wait(self._changed, lambda: lookup.is_settled, _MOMENT)
            late = [] if lookup.is_settled else self._late(lookup)
        for source in late:
            source.note_fault(ServiceError("timeout"))
        return lookup.best()

    def _late(self, lookup: _Lookup) -> list[_Source]:
        """Those that have had their time and said nothing at all, neither of this nor of another name."""
        return [
            source
            for source, is_heard in zip(self._sources, lookup.is_heard, strict=True)
            if not is_heard and self._budget.left < _NOTHING and not source.has_answered and not source.is_out
        ]


def of(config: Config, environ: Mapping[str, str], say: Callable[[str], None] | None = None) -> Tier | None:
    """The remotes that the settings name; None where there are none."""
    from nvccache import remote_url

    remotes = remote_url.parse(config.remote)
    return Tier(remotes, environ, config.remote_timeout, say) if remotes else None

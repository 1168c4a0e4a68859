"""What has still to be sent to remotes: a queue on disk for each of them, and the start of who sends it.

    $NVCCACHE_DIR/remote/
      <remote>-<time>-<random>.queue   what one call has published: a line `<tries> <bucket> <key>` for each
      <remote>.lock                    held by who sends to that remote
      <remote>.state                   what was sent so far, and why something was not: JSON

`<remote>` is the identity of a remote, 16 hexadecimal characters that tell nothing of its credentials. A file
appears whole or not at all and is only replaced or removed by who holds the lock, so that the queue holds on
network file systems, after a kill and on a full disk. Knows nothing of how an item is sent (uploader.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from nvccache.files import flock
from nvccache.store import directory as directories
from nvccache.store import locks
from nvccache.store.directory import Directory, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nvccache.config import Config
    from nvccache.remote_url import Remote

    Item = tuple[str, str]  # bucket and key

FOLDER = "remote"
# What may lie in the folder; layout.py has the same words.
NAME = re.compile(r"[0-9a-f]{16}(?:-[0-9a-f]{16}-[0-9a-f]{8}\.queue|\.lock|\.state)")
REFUSED_SECONDS = 600.0  # for which nothing is queued for a remote that forbids writing
_PROGRAM = "nvccache.records.send_queued"
_MOST_BYTES = 32 << 20  # of queue, for each remote
_MOST_FILES = 4096
_LARGEST = 1 << 22  # bytes of what one call queues
_LARGEST_TIME = 1e15
_LARGEST_STATE = 1 << 16
_LINE = re.compile(r"(\d{1,3}) ([a-z][a-z-]{0,30}-v\d{1,4}) ([0-9a-f]{16,128})")


class State:
    """What became of uploads to one remote so far. `word` and `text` are of the last fault, `at` is when.

    `sent_at` is when something was sent last, or found to be there.
    `refused_until` is a Unix time: until then the remote forbids writing, and nothing is queued.
    """

    __slots__ = ("at", "bytes", "dropped", "present", "refused_until", "sent", "sent_at", "text", "word")

    def __init__(self) -> None:
        self.sent = 0  # objects
        self.bytes = 0
        self.present = 0  # were there already
        self.dropped = 0  # were given up
        self.word = self.text = ""
        self.at = 0.0
        self.sent_at = 0.0
        self.refused_until = 0.0

    def fail(self, word: str, text: str) -> None:
        self.word, self.text, self.at = word, text[:400], time.time()

    def then(self, later: State) -> State:
        """This and what came of more; a later fault takes the place of this one's."""
        both = State()
        for name in ("sent", "bytes", "present", "dropped"):
            setattr(both, name, getattr(self, name) + getattr(later, name))
        newest = later if later.word else self
        both.word, both.text, both.at = newest.word, newest.text, newest.at
        both.refused_until = newest.refused_until
        both.sent_at = max(self.sent_at, later.sent_at)
        return both


def send_soon(config: Config, items: Iterable[Item], environ: Mapping[str, str]) -> None:
    """Have what a call has published sent to every remote that is written to, and wait for nobody."""
    from nvccache import remote_url

    remotes = remote_url.parse(config.remote)
    root = directories.of(config)
    if enqueue(root, remotes, items):
        ensure_running(root, remotes, environ, config.log)


def enqueue(place: str | Directory, remotes: Iterable[Remote], items: Iterable[Item]) -> bool:
    """Queue what a call has published for every remote that is written to; whether anything was.

    Raises nothing: what cannot be queued is not sent, and the build is none the worse for it.
    """
    root = directories.at(place)
    content = "".join([f"0 {bucket} {key}\n" for bucket, key in dict.fromkeys(items)]).encode()
    is_any = False
    if not content or len(content) > _LARGEST:
        return False
    for remote in remotes:
        if not remote.is_writable or state_of(root, remote.identity).refused_until > time.time():
            continue
        name = f"{remote.identity}-{time.time_ns():016x}-{os.urandom(4).hex()}.queue"
        with contextlib.suppress(OSError):
            root.write(f"{FOLDER}/{name}", content)
            is_any = True
    return is_any


def ensure_running(
    place: str | Directory, remotes: Sequence[Remote], environ: Mapping[str, str], log: str = ""
) -> bool:
    """Have somebody send what is queued, unless somebody is doing so; whether an uploader was started.

    To be called after `enqueue`: an uploader looks at the queue once more when it has given up its lock.
    """
    root = directories.at(place)
    if not any(_is_free(root, remote.identity) for remote in remotes if remote.is_writable):
        return False
    from nvccache.machine import process

    path = os.path.abspath(root.path)
    # Relative to the directory of the call, which the uploader does not have.
    settings = {"NVCCACHE_DIR": path} | ({"NVCCACHE_LOG": os.path.abspath(log)} if log else {})
    return process.start_detached(_PROGRAM, [path], {**environ, **settings})


def _is_free(root: Directory, identity: str) -> bool:
    """Whether something is queued for a remote that nobody sends; the queue is kept within its bounds."""
    try:
        with sending(root, identity) as is_ours:
            if not is_ours:
                return False
            trim(root, identity)
        if _is_out(identity):
            return False
        # Not before the lock is free again: whoever queued meanwhile took us for who sends.
        return bool(pending(root, identity))
    except (OSError, StoreError):
        return False


def _is_out(identity: str) -> bool:
    """Whether the remote is left alone for now, by who reads or by who writes."""
    from nvccache.remote.breaker import Breaker

    outages = [Breaker(identity, for_writing=for_writing).outage() for for_writing in (False, True)]
    return any(outage and time.time() < outage.until for outage in outages)


@contextlib.contextmanager
def sending(root: Directory, identity: str, seconds: float = 0.0) -> Iterator[bool]:
    """Hold the lock of who sends to a remote, waited for at most so long; yields whether it is held."""
    descriptor = locks.open_to_lock(root, f"{FOLDER}/{identity}.lock")
    until = time.monotonic() + seconds
    is_ours = flock.take_or_close(descriptor)
    while not is_ours and time.monotonic() < until:
        time.sleep(0.05)
        is_ours = flock.take_or_close(descriptor)
    try:
        yield is_ours
    finally:
        if is_ours:
            flock.let_go(descriptor)
        else:
            os.close(descriptor)


def pending(place: str | Directory, identity: str = "") -> list[tuple[str, int]]:
    """The queued files of one remote, or of all, oldest first, and their sizes; raises OSError."""
    try:
        found = directories.at(place).list(FOLDER)
    except FileNotFoundError:
        return []
    head = f"{identity}-" if identity else ""
    names = [
        (name, status.st_size)
        for name, status in found
        if name.startswith(head) and name.endswith(".queue") and NAME.fullmatch(name)
    ]
    return sorted(names, key=lambda each: each[0].partition("-")[2])


def read(root: Directory, name: str) -> dict[Item, int]:
    """The items in a queued file, and how often each was tried; none where it is no file of ours.

    Raises OSError where it cannot be read now.
    """
    try:
        content, _ = root.read(f"{FOLDER}/{name}", _LARGEST)
    except (FileNotFoundError, directories.StrangeFileError):
        return {}
    lines = map(_LINE.fullmatch, content.decode(errors="replace").split("\n"))
    return {(line[2], line[3]): int(line[1]) for line in lines if line}


def keep(root: Directory, name: str, items: Mapping[Item, int]) -> None:
    """Have a queued file hold what is left of it; the lock must be held. Raises OSError."""
    path = f"{FOLDER}/{name}"
    if items:
        text = "".join([f"{min(tries, 999)} {bucket} {key}\n" for (bucket, key), tries in items.items()])
        root.write(path, text.encode())
    else:
        with contextlib.suppress(FileNotFoundError):
            root.unlink(path)


def trim(
    root: Directory, identity: str, most_bytes: int = _MOST_BYTES, most_files: int = _MOST_FILES
) -> None:
    """Drop the oldest of what is queued beyond the bounds, and count it; the lock must be held."""
    found = pending(root, identity)
    size = sum(each for _, each in found)
    dropped = 0
    while found and (size > most_bytes or len(found) > most_files):
        name, its_size = found.pop(0)
        dropped += len(read(root, name))
        keep(root, name, {})
        size -= its_size
    if dropped:
        state = state_of(root, identity)
        state.dropped += dropped
        write_state(root, identity, state)


def state_of(root: Directory, identity: str) -> State:
    """What became of uploads to a remote; nothing, if that cannot be read."""
    state = State()
    try:
        content, _ = root.read(f"{FOLDER}/{identity}.state", _LARGEST_STATE)
    except OSError:
        return state
    import json

    try:
        found = json.loads(content)
        for name in ("sent", "bytes", "present", "dropped"):
            setattr(state, name, max(0, int(found[name])))
        state.word, state.text = str(found["word"])[:40], str(found["text"])[:400]
        state.at, state.refused_until = _time(found["at"]), _time(found["refused_until"])
        state.sent_at = _time(found.get("sent_at", 0.0))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return State()
    now = time.time()
    # Whoever may write here must not stop uploads for good, nor keep what goes wrong from being told.
    state.refused_until = min(state.refused_until, now + REFUSED_SECONDS)
    state.at, state.sent_at = min(state.at, now), min(state.sent_at, now)
    return state


def _time(value: float) -> float:
    """A Unix time; raises ValueError for what is none, such as nan."""
    if not 0 <= float(value) < _LARGEST_TIME:
        raise ValueError(value)
    return float(value)


def end_refusal(root: Directory, identity: str) -> None:
    """Have calls queue again for a remote that has forbidden writing, and permits it now."""
    if not state_of(root, identity).refused_until:
        return
    with contextlib.suppress(OSError, StoreError), sending(root, identity) as is_ours:
        if is_ours:
            state = state_of(root, identity)
            state.refused_until = 0.0
            write_state(root, identity, state)


def summary(place: str | Directory) -> dict[str, int]:
    """What is still to be sent from a cache, and what became of the rest, for all remotes together."""
    root = directories.at(place)
    made = {"pending": 0, "sent": 0, "bytes": 0, "present": 0, "dropped": 0}
    try:
        names = [name for name, _ in root.list(FOLDER) if NAME.fullmatch(name)]
    except (OSError, StoreError):
        return made
    for name in names:
        if name.endswith(".state"):
            state = state_of(root, name.partition(".")[0])
            for count in ("sent", "bytes", "present", "dropped"):
                made[count] += getattr(state, count)
        elif name.endswith(".queue"):
            with contextlib.suppress(OSError):
                made["pending"] += len(read(root, name))
    return made


def write_state(root: Directory, identity: str, state: State) -> None:
    """Keep what became of uploads; the lock must be held. One that cannot be written is not worth a word."""
    import json

    text = json.dumps({name: getattr(state, name) for name in State.__slots__})
    with contextlib.suppress(OSError):
        root.write(f"{FOLDER}/{identity}.state", text.encode())

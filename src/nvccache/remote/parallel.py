"""Work on many items at once, on threads that nobody waits for when they hang.

A request to a server that drips can take for ever, and a thread cannot be ended: these are daemons, and the
caller goes on without them. Knows nothing of remotes.
"""

from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class StalledError(Exception):
    """None of the items that are worked on was done within the time."""


def each(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    at_once: int,
    seconds: float,
    is_last: Callable[[Exception], bool] = lambda error: False,
) -> Iterator[tuple[Item, Result | None, Exception | None]]:
    """Each item with what `work` returned or raised, in the order in which they end.

    Raises StalledError when for `seconds` none ends. After an error that `is_last`, and when the caller stops
    iterating, nothing further begins; what has begun goes on by itself.
    """
    waiting = collections.deque(items)
    ended: queue.SimpleQueue[tuple[Item, Result | None, Exception | None]] = queue.SimpleQueue()
    count = len(waiting)

    def serve() -> None:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                ended.put((item, work(item), None))
            except Exception as error:  # whatever it is, the caller gets it
                if is_last(error):
                    waiting.clear()
                ended.put((item, None, error))

    for _ in range(min(at_once, count)):
        threading.Thread(target=serve, daemon=True).start()
    try:
        for _ in range(count):
            try:
                yield ended.get(timeout=seconds)
            except queue.Empty:
                raise StalledError(f"nothing was done for {seconds:.0f} s") from None
    finally:
        waiting.clear()

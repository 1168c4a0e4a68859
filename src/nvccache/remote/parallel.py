"""Processes many items at once on daemon threads, which the process does not wait for when it ends.

A request to a very slow server may never end, and a thread cannot be killed: the caller continues without it.
Unaware of remotes.
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
    """No item was done within the time."""


def each(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    at_once: int,
    seconds: float,
    is_last: Callable[[Exception], bool] = lambda error: False,
) -> Iterator[tuple[Item, Result | None, Exception | None]]:
    """Each item with what `work` returned or raised, in order of completion.

    Raises StalledError if none ends for `seconds`. After an error for which `is_last` is true, or when the
    caller stops iterating, no further items begin; those that have begun continue on their threads.
    """
    waiting = collections.deque(items)
    ended: queue.SimpleQueue[tuple[Item, Result | None, Exception | None]] = queue.SimpleQueue()
    count = len(waiting)

    def serve() -> None:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                ended.put((item, work(item), None))
            except Exception as error:
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

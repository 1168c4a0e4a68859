"""Work on many items at once."""

from __future__ import annotations

import threading
import time

import pytest

from nvccache.remote import parallel


def test_every_item_ends_with_its_result_or_its_error():
    def halve(number):
        if number % 2:
            raise ValueError(number)
        return number // 2

    found = list(parallel.each(halve, range(20), 4, 5.0))
    assert {item: result for item, result, error in found if not error} == {
        n: n // 2 for n in range(0, 20, 2)
    }
    assert sorted(item for item, _, error in found if isinstance(error, ValueError)) == list(range(1, 20, 2))


def test_so_many_are_worked_on_at_once():
    together = threading.Barrier(3)
    assert len(list(parallel.each(lambda _: together.wait(5), range(3), 3, 5.0))) == 3


def test_what_hangs_is_given_up():
    never = threading.Event()
    with pytest.raises(parallel.StalledError):
        list(parallel.each(lambda _: never.wait(30), range(2), 2, 0.05))
    never.set()


def test_nothing_further_begins_once_the_generator_is_closed():
    begun = []

    def work(number):
        begun.append(number)
        time.sleep(0.01)

    asked = parallel.each(work, range(1000), 2, 5.0)
    next(asked)
    asked.close()
    time.sleep(0.05)
    so_far = len(begun)
    time.sleep(0.05)
    assert len(begun) == so_far < 100

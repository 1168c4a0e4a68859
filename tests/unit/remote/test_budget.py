"""Only time that is really waited counts, once; threads are few, and none keeps a process from ending."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from nvccache.remote.tier import Budget, Pool


def budget_of(seconds):
    return Budget(threading.Condition(), seconds)


def wait(budget, seconds):
    """Wait for what holds after so many seconds."""
    condition, ready = budget._changed, threading.Event()

    def end():
        with condition:
            ready.set()
            condition.notify_all()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    with condition:
        return budget.wait(ready.is_set)


def test_what_is_waited_is_spent():
    budget = budget_of(0.5)
    assert wait(budget, 0.1)
    assert 0.05 <= budget.waited < 0.3
    assert not wait(budget, 5)
    assert 0.5 <= budget.waited < 0.8
    began = time.monotonic()
    assert not wait(budget, 5)
    assert time.monotonic() - began < 0.2


def test_time_without_waiting_is_free():
    budget = budget_of(1)
    time.sleep(0.05)
    assert budget.left == 1


def test_overlapped_waits_count_once():
    budget = budget_of(5)
    threads = [threading.Thread(target=wait, args=(budget, 0.2)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.15 <= budget.waited < 0.6


def test_a_wait_within_another_takes_nothing_from_it():
    budget = budget_of(5)
    longer = threading.Thread(target=wait, args=(budget, 0.4))
    longer.start()
    time.sleep(0.2)
    wait(budget, 0.05)
    longer.join()
    assert 0.35 <= budget.waited < 0.8


def test_what_holds_is_not_waited_for():
    assert budget_of(0).wait(lambda: True)


def test_pool_starts_no_more_threads_than_it_may():
    pool = Pool(3)
    release = threading.Event()
    running = []
    most = 0
    done = threading.Semaphore(0)

    def work():
        nonlocal most
        running.append("")
        most = max(most, len(running))
        release.wait(10)
        running.pop()
        done.release()

    for _ in range(10):
        pool.start(work)
    time.sleep(0.1)
    release.set()
    for _ in range(10):
        assert done.acquire(timeout=10)
    assert most == 3


def test_a_thread_that_hangs_keeps_no_process():
    program = "import threading; from nvccache.remote.tier import Pool; Pool(1).start(threading.Event().wait)"
    subprocess.run([sys.executable, "-c", program], timeout=20, check=True)

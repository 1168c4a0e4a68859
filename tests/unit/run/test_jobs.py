"""Threads: jobs that end and are reported, jobs that are stopped, and background work."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from nvccache.machine import process
from nvccache.run.jobs import Background, Jobs

SLEEP = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
SLEEPER = [sys.executable, "-c", SLEEP]


def wait_for_one(jobs: Jobs):
    ended = []
    while not ended:
        ended = jobs.wait(0.1)
    return ended[0]


def test_a_job_keeps_its_result_or_exception():
    jobs = Jobs()
    job = jobs.start(lambda handle: 42)
    assert wait_for_one(jobs) is job
    assert (job.result, job.error) == (42, None)
    jobs.start(lambda handle: 1 // 0)
    assert isinstance(wait_for_one(jobs).error, ZeroDivisionError)


def test_jobs_run_at_the_same_time():
    jobs = Jobs()
    both = threading.Barrier(2, timeout=30)
    for _ in range(2):
        jobs.start(lambda handle: both.wait())
    ended = []
    while len(ended) < 2:
        ended += jobs.wait(0.1)
    assert {job.error for job in ended} == {None}


def test_an_ended_job_ends_its_tool_and_what_that_has_started():
    jobs = Jobs()
    job = jobs.start(lambda handle: process.run(SLEEPER, {}, handle=handle))
    family: list[int] = []
    while len(family) < 3:
        family = process.process_tree(process.os.getpid())
    jobs.stop(False)
    assert job.result.status < 0
    argv = ["ps", "-o", "stat=", "-p", str(family[-1])]
    left = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert left.stdout.strip()[:1] in ("", "Z")


def test_a_tool_started_after_its_job_was_ended_is_killed():
    handle = process.Handle()
    handle.end()
    assert process.run(["sleep", "600"], {"PATH": "/bin:/usr/bin"}, handle=handle).status < 0


def test_the_background_does_everything_before_it_finishes_and_can_be_used_again():
    background = Background()
    done: list[int] = []
    for number in range(100):
        background.add(0, lambda number=number: done.append(number))
        if number % 40 == 0:
            background.finish()
            assert len(done) == number + 1
    background.finish()
    assert done == list(range(100))


def test_the_background_does_the_urgent_first():
    background = Background()
    gate = threading.Event()
    done: list[str] = []
    background.add(0, lambda: gate.wait(30) and None)
    background.add(1, lambda: done.append("can wait"))
    background.add(0, lambda: done.append("urgent"))
    gate.set()
    background.finish()
    assert done == ["urgent", "can wait"]


def test_the_background_drops_what_is_not_wanted_any_more():
    background = Background()
    begun, gate = threading.Event(), threading.Event()
    done: list[str] = []

    def hold() -> None:
        begun.set()
        gate.wait(30)
        done.append("begun")

    background.add(0, hold)
    background.add(0, lambda: done.append("waiting"))
    begun.wait(30)
    threading.Timer(0.2, gate.set).start()
    background.finish(is_wanted=False)
    assert done == ["begun"]


def test_the_background_goes_on_after_an_error_and_keeps_it():
    background = Background()
    done: list[str] = []
    background.add(0, lambda: 1 // 0)
    background.add(0, lambda: done.append("next"))
    background.finish()
    assert done == ["next"]
    assert [type(error) for error in background.errors] == [ZeroDivisionError]


def test_a_thread_that_cannot_be_started_is_not_waited_for(monkeypatch):
    """As under `ulimit -d`."""

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    jobs, background = Jobs(), Background()
    with pytest.raises(RuntimeError, match="new thread"):
        jobs.start(lambda handle: 1)
    assert not jobs.are_running
    jobs.stop(True)
    with pytest.raises(RuntimeError, match="new thread"):
        background.add(0, lambda: None)
    background.finish(is_wanted=False)

"""Claims on stages: one process runs, others see it, and the end of the holder frees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nvccache.files import flock
from nvccache.store import inflight
from nvccache.store.inflight import ENDED, FREE, HELD, Claim, Claims, Wait

KEY = "0123456789abcdef" * 4
HOLDER = """
import sys, time
from nvccache.store import inflight
from nvccache.store.inflight import Claims
claims = Claims(sys.argv[1])
claim = claims.take(sys.argv[2])
inflight._HEARTBEAT_SECONDS = 0.0
print("held", flush=True)
while True:
    time.sleep(0.05)
    claims.heartbeat()
"""


@pytest.fixture
def claims(tmp_path) -> Claims:
    return Claims(str(tmp_path / "cache"))


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the claim and sends heartbeats."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path / "cache"), KEY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline() == b"held\n"
        yield child
        child.kill()


def files_in(root: Path) -> list[Path]:
    return list((root / "cache" / "locks" / "running").iterdir())


def test_a_stage_is_claimed_once(claims, tmp_path):
    assert isinstance(claims.take(KEY), Claim)
    other = Claims(str(tmp_path / "cache")).take(KEY)
    assert isinstance(other, Wait)
    assert other.poll() == HELD


def test_another_stage_is_free(claims):
    assert isinstance(claims.take(KEY), Claim)
    assert isinstance(claims.take(KEY[::-1]), Claim)


def test_who_waits_learns_that_the_holder_came_to_an_end(claims, tmp_path):
    claim = claims.take(KEY)
    waiting = Claims(str(tmp_path / "cache")).take(KEY)
    claims.release(claim)
    assert waiting.poll() == ENDED
    assert files_in(tmp_path) == []


def test_a_claim_given_up_can_be_taken_again(claims):
    claims.release(claims.take(KEY))
    assert isinstance(claims.take(KEY), Claim)


def test_giving_up_all_leaves_nothing(claims, tmp_path):
    claims.take(KEY)
    claims.take(KEY[::-1])
    claims.release_all()
    assert files_in(tmp_path) == []


def test_a_killed_holder_frees_its_claim_for_one(claims, holder):
    first, second = claims.take(KEY), claims.take(KEY)
    assert first.poll() == second.poll() == HELD
    holder.kill()
    holder.wait()
    assert first.poll() == FREE
    assert second.poll() == HELD, "the first one has it now"
    first.close()
    assert second.poll() == FREE
    second.close()
    assert isinstance(claims.take(KEY), Claim)


def stop(holder: subprocess.Popen) -> None:
    holder.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)


def poll_until_free(waiting: Wait) -> None:
    tries = 1000
    while (found := waiting.poll()) == HELD and (tries := tries - 1):
        time.sleep(0.02)
    assert found == FREE


def test_a_holder_that_was_suspended_is_not_waited_for(claims, holder, monkeypatch):
    """Suspension is visible only on the same machine; holders elsewhere are waited for longer."""
    monkeypatch.setattr(claims, "patience", 1e6)
    waiting = claims.take(KEY)
    stop(holder)
    poll_until_free(waiting)


def test_one_that_shows_no_sign_of_life_is_not_waited_for(claims, holder, monkeypatch):
    monkeypatch.setattr(flock, "is_held_by_stopped", lambda descriptor: False)
    monkeypatch.setattr(claims, "patience", 0.2)
    waiting = claims.take(KEY)
    stop(holder)
    poll_until_free(waiting)


def test_who_stands_still_is_waited_for_once(claims, holder, tmp_path, monkeypatch):
    first, second = claims.take(KEY), claims.take(KEY)
    stop(holder)
    poll_until_free(first)
    assert second.poll() == FREE
    reopened = Claims(str(tmp_path / "cache"))
    assert isinstance(reopened.take(KEY), Claim)
    holder.send_signal(signal.SIGCONT)
    assert isinstance(claims.take(KEY), Wait), "there is one holder again"


def test_a_claim_that_was_passed_on_is_not_given_up_by_its_former_holder(claims, tmp_path, monkeypatch):
    monkeypatch.setattr(flock, "is_held_by_stopped", lambda descriptor: True)
    monkeypatch.setattr(inflight, "_HEARTBEAT_SECONDS", 0.0)
    former, other = Claims(str(tmp_path / "cache")), Claims(str(tmp_path / "cache"))
    claim = former.take(KEY)
    poll_until_free(claims.take(KEY))
    assert isinstance(claims.take(KEY), Claim)
    former.release(claim)
    assert isinstance(other.take(KEY), Wait)


def test_a_holder_that_goes_on_is_waited_for(claims, holder, monkeypatch):
    monkeypatch.setattr(inflight, "_STALL_SECONDS", 1.0)
    waiting = claims.take(KEY)
    for _ in range(20):
        time.sleep(0.1)
        assert not holder.poll() and waiting.poll() == HELD


def test_waiting_for_a_claim_ends(claims, holder, monkeypatch):
    monkeypatch.setattr(inflight, "_MAX_WAIT_SECONDS", 0.0)
    assert claims.take(KEY).poll() == ENDED


def test_the_stamp_moves_while_a_claim_is_held(claims, tmp_path, monkeypatch):
    monkeypatch.setattr(inflight, "_HEARTBEAT_SECONDS", 0.0)
    claims.take(KEY)
    (path,) = files_in(tmp_path)
    os.utime(path, (1, 1))
    claims.heartbeat()
    assert path.stat().st_mtime > 1


def test_a_cache_that_cannot_be_written_to_has_no_claims(tmp_path):
    (tmp_path / "cache").write_text("no directory")
    assert Claims(str(tmp_path / "cache")).take(KEY) is None


def test_a_file_left_by_a_killed_holder_is_taken_over(claims, holder, tmp_path):
    holder.kill()
    holder.wait()
    assert len(files_in(tmp_path)) == 1
    claims.release(claims.take(KEY))
    assert files_in(tmp_path) == []

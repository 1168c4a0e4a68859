"""Claims on stages: one process runs, others see it, and the end of the holder frees them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from nvccache.store.locks import ENDED, FREE, HELD, Claim, Claims, Wait

KEY = "0123456789abcdef" * 4
HOLDER = """
import sys, time
from nvccache.store.locks import Claims
claims = Claims(sys.argv[1])
claim = claims.take(sys.argv[2])
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def claims(tmp_path) -> Claims:
    return Claims(str(tmp_path / "cache"))


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the claim."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path / "cache"), KEY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline() == b"held\n"
        yield child
        child.kill()


def files_in(root: Path) -> list[Path]:
    return list((root / "cache" / "locks" / "running").iterdir())


def test_a_stage_is_claimed_once_and_who_waits_learns_that_the_holder_has_ended(claims, tmp_path):
    claim = claims.take(KEY)
    assert isinstance(claim, Claim)
    waiting = Claims(str(tmp_path / "cache")).take(KEY)
    assert isinstance(waiting, Wait)
    assert waiting.poll() == HELD
    claims.release(claim)
    assert waiting.poll() == ENDED
    assert files_in(tmp_path) == []


def test_releasing_all_claims_leaves_no_files(claims, tmp_path):
    claims.take(KEY)
    claims.take(KEY[::-1])
    claims.release_all()
    assert files_in(tmp_path) == []


def test_the_claim_of_a_killed_holder_passes_to_one_waiting_call_only(claims, holder, tmp_path):
    first, second = claims.take(KEY), claims.take(KEY)
    assert first.poll() == second.poll() == HELD
    holder.kill()
    holder.wait()
    assert first.poll() == FREE
    assert second.poll() == HELD, "the first one has it now"
    first.close()
    assert second.poll() == FREE
    second.close()
    assert len(files_in(tmp_path)) == 1
    claims.release(claims.take(KEY))  # the file that was left is taken over
    assert files_in(tmp_path) == []


def test_a_call_waits_a_minute_in_all_for_stages_of_other_processes(claims, tmp_path, monkeypatch):
    """It may be suspended, or run a tool that does not end."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    holder = Claims(str(tmp_path / "cache"))
    assert isinstance(holder.take(KEY), Claim) and isinstance(holder.take(KEY[::-1]), Claim)
    waiting = claims.take(KEY)
    now += 59
    assert waiting.poll() == HELD
    other = claims.take(KEY[::-1])
    assert other.poll() == HELD
    now += 1
    assert waiting.poll() == ENDED
    assert other.poll() == ENDED
    assert isinstance(claims.take(KEY), Wait), "it still has the claim"
    assert claims.take(KEY).poll() == ENDED


def test_releasing_a_removed_claim_leaves_the_claim_another_process_made(claims, tmp_path):
    """After a cleaning, for example."""
    claim = claims.take(KEY)
    (path,) = files_in(tmp_path)
    path.unlink()
    other = Claims(str(tmp_path / "cache"))
    assert isinstance(other.take(KEY), Claim)
    claims.release(claim)
    assert files_in(tmp_path) == [path]


def test_a_cache_that_cannot_be_written_to_has_no_claims(tmp_path):
    (tmp_path / "cache").write_text("no directory")
    assert Claims(str(tmp_path / "cache")).take(KEY) is None

"""Stages that an engine took and did not give back, counted by all calls together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvccache import endpoint
from nvccache.machine import slots
from nvccache.remote_execution import executor, faults
from nvccache.remote_execution.executor import Executor, Losses, Settings
from nvccache.store.store import Store


def test_all_calls_count_together(tmp_path: Path) -> None:
    assert Losses(str(tmp_path), "a").add() == 1
    assert Losses(str(tmp_path), "a").add() == 2
    assert Losses(str(tmp_path), "b").add() == 1
    Losses(str(tmp_path), "a").forget()
    Losses(str(tmp_path), "a").forget()
    assert Losses(str(tmp_path), "a").add() == 1


@pytest.mark.parametrize("directory", ["", "/dev/null/none"])
def test_without_a_file_a_call_counts_its_own(directory: str) -> None:
    losses = Losses(directory, "a")
    assert [losses.add(), losses.add()] == [1, 2]
    losses.forget()
    assert losses.add() == 1


def test_what_is_planted_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("content")
    (tmp_path / "executor-a.lost").symlink_to(target)
    os.mkfifo(tmp_path / "executor-b.lost")
    assert [Losses(str(tmp_path), name).add() for name in "ab"] == [1, 1]
    assert target.read_text() == "content"


@pytest.fixture
def call(tmp_path: Path, cache_dir: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Executor]:
    """The engine as a further call sees it."""
    monkeypatch.setattr(slots, "pool_directory", lambda *_: str(tmp_path))

    def call() -> Executor:
        settings = Settings(0, 0.0, "", str(tmp_path / "log"), True)
        return Executor(endpoint.parse("grpc://engine:1"), settings, Store(cache_dir), {})

    return call


def test_who_only_looks_keeps_nobody_from_trying_again(
    call: Callable[[], Executor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor.work, "reason_to_stay", lambda *_: "")
    outage = call()._breaker.trip("unreachable", "down")
    assert not call().is_in_use
    monkeypatch.setattr(time, "time", lambda: outage.until + 1)
    assert call().is_in_use
    again, other = call(), call()
    assert again.is_worth_it(None, 1.0, {})  # type: ignore[arg-type]
    assert again.is_worth_it(None, 1.0, {})  # type: ignore[arg-type]
    assert not other.is_worth_it(None, 1.0, {})  # type: ignore[arg-type]
    again.succeeded()
    assert other.is_worth_it(None, 1.0, {})  # type: ignore[arg-type]


def test_an_engine_that_loses_all_it_takes_is_left_alone(call: Callable[[], Executor]) -> None:
    for _ in range(executor._MOST_LOST - 1):
        call().lost()
        assert call().is_in_use
    call().succeeded()
    for _ in range(executor._MOST_LOST):
        last = call()
        assert last.is_in_use
        last.lost()
    assert not last.is_in_use
    assert not call().is_in_use
    outage = call()._breaker.outage()
    assert outage
    assert outage.word == faults.FAILED

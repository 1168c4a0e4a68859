"""What `doctor` says of other machines."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

from fake_engine import OTHER_VERSION, FakeEngine
from nvccache import config
from nvccache.cli import executor_checks
from nvccache.cli.finding import BAD, GOOD, ODD
from nvccache.machine import slots
from nvccache.remote.breaker import Breaker
from nvccache.remote_execution import endpoint, shipped
from nvccache.remote_execution.executor import BREAKER


@pytest.fixture(autouse=True)
def own_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots.pool_directory, "__defaults__", ((str(tmp_path),),))


def found(text: str, **variables: str) -> list[tuple[str, str]]:
    settings = config.load({"HOME": "/nowhere", "NVCCACHE_EXECUTOR": text, **variables})
    return [(finding.state, finding.text) for finding in executor_checks.of_executor(settings)]


def test_an_engine_that_answers_is_well(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path)
    ((state, text),) = found(engine.url)
    engine.stop()
    assert state == GOOD
    assert text.startswith(f"`{engine.url}` answers in ")


def test_an_engine_that_cannot_be_used_is_bad(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path, OTHER_VERSION)
    assert found(engine.url) == [(BAD, f"`{engine.url}` cannot be used: other_version")]
    engine.stop()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"grpc://127.0.0.1:{free.getsockname()[1]}"
    assert found(url) == [(BAD, f"`{url}` cannot be used: unreachable")]


def test_a_launcher_needs_a_program_and_a_directory(tmp_path: Path) -> None:
    assert found("prefix:no-such-launcher -n1")[0] == (BAD, "there is no program `no-such-launcher`")
    assert found("prefix:env")[0][0] == BAD
    (finding,) = found("prefix:env", NVCCACHE_EXECUTOR_DIR=str(tmp_path))
    assert finding == (GOOD, f"`env` starts stages, whose files lie in `{tmp_path}`")


def test_an_outage_is_told(tmp_path: Path) -> None:
    where = endpoint.parse("prefix:env")
    Breaker(BREAKER.format(where.identity)).trip("no_workers", "it waited 10 s")
    states = found("prefix:env", NVCCACHE_EXECUTOR_DIR=str(tmp_path))
    assert states[1][0] == ODD
    assert states[1][1].startswith("compiles send nothing until ")
    assert states[1][1].endswith(": no_workers")


def test_without_the_check_of_processors_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "CHECK", "/dev/null/nothing")
    assert found("prefix:no-such-launcher")[0][1].startswith("nothing is sent")


def test_nothing_is_said_where_nothing_is_set() -> None:
    assert found("") == []

"""Taking in what another machine has made of a stage, and what of it cannot be believed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hand_made_plans import CICC, COMPILE, CUDAFE, DEVICE, FATBINARY, HOST, PTXAS, planned
from nvccache import module_id as ids
from nvccache.execution import run_stage
from nvccache.execution.run_stage import Costs
from nvccache.machine.process import Handle
from nvccache.module_id import ROLE, independent
from nvccache.plan.model import Stage
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.source import Sending
from nvccache.remote_execution.work import PLACE, CameBack


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Stage]:
    """The stages whose outputs were taken in."""
    taken: list[Stage] = []
    monkeypatch.setattr(run_stage, "make_inputs", lambda call, stage: None)
    monkeypatch.setattr(run_stage, "take_in", lambda call, stage: taken.append(stage) or {})
    return taken


class OfTest(Sending):
    """Its engine gives back what it is told to."""

    def __init__(self, scratch: Path, back: CameBack, terminal: str = "") -> None:
        lines = (HOST, CUDAFE, DEVICE, CICC, PTXAS, FATBINARY, COMPILE)
        self.plan = planned(*[line.replace("/s/", f"{scratch}/") for line in lines], scratch=str(scratch))
        self._back = back
        executor = SimpleNamespace(attempt=lambda sent, handle: SimpleNamespace(run=lambda: back))
        call = SimpleNamespace(plan=self.plan, terminal=terminal)
        super().__init__(call, executor)  # type: ignore[arg-type]

    def _work(self, stage: Stage) -> None:
        return None

    def stage(self, kind: str) -> Stage:
        return next(found for found in self.plan.stages if found.kind == kind)


def back_of(stub: bytes = b"stub", ptx: bytes = b"ptx", stderr: bytes = b"") -> CameBack:
    outputs = {"a.ptx": ptx, "a.cudafe1.stub.c": stub}
    return CameBack(b"", stderr, outputs, Costs(run=3.0, send=0.1))


def test_outputs_lie_where_the_stage_would_have_written_them(tmp_path: Path, taken: list[Stage]) -> None:
    said = f'# 1 "{PLACE}/a.cudafe1.stub.c"\n'.encode()
    sending = OfTest(tmp_path, back_of(stub=said, stderr=f"{PLACE}/a.cpp1.ii: warning\n".encode()))
    stage = sending.stage("cicc")
    told: list[object] = []
    made = sending.take(stage, sending.run(stage, Handle(), told))
    assert len(told) == 1
    assert (tmp_path / "a.ptx").read_bytes() == b"ptx"
    assert (tmp_path / "a.cudafe1.stub.c").read_text() == f'# 1 "{tmp_path}/a.cudafe1.stub.c"\n'
    assert made.completed.stderr == f"{tmp_path}/a.cpp1.ii: warning\n".encode()
    assert (made.completed.status, made.completed.seconds, made.costs.send) == (0, 3.0, 0.1)
    assert taken == [stage]


def test_an_id_that_is_known_is_sent_and_not_sent_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = OfTest(tmp_path, back_of())
    plan = independent(sending.plan)
    stage = next(found for found in plan.stages if found.kind == "cicc")
    call = sending._call
    call.plan, call.environ, call.store = plan, {}, None
    call.read_by = lambda stage: list(stage.inputs)
    call.module_ids = SimpleNamespace(provide=lambda stage: True)

    def argv_to_run(call: object, stage: Stage, *, reads_id: bool) -> list[str]:
        return ids.without_generating(stage.argv) if reads_id else []

    monkeypatch.setattr(run_stage, "argv_to_run", argv_to_run)
    monkeypatch.setattr("nvccache.plan.stage_key.loaded_by", lambda *_: [])
    monkeypatch.setattr("nvccache.remote_execution.shipped.of_tool", lambda *_: None)
    work = Sending._work(sending, stage)
    own = stage.output(ROLE).path.removeprefix(f"{tmp_path}/")
    assert own in work.inputs and own not in work.outputs
    assert ids.GENERATE_OPTION not in work.arguments
    sending.take(stage, sending.run(stage, Handle(), []))
    assert (tmp_path / "a.ptx").read_bytes() == b"ptx"


def test_a_result_that_tells_where_it_was_made_is_not_believed(tmp_path: Path) -> None:
    sending = OfTest(tmp_path, back_of(ptx=f".file {PLACE}/a".encode()))
    with pytest.raises(AwayError) as caught:
        sending.run(sending.stage("cicc"), Handle(), [])
    assert caught.value.word == faults.FAILED


def test_what_would_be_said_on_a_terminal_is_said_by_a_run_here(tmp_path: Path) -> None:
    sending = OfTest(tmp_path, back_of(stderr=b"warning\n"), terminal="80")
    with pytest.raises(AwayError):
        sending.run(sending.stage("cicc"), Handle(), [])
    silent = OfTest(tmp_path, back_of(), terminal="80")
    assert silent.run(silent.stage("cicc"), Handle(), [])


@pytest.mark.parametrize(("takes_seed", "expected"), [(True, 9.0), (False, 0.0)])
def test_an_id_that_is_made_of_the_process_is_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes_seed: bool, expected: float
) -> None:
    """As by a cicc of CUDA 11, to which no seed can be given."""
    monkeypatch.setattr("nvccache.module_id.generates", lambda stage: stage.kind == "cicc")
    sending = OfTest(tmp_path, back_of())
    call, executor = sending._call, sending.executor
    call.module_ids = SimpleNamespace(takes_seed=lambda stage: takes_seed, known_for=lambda stage: ())
    call.cwd, call.environ, call.input_bytes = "/work", {}, lambda stage: 1
    executor.is_in_use, executor.expected = True, lambda *_: 9.0
    executor.is_worth_it = lambda *_: True
    assert sending.expected_seconds(sending.stage("cicc")) == expected
    assert sending.expected_seconds(sending.stage("ptxas")) == 9.0

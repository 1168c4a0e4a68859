"""What is sent, which results cannot be trusted, and when an engine is not used."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hand_made_plans import CICC, COMPILE, CUDAFE, DEVICE, FATBINARY, HOST, PTXAS, planned
from nvccache import config, endpoint
from nvccache.remote_execution import faults, work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.source import Executor
from nvccache.remote_execution.work import SCRATCH_NAME, RemoteResult
from nvccache.run import run_stage
from nvccache.run.stage_run import Costs


class OfTest(Executor):
    """The executor of a call with a plan of seven stages, in a scratch directory."""

    def __init__(self, scratch, cache, **of_call):
        lines = (HOST, CUDAFE, DEVICE, CICC, PTXAS, FATBINARY, COMPILE)
        plan = planned(*[line.replace("/s/", f"{scratch}/") for line in lines], scratch=str(scratch))
        self.call = SimpleNamespace(
            plan=plan, cwd="/work", environ={}, store=cache, input_bytes=lambda stage: 4 << 20,
            read_by=lambda stage: [*stage.inputs]
        )  # fmt: skip
        vars(self.call).update(of_call)
        variables = {"HOME": "/", "NVCCACHE_LOG": f"{scratch}/log", "NVCCACHE_EXECUTOR_JOBS": "2"}
        super().__init__(self.call, endpoint.parse("grpc://engine:1"), config.load(variables))

    def stage(self, kind):
        return next(found for found in self.call.plan.stages if found.kind == kind)


@pytest.fixture
def call(tmp_path, cache):
    """The engine as a further call sees it."""
    return lambda **of_call: OfTest(tmp_path, cache, **of_call)


def back_of(stub=b"stub", ptx=b"ptx", stderr=b""):
    outputs = {"a.ptx": ptx, "a.cudafe1.stub.c": stub}
    return RemoteResult(b"", stderr, outputs, Costs(run=3.0, send=0.1))


def test_outputs_lie_where_the_stage_would_have_written_them(tmp_path, call, monkeypatch):
    taken = []
    monkeypatch.setattr(run_stage, "take_in", lambda call, stage: taken.append(stage) or {})
    text = f'# 1 "{SCRATCH_NAME}/a.cudafe1.stub.c"\n'.encode()
    back, here = back_of(stub=text, stderr=f"{SCRATCH_NAME}/a.cpp1.ii: warning\n".encode()), call()
    stage = here.stage("cicc")
    made = here.take(stage, here.checked(stage, back))
    assert (tmp_path / "a.ptx").read_bytes() == b"ptx"
    assert (tmp_path / "a.cudafe1.stub.c").read_text() == f'# 1 "{tmp_path}/a.cudafe1.stub.c"\n'
    assert made.completed.stderr == f"{tmp_path}/a.cpp1.ii: warning\n".encode()
    assert (made.completed.status, made.completed.seconds, made.costs.send) == (0, 3.0, 0.1)
    assert taken == [stage]


def test_a_module_id_is_sent(tmp_path, call, monkeypatch):
    here = call()
    monkeypatch.setattr(run_stage, "argv_to_run", lambda call, stage: list(stage.argv))
    monkeypatch.setattr(work, "of_tool", lambda *_: None)
    sent = here._work(here.stage("cicc"))
    assert "a.module_id" in sent.inputs and "a.module_id" not in sent.outputs


def test_a_result_that_tells_where_it_was_made_is_not_believed(call):
    with pytest.raises(ExecutorError) as caught:
        call().checked(call().stage("cicc"), back_of(ptx=f".file {SCRATCH_NAME}/a".encode()))
    assert caught.value.fault == faults.FAILED


@pytest.mark.parametrize(
    ("fault", "is_sent"), [(faults.UNREACHABLE, False), (faults.BROKEN, False), (faults.FAILED, True)]
)
def test_nothing_is_sent_for_a_minute_after_a_fault(call, fault, is_sent):
    """A tool that fails may do so because of the user's source."""
    here = call()
    here.note_failure(ExecutorError(fault, "why"))
    for each in (here, call()):
        assert bool(each.take_slot(each.stage("cicc"))) == is_sent


def test_cancelled_stage_is_no_fault(call, tmp_path):
    here = call()
    here.note_failure(ExecutorError(faults.CANCELLED))
    assert here.take_slot(here.stage("cicc"))
    assert not (tmp_path / "log").exists()


def test_no_more_are_away_at_once_than_is_set(call):
    here, there = call(), call()
    slots = [each.take_slot(each.stage("cicc")) for each in (here, there)]
    assert not there.take_slot(there.stage("cicc"))
    slots[0].release()
    assert not there.take_slot(there.stage("fatbinary")), "which may not be sent"
    assert there.take_slot(there.stage("cicc"))

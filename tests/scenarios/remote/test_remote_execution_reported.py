"""Reports of stages on other machines add up to what the engine has seen."""

from __future__ import annotations

import json
import os
import sys

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import test_remote_execution as sent

import casd
import fake_engine
from nvccache import outcomes
from nvccache.remote_execution import work

pytestmark = [
    pytest.mark.light_by_default,
    pytest.mark.skipif(not os.access(work.CHECK, os.X_OK), reason="class-check was not built"),
]
busy_machine, serve = sent.busy_machine, sent.serve


def printed(workspace, *words):
    return workspace.run([sys.executable, "-m", "nvccache", *words]).stdout.decode()


def asked(engine):
    """How many stages have reached an engine: each begins with a query of its capabilities."""
    return [name for name, _ in engine.seen].count("GetCapabilities")


def events_of(workspace):
    """The sent stages of all calls in the event log."""
    calls = [json.loads(line) for line in printed(workspace, "events", "--json").splitlines()]
    found = [stage for call in calls for stage in call["stages"]]
    return [stage for stage in found if stage["away"] or stage["why_here"]]


def stats(workspace, *words):
    return json.loads(printed(workspace, "stats", "--json", *words))


def test_what_stats_count_is_what_the_engine_has_seen(workspace, serve, tmp_path):
    """Four stages run there, four are in its action cache, and then it is full."""
    engine = serve()
    workspace.write("a.cu", sent.SOURCE)
    for cache in ("first", "second"):
        assert workspace.cached("-c", "a.cu", "-o", "a.o", *sent.TWO).status == 0
        if cache == "first":
            printed(workspace, "clean", "--all")  # the counts stay
    explained = printed(workspace, "explain", "a.o")
    assert explained.count(f"  from the action cache of {engine.url}") == 4
    found = stats(workspace)["executor"]
    assert (found["sent"], found["came_back"]) == (8, 8)
    assert engine.executed == 4
    engine.trouble = fake_engine.FULL
    workspace.write("b.cu", sent.SOURCE.replace("1.5", "2.5"))
    assert workspace.cached("-c", "b.cu", "-o", "b.o", *sent.TWO).status == 0
    sentence = f"  here, though it was sent: {outcomes.EXECUTOR_FAULTS['no_workers']}"
    here = printed(workspace, "explain", "b.o").count(sentence)
    assert here >= 1
    report = stats(workspace)
    found = report["executor"]
    assert found["sent"] == asked(engine) == 8 + here
    assert (found["came_back"], found["reasons"]) == (8, {"no_workers": here})
    assert report["executor_outage"]["word"] == "no_workers"
    costs = [stage["away"] for stage in events_of(workspace) if stage["away"]]
    assert [sum(cost["is_cached"] == is_cached for cost in costs) for is_cached in (0, 1)] == [4, 4]
    assert sum(cost["sent_bytes"] for cost in costs) > 1_000_000
    assert stats(workspace, "--since", "1h")["executor"] == found


def test_a_stage_sent_before_a_call_began_again_is_reported_with_its_costs(workspace, serve):
    """The host compiler warns about lines that have moved, after cicc's result has come back."""
    engine = serve()
    source = """__global__ void k(float *p) {
#if __CUDA_ARCH__ == 800
    *p = 1.0f;
#endif
    *p += 2.0f;
}
#ifndef __CUDA_ARCH__
int f(int x) { return x; }
#endif
"""
    line = ["-c", "a.cu", "-o", "a.o", *sent.TWO, "-Xcompiler", "-Wshadow"]
    workspace.write("a.cu", source)
    assert workspace.cached(*line).stderr == b""
    before = asked(engine)
    shadowed = source.replace("return x;", "{ int x = 3; if (x == 4) return x; } return x;")
    workspace.write("a.cu", "// moved\n" + shadowed.replace("1.0f", "3.0f"))
    assert b"shadows a parameter" in workspace.cached(*line).stderr
    log = (workspace.directory.parent / "log").read_text()
    again = log.rpartition("there are diagnostics: compiling again")[2]
    assert "cicc a.compute_80.cudafe1.stub.c: hit" in again  # its first attempt stored it
    explained = printed(workspace, "explain", "a.o").splitlines()
    (cicc,) = [line for line in explained if line.startswith("  cicc compute_80 ")]
    assert f"  on {engine.url}" in cicc
    assert stats(workspace)["executor"]["sent"] == asked(engine) == before + 3


def test_stages_run_by_a_launcher_are_reported_with_its_program(workspace):
    sent.use_launcher(workspace, 'exec "$@"')
    workspace.write("a.cu", sent.SOURCE)
    assert workspace.cached("-c", "a.cu", "-o", "a.o", *sent.TWO).status == 0
    assert printed(workspace, "explain", "a.o").count("  on prefix:srun") == 4
    found = stats(workspace)["executor"]
    assert (found["sent"], found["came_back"]) == (4, 4)


@pytest.mark.skipif(not casd.find().startswith("/"), reason=casd.find())
def test_doctor_knows_a_real_engine(workspace, tmp_path):
    def findings():
        report = json.loads(printed(workspace, "doctor", "--json"))["findings"]
        return [finding for finding in report if finding["topic"] == "executor"]

    with casd.serving(tmp_path / "casd") as url:
        sent.use(workspace, url)
        (finding,) = findings()
        assert finding["state"] == "ok"
        assert finding["text"].startswith(f"`{url}` answers in ")
    (finding,) = findings()
    assert (finding["state"], finding["text"]) == ("bad", f"`{url}` cannot be used: unreachable")
    assert finding["mend"] == ["unset NVCCACHE_EXECUTOR"]

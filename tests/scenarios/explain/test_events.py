"""What real compiles leave in the event log, and in the page and the trace that are made of it."""

from __future__ import annotations

import json
import resource
import shutil
import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from nvccache.cli import builds
from nvccache.cli.builds import Figures
from nvccache.store import events
from nvccache.store.event_line import Event
from workspaces import Workspace, make_workspace

LINE = ("-c", "a.cu", "-o", "a.o", "-arch=sm_80")
KINDS = {"host_preprocess", "cudafe", "device_preprocess", "cicc", "ptxas", "fatbinary", "host_compile"}


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Workspace:
    workspace = make_workspace(tmp_path_factory.mktemp("compiled"), nvcc)
    workspace.write("a.cu", "__global__ void k(int *p) { *p = 1; }\n")
    assert workspace.cached(*LINE).status == 0
    return workspace


@pytest.fixture
def place(compiled_once: Workspace, tmp_path: Path) -> Workspace:
    """Where a unit has been compiled once; each test has the cache as it was then."""
    cache = shutil.copytree(compiled_once.cache, tmp_path / "cache")
    environ = {**compiled_once.environ, "NVCCACHE_DIR": str(cache)}
    return Workspace(compiled_once.directory, compiled_once.nvcc, environ)


def last(place: Workspace) -> Event:
    return list(events.read(str(place.cache)))[-1]


def test_the_event_of_a_miss_lists_its_stages_with_times_and_that_of_a_hit_the_same_stages(place):
    cold = last(place)
    assert (cold.outcome, cold.sources, cold.directory) == ("miss", ["a.cu"], str(place.directory))
    assert cold.product == str(place.directory / "a.o")
    stages = {stage.kind: stage for stage in cold.stages}
    assert stages.keys() == KINDS and len(cold.stages) == len(KINDS)
    architectures = {kind: stages[kind].architecture for kind in ("device_preprocess", "ptxas", "cudafe")}
    assert architectures == {"device_preprocess": "compute_80", "ptxas": "sm_80", "cudafe": ""}
    assert {(stage.result, stage.where) for stage in cold.stages} == {("ran", "local")}
    assert cold.cause == "no earlier compile is recorded"
    for stage in cold.stages:
        assert 0 < stage.start < stage.start + stage.seconds <= cold.seconds
    assert stages["ptxas"].start > stages["cicc"].start > stages["device_preprocess"].start

    assert place.cached(*LINE).status == 0
    found = last(place)
    assert (found.outcome, found.sources) == ("direct_hit", ["a.cu"])
    assert {stage.result for stage in found.stages} == {"hit"}
    for name in ("kind", "architecture", "seconds", "cpu"):
        assert [getattr(stage, name) for stage in found.stages] == [
            getattr(stage, name) for stage in cold.stages
        ], name
    assert found.tool_saved == pytest.approx(sum(stage.cpu for stage in cold.stages), abs=1e-4)


def test_events_hold_the_stages_of_failed_compiles_and_of_links(place):
    place.write("bad.cu", "__global__ void k(int *p) { *p = undeclared; }\n")
    assert place.cached("-c", "bad.cu", "-o", "bad.o").status != 0
    found = last(place)
    assert found.outcome == "failed"
    assert "failed" in {stage.result for stage in found.stages}
    place.write("main.cu", "int main() { return 0; }\n")
    for outcomes in ({"partial_hit", "miss"}, {"stage_hit"}):
        assert place.cached("main.cu", "-o", "main", "-arch=sm_80").status == 0
        assert last(place).outcome in outcomes
    results = {stage.kind: stage.result for stage in last(place).stages}
    assert results.pop("host_link") == "ran"
    assert {*results.values()} == {"hit"} and not last(place).reason


def test_the_event_of_a_bypass_lists_its_sources_and_no_macro_values(workspace):
    workspace.cached("-run", "-Xcompiler", "-w", "-run-args=d.cu", "a.cu", "-DKEY=b.cu")
    assert (last(workspace).outcome, last(workspace).sources) == ("bypass", ["a.cu"])


def test_the_report_and_its_trace_show_each_compile_and_its_stages(place):
    assert place.cached("-c", "a.cu", "-arch=sm_80", "-o", "b.o").status == 0
    written = place.run([launcher_of_tree(), "report", "-o", "build.html", "--trace", "trace.json"])
    assert (written.status, written.stderr) == (0, b"")
    assert b"2 compiles in " in written.stdout and b" % of compiler time reused; " in written.stdout
    page = (place.directory / "build.html").read_text()
    assert "2 calls" in page
    events = json.loads((place.directory / "trace.json").read_text())["traceEvents"]
    categories = [event["cat"] for event in events if event["ph"] == "X"]
    assert [each for each in categories if each.startswith("call")] == ["call,miss", "call,direct_hit"]
    ran = {event["name"].split()[0] for event in events if event.get("cat") == "stage,ran"}
    assert {"cudafe++", "cicc", "ptxas", "host"} <= ran


def test_the_reported_costs_of_a_build_are_the_cpu_time_of_its_tools(workspace):
    """Three objects: cold, unchanged, and after an edit of one; all processes are measured from outside."""
    for name in "abc":
        workspace.write(f"{name}.cu", f"__global__ void {name}(int *p) {{ *p = 1; }}\n")

    def build() -> tuple[Figures, list[Event], float]:
        since, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
        for name in "abc":
            assert workspace.cached("-c", f"{name}.cu", "-o", f"{name}.o", "-arch=sm_80").status == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        calls = list(events.read(str(workspace.cache), since))
        outside = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return builds.summarize(calls), calls, outside

    cold, calls, outside = build()
    cpu = {(call.product, stage.kind): stage.cpu for call in calls for stage in call.stages}
    assert cold["seconds_saved"] == 0
    assert cold["seconds_spent"] == pytest.approx(sum(cpu.values()), rel=0.01)
    assert cold["seconds_spent"] + cold["seconds_overhead"] == pytest.approx(outside, rel=0.15)

    warm, _, outside = build()
    assert warm["seconds_saved"] == pytest.approx(sum(cpu.values()), rel=0.01)
    assert warm["seconds_spent"] == 0

    workspace.write("a.cu", "__global__ void a(int *p) { *p = 1; }\nint host() { return 2; }\n")
    edited, calls, outside = build()
    hits = [(call.product, stage.kind) for call in calls for stage in call.stages if stage.is_hit]
    assert 14 < len(hits) < 21
    assert edited["seconds_saved"] == pytest.approx(sum(map(cpu.__getitem__, hits)), rel=0.01)
    assert edited["seconds_spent"] + edited["seconds_overhead"] == pytest.approx(outside, rel=0.15)

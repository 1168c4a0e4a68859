"""Stages on other machines: the objects are plain nvcc's, whatever becomes of the engine.

Which stages may be sent, and what each fault of an engine or launcher is called: unit/remote_execution.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shlex
import sys

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import casd
from fake_engine import FakeEngine
from nvccache.machine import slots
from nvccache.remote_execution import work
from nvccache.store import events
from scenarios.support.toolkits import SOURCE, architectures

pytestmark = [
    pytest.mark.light_by_default,
    pytest.mark.skipif(not os.access(work.CHECK, os.X_OK), reason="class-check was not built"),
]
TWO = architectures(80, 90)
# Pool and outages belong to this test alone.
OWN_POOL = """
from nvccache import outcomes
from nvccache.machine import slots
slots.pool_directory.__defaults__ = (({base!r},),)
"""
_stored: dict[str, bytes] = {}  # what an engine has of earlier tests: tools are large


@pytest.fixture(autouse=True)
def busy_machine(workspace, tmp_path):
    """The pool's only core is taken, so that all stages that may be sent are sent."""
    base = tmp_path / "pool"
    base.mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(OWN_POOL.format(base=str(base)))
    workspace.begin_with_digests({})
    workspace.environ |= {"PYTHONPATH": str(tmp_path / "site"), "NVCCACHE_JOBS": "1"}
    with open(f"{slots.pool_directory((str(base),))}/slot-{min(os.sched_getaffinity(0))}", "ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@pytest.fixture
def engine(tmp_path, workspace):
    made = FakeEngine(tmp_path)
    made.blobs = _stored
    workspace.environ["NVCCACHE_EXECUTOR"] = f"{made.url}?queue=2"
    yield made
    made.stop()


def compile_with(workspace, *options, source=SOURCE, action="-c", product="a.o"):
    """Compile; the kind of each stage -> where such stages ran, without costs."""
    workspace.write("a.cu", source)
    done = workspace.cached(action, "a.cu", "-o", product, *options)
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    *_, event = events.read(str(workspace.cache))
    found = {}
    for stage in event.stages:
        found.setdefault(stage.kind, []).append(stage.where.partition(" ")[0])
    return found


def assert_made_by_nvcc(workspace, *options):
    (workspace.directory / "keep").mkdir(exist_ok=True)
    words = ("-c", "a.cu", "-o", "plain.o", *options, "-keep", "-keep-dir", "keep")
    assert workspace.plain(*words).status == 0
    made, expected = ((workspace.directory / name).read_bytes() for name in ("a.o", "plain.o"))
    assert made == expected


def printed(workspace, *words):
    return workspace.run([sys.executable, "-m", "nvccache", *words]).stdout.decode()


def test_remotely_run_cicc_and_ptxas_give_nvccs_object_and_later_hits(workspace, engine):
    places = compile_with(workspace, *TWO)
    assert_made_by_nvcc(workspace, *TWO)
    assert places["cicc"] == places["ptxas"] == [engine.url] * 2
    assert {*places["host_compile"], *places["device_preprocess"], *places["cudafe"]} == {"local"}
    assert printed(workspace, "explain", "a.o").count(f"  on {engine.url}") == 4
    # By the call's record, and by stages alone, even in calls that send nothing.
    _, counters = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "a.o", *TWO))
    assert counters.outcome == "direct_hit"
    workspace.forget_calls()
    del workspace.environ["NVCCACHE_EXECUTOR"]
    _, counters = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "a.o", *TWO))
    assert (counters.outcome, counters.compiled(), engine.executed) == ("stage_hit", {}, 4)


def test_variables_read_by_a_remotely_run_tool_are_inputs_of_its_record(workspace, engine):
    assert compile_with(workspace, action="-ptx", product="a.ptx")["cicc"] == [engine.url]
    for variables, runs in (({}, False), ({"NVVM_IR_VER_CHK": "0"}, True), ({"LC_ALL": "C.UTF-8"}, True)):
        workspace.forget_calls()
        again = functools.partial(workspace.cached, "-ptx", "a.cu", "-o", "a.ptx", **variables)
        assert ("cicc" in workspace.since(again)[1].ran()) == runs, variables


def test_an_error_in_the_source_found_remotely_is_reported_as_by_nvcc(workspace, engine):
    workspace.write("a.cu", '__global__ void f(int *p) { asm("nonsense %0;" : "=r"(*p)); }\n')
    plain = workspace.plain("-c", "a.cu", "-o", "a.o")
    cached = workspace.cached("-c", "a.cu", "-o", "a.o")
    assert engine.executed
    assert cached.status == plain.status != 0
    assert cached.stderr.count(b"nonsense") == plain.stderr.count(b"nonsense") > 0


def test_stats_count_stages_that_ran_remotely_or_were_cached_there(workspace, engine):
    """Two stages run there, and two are in its action cache."""
    for _ in ("run", "cached"):
        compile_with(workspace)
        explained = printed(workspace, "explain", "a.o")
        printed(workspace, "clean", "--all")  # the counts stay
    assert explained.count(f"  from the action cache of {engine.url}") == 2
    found = json.loads(printed(workspace, "stats", "--json"))["executor"]
    assert (found["sent"], found["came_back"], engine.executed) == (4, 4, 2)


def test_stages_run_on_other_machines_through_a_command_such_as_srun(workspace, tmp_path):
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nshift 2\necho "srun: job 7 queued" >&2\nexec "$@"\n')
    srun.chmod(0o755)
    workspace.environ["NVCCACHE_EXECUTOR"] = f"prefix:{shlex.quote(str(srun))} -n1 --"
    workspace.environ["NVCCACHE_EXECUTOR_DIR"] = str(tmp_path / "shared")
    assert compile_with(workspace)["cicc"] == ["prefix:srun"]
    assert_made_by_nvcc(workspace)
    assert printed(workspace, "explain", "a.o").count("  on prefix:srun") == 2
    assert json.loads(printed(workspace, "stats", "--json"))["executor"]["came_back"] == 2


@pytest.mark.skipif(not casd.find().startswith("/"), reason=casd.find())
def test_a_sandboxed_remote_execution_server_makes_the_same_object(workspace, tmp_path):
    with casd.serving(tmp_path / "casd") as url:
        workspace.environ["NVCCACHE_EXECUTOR"] = url
        places = compile_with(workspace, *TWO)
        assert_made_by_nvcc(workspace, *TWO)
        assert places["cicc"] == places["ptxas"] == [url] * 2
    places = compile_with(workspace, source=SOURCE.replace("2.5f", "4.5f"))  # the engine is gone
    assert {*places["cicc"]} == {"local"}

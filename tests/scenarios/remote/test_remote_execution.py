"""Stages on other machines: the objects are plain nvcc's, whatever becomes of the engine."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from functools import partial

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import casd
import fake_engine
from fake_engine import FakeEngine
from nvccache import outcomes
from nvccache.machine import slots
from nvccache.remote_execution import work
from nvccache.store import events
from scenarios.support.toolkits import toolkit_of, with_real_headers

pytestmark = [
    pytest.mark.light_by_default,
    pytest.mark.skipif(not os.access(work.CHECK, os.X_OK), reason="class-check was not built"),
]
SOURCE = """
template <int N> __global__ void kernel(float *p) {
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += p[i] * i * 1.5f;
    p[threadIdx.x] = sum;
}
static __device__ int counter;
__global__ void count() { ++counter; }
void launch(float *p) { kernel<16><<<1, 32>>>(p); kernel<24><<<1, 32>>>(p); count<<<1, 1>>>(); }
"""
# cicc folds a part of it, with the mathematics of its machine.
MATHEMATICS = "#include <cmath>\n" + SOURCE.replace("1.5f", "sinf(p[i]) * float(pow(1.5, 2.25))")
TWO = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90"]


# Pool and outages belong to this test alone.
OWN_POOL = """
from nvccache import outcomes
from nvccache.machine import slots
slots.pool_directory.__defaults__ = (({base!r},),)
"""


@pytest.fixture(autouse=True)
def busy_machine(workspace, tmp_path):
    """The pool's only core is taken, so that all stages that may be sent are sent."""
    base = tmp_path / "pool"
    base.mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(OWN_POOL.format(base=str(base)))
    workspace.environ["PYTHONPATH"] = str(tmp_path / "site")
    with open(f"{slots.pool_directory((str(base),))}/slot-{min(os.sched_getaffinity(0))}", "ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@pytest.fixture
def serve(tmp_path, workspace):
    started = []

    def start(trouble=""):
        engine = FakeEngine(tmp_path, trouble)
        started.append(engine)
        use(workspace, engine.url + "?queue=2")
        return engine

    yield start
    for engine in started:
        engine.stop()


def use(workspace, url):
    workspace.environ |= {
        "NVCCACHE_EXECUTOR": url, "NVCCACHE_JOBS": "1",
        "NVCCACHE_LOG": str(workspace.directory.parent / "log"),
    }  # fmt: skip


def use_launcher(workspace, body, words=""):
    """Use a script in place of srun, with further arguments."""
    srun = workspace.directory.parent / "srun"
    srun.write_text(f"#!/bin/sh\n{body}\n")
    srun.chmod(0o755)
    use(workspace, f"prefix:{shlex.quote(str(srun))}{words}")
    workspace.environ["NVCCACHE_EXECUTOR_DIR"] = str(workspace.directory.parent / "shared")


def places(workspace):
    """Kind of stage -> where such stages ran in the last call, without costs."""
    *_, event = events.read(str(workspace.cache))
    found = {}
    for stage in event.stages:
        found.setdefault(stage.kind, []).append(stage.where.partition(" ")[0])
    return found


def assert_same_as_plain(workspace, *options, source=SOURCE):
    """Compile with plain nvcc and through the cache, cold: the same object, and no messages."""
    workspace.write("a.cu", source)
    (workspace.directory / "keep").mkdir(exist_ok=True)
    plain = workspace.plain("-c", "a.cu", "-o", "plain.o", *options, "-keep", "-keep-dir", "keep")
    cached = workspace.cached("-c", "a.cu", "-o", "a.o", *options)
    assert (cached.status, cached.stdout, cached.stderr) == (plain.status, plain.stdout, plain.stderr)
    made, expected = ((workspace.directory / name).read_bytes() for name in ("a.o", "plain.o"))
    assert made == expected


def test_cicc_and_ptxas_run_elsewhere_and_make_what_nvcc_makes(workspace, real_nvcc, serve):
    engine = serve()
    workspace = with_real_headers(workspace, real_nvcc)
    workspace.nvcc = str(toolkit_of(workspace) / "bin/nvcc")  # what is found on PATH may be a script
    assert_same_as_plain(workspace, *TWO, source=MATHEMATICS)
    found = places(workspace)
    assert found["cicc"] == found["ptxas"] == [engine.url] * 2
    assert {*found["host_compile"], *found["device_preprocess"], *found["cudafe"]} == {"local"}
    explanation = workspace.run([sys.executable, "-m", "nvccache", "explain", "a.o"]).stdout.decode()
    assert explanation.count(f"  on {engine.url}") == 4
    log = (workspace.directory.parent / "log").read_text()
    assert log.count("on another machine (queue ") == 4


def test_what_ran_elsewhere_is_found_again(workspace, serve):
    """By the call's record, and by stages alone, even in calls that send nothing."""
    engine = serve()
    workspace.write("a.cu", SOURCE)
    workspace.cached("-c", "a.cu", "-o", "a.o", *TWO)
    ran = engine.executed
    _, counters = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "a.o", *TWO))
    assert counters.outcome == "direct_hit"
    workspace.forget_calls()
    del workspace.environ["NVCCACHE_EXECUTOR"]
    _, counters = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "a.o", *TWO))
    assert (counters.outcome, counters.compiled()) == ("stage_hit", {})
    assert engine.executed == ran == 4


def test_the_record_of_a_sent_stage_counts_what_its_tool_asks_for(workspace, serve):
    engine = serve()
    workspace.write("a.cu", SOURCE)
    workspace.cached("-ptx", "a.cu", "-o", "a.ptx")
    assert places(workspace)["cicc"] == [engine.url]
    workspace.forget_calls()
    _, counters = workspace.since(lambda: workspace.cached("-ptx", "a.cu", "-o", "a.ptx"))
    assert "cicc" in counters.hit()
    for variables in ({"NVVM_IR_VER_CHK": "0"}, {"LC_ALL": "C.UTF-8"}):
        _, counters = workspace.since(partial(workspace.cached, "-ptx", "a.cu", "-o", "a.ptx", **variables))
        assert "cicc" in counters.ran(), variables


@pytest.mark.parametrize("options", [["-G"], ["-Xptxas", "-v", "-lineinfo"]], ids="-".join)
def test_stages_whose_results_tell_of_places_stay_here(workspace, serve, options):
    engine = serve()
    workspace.write("a.cu", SOURCE)
    assert workspace.cached("-c", "a.cu", "-o", "a.o", *options).status == 0
    assert engine.executed == 0


@pytest.mark.by_default(fake_engine.WRONG_DIGEST)
@pytest.mark.parametrize(
    "trouble",
    [
        fake_engine.NO_WORKERS,
        fake_engine.WRONG_DIGEST,
        fake_engine.LOSES_OUTPUT,
        fake_engine.FAILS,
        fake_engine.FULL,
        fake_engine.OTHER_VERSION,
        fake_engine.DIES,
        fake_engine.OTHER_CLASS,
    ],
)
def test_whatever_goes_wrong_is_compiled_here(workspace, serve, trouble):
    serve(trouble)
    assert_same_as_plain(workspace, *TWO)
    assert {*places(workspace)["cicc"], *places(workspace)["ptxas"]} == {"local"}


@pytest.mark.by_default(fake_engine.FAILS)
@pytest.mark.parametrize("trouble", [fake_engine.SILENT, fake_engine.FULL, fake_engine.FAILS])
def test_the_next_calls_leave_an_engine_alone_that_is_down(workspace, serve, trouble):
    engine = serve(trouble)
    workspace.write("a.cu", SOURCE)
    assert workspace.cached("-c", "a.cu", "-o", "a.o", *TWO).status == 0
    asked = len(engine.seen)
    workspace.write("b.cu", SOURCE.replace("1.5", "2.5"))
    assert workspace.cached("-c", "b.cu", "-o", "b.o", *TWO).status == 0
    assert len(engine.seen) == asked


def test_a_user_error_is_reported_as_by_nvcc(workspace, serve):
    serve()
    workspace.write("a.cu", '__global__ void f(int *p) { asm("nonsense %0;" : "=r"(*p)); }\n')
    plain = workspace.plain("-c", "a.cu", "-o", "a.o", *TWO)
    cached = workspace.cached("-c", "a.cu", "-o", "a.o", *TWO)
    assert cached.status == plain.status != 0
    assert b"nonsense" in cached.stderr
    assert b"said by the worker" not in cached.stderr


def test_no_more_are_away_at_once_than_is_set(workspace, serve):
    engine = serve()
    engine.delay = 0.3
    workspace.environ["NVCCACHE_EXECUTOR_JOBS"] = "1"
    assert_same_as_plain(workspace, *TWO)
    assert engine.most == 1


def test_a_launcher_carries_stages_too(workspace):
    use_launcher(workspace, 'shift 2\necho "srun: job 7 queued" >&2\nexec "$@"', " -n1 --")
    assert_same_as_plain(workspace, *TWO)
    assert places(workspace)["cicc"] == ["prefix:srun"] * 2
    assert printed(workspace, "explain", "a.o").count("  on prefix:srun") == 4
    assert stats(workspace)["executor"]["came_back"] == 4


def test_what_a_launcher_brings_back_in_part_is_nowhere_kept(workspace):
    """It succeeds, and the file ends between two lines: ptxas would accept it."""
    cut = """find "${2%/*}" -name '*.ptx' -exec sed -i '/^.visible .entry/,$d' {} +"""
    use_launcher(workspace, f'"$@"\n{cut}\nexit 0')
    assert_same_as_plain(workspace, *TWO)
    assert places(workspace)["cicc"] == ["local"] * 2
    workspace.forget_calls()
    workspace.cached("-c", "a.cu", "-o", "again.o", *TWO)
    made, again = ((workspace.directory / name).read_bytes() for name in ("a.o", "again.o"))
    assert again == made


def test_nothing_is_loaded_where_nothing_is_set(workspace):
    workspace.write("a.cu", SOURCE)
    done = workspace.run(
        ["python3", "-X", "importtime", "-m", "nvccache", workspace.nvcc, "-c", "a.cu", "-o", "a.o"],
        PYTHONPATH=os.pathsep.join(sys.path),
    )
    assert done.status == 0, done.stderr
    assert b"nvccache.compile.schedule" in done.stderr
    loaded = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines()}
    heavy = [name for name in loaded if name.startswith((b"grpc", b"google.protobuf"))]
    assert not heavy
    assert not [name for name in loaded if name.startswith(b"nvccache.remote_execution")]


@pytest.mark.skipif(not casd.find().startswith("/"), reason=casd.find())
def test_a_real_engine_with_a_sandbox_makes_the_same(workspace, tmp_path):
    with casd.serving(tmp_path / "casd") as url:
        use(workspace, url)
        assert_same_as_plain(workspace, *TWO)
        found = places(workspace)
        assert found["cicc"] == found["ptxas"] == [url] * 2
        for kind in ("ptx", "cubin"):  # products of a stage that is sent
            for by in (workspace.plain, workspace.cached):
                assert by(f"-{kind}", "-arch=sm_86", "a.cu", "-o", f"{by.__name__}.{kind}").status == 0
            made, expected = (
                (workspace.directory / f"{name}.{kind}").read_bytes() for name in ("cached", "plain")
            )
            assert made == expected
            assert "local" not in places(workspace).get("ptxas" if kind == "cubin" else "cicc", [])
    assert workspace.cached("-c", "a.cu", "-o", "b.o", "-arch=sm_86").status == 0  # the engine is gone
    assert {*places(workspace)["cicc"]} == {"local"}


def printed(workspace, *words):
    return workspace.run([sys.executable, "-m", "nvccache", *words]).stdout.decode()


def stats(workspace, *words):
    return json.loads(printed(workspace, "stats", "--json", *words))


def test_what_stats_count_is_what_the_engine_has_seen(workspace, serve):
    """Four stages run there, four are in its action cache, and then it is full."""
    engine = serve()
    workspace.write("a.cu", SOURCE)
    for cache in ("first", "second"):
        assert workspace.cached("-c", "a.cu", "-o", "a.o", *TWO).status == 0
        if cache == "first":
            printed(workspace, "clean", "--all")  # the counts stay
    explained = printed(workspace, "explain", "a.o")
    assert explained.count(f"  from the action cache of {engine.url}") == 4
    found = stats(workspace)["executor"]
    assert (found["sent"], found["came_back"], engine.executed) == (8, 8, 4)
    engine.trouble = fake_engine.FULL
    workspace.write("b.cu", SOURCE.replace("1.5", "2.5"))
    assert workspace.cached("-c", "b.cu", "-o", "b.o", *TWO).status == 0
    sentence = f"  here, though it was sent: {outcomes.EXECUTOR_FAULTS['no_workers']}"
    here = printed(workspace, "explain", "b.o").count(sentence)
    assert here >= 1
    report = stats(workspace)
    found = report["executor"]
    # Each stage that is sent begins with a query of the engine's capabilities.
    assert found["sent"] == [name for name, _ in engine.seen].count("GetCapabilities") == 8 + here
    assert (found["came_back"], found["reasons"]) == (8, {"no_workers": here})
    assert report["executor_outage"]["word"] == "no_workers"
    assert stats(workspace, "--since", "1h")["executor"] == found

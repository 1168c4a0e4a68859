"""Stages on other machines: the objects are plain nvcc's, whatever becomes of the engine."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from functools import partial

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import casd
import fake_engine
import slurm
from fake_engine import FakeEngine
from nvccache.machine import slots
from nvccache.remote_execution import work
from nvccache.store import events
from scenarios.support.toolkits import with_real_headers

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
    assert_same_as_plain(workspace, *TWO, source=MATHEMATICS)
    found = places(workspace)
    assert found["cicc"] == found["ptxas"] == [engine.url] * 2
    assert {*found["host_compile"], *found["device_preprocess"], *found["cudafe"]} == {"local"}
    explanation = workspace.run([sys.executable, "-m", "nvccache", "explain", "a.o"]).stdout.decode()
    assert explanation.count(f"on {engine.url}, ") == 4
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


def test_what_ran_here_is_found_by_calls_that_send(workspace, serve):
    workspace.write("a.cu", SOURCE)
    workspace.cached("-c", "a.cu", "-o", "a.o", *TWO)
    engine = serve()
    workspace.forget_calls()
    _, counters = workspace.since(lambda: workspace.cached("-c", "a.cu", "-o", "a.o", *TWO))
    assert (counters.compiled(), engine.executed) == ({}, 0)


@pytest.mark.by_default("-G")
@pytest.mark.parametrize("options", [["-G"], ["-lineinfo"], ["-Xptxas", "-v", "-lineinfo"]], ids="-".join)
def test_stages_whose_results_tell_of_places_stay_here(workspace, serve, options):
    engine = serve()
    workspace.write("a.cu", SOURCE)
    assert workspace.cached("-c", "a.cu", "-o", "a.o", *options).status == 0
    assert engine.executed == 0


def test_a_variable_that_the_tool_asks_for_keeps_it_here(workspace, serve):
    engine = serve()
    workspace.write("a.cu", SOURCE)
    workspace.cached("-c", "a.cu", "-o", "a.o", "-ptx", NVVM_IR_VER_CHK="0")
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


@pytest.mark.by_default(fake_engine.FULL)
@pytest.mark.parametrize("trouble", [fake_engine.SILENT, fake_engine.FULL])
def test_the_next_calls_leave_an_engine_alone_that_is_down(workspace, serve, trouble):
    engine = serve(trouble)
    workspace.write("a.cu", SOURCE)
    workspace.cached("-c", "a.cu", "-o", "a.o", *TWO)
    asked = len(engine.seen)
    workspace.write("b.cu", SOURCE.replace("1.5", "2.5"))
    assert workspace.cached("-c", "b.cu", "-o", "b.o", *TWO).status == 0
    assert len(engine.seen) == asked


def test_an_engine_on_which_all_fails_is_left_alone_as_well(workspace, serve):
    engine = serve(fake_engine.FAILS)
    asked = []
    for number in range(3):
        workspace.write("a.cu", SOURCE.replace("1.5", f"{number}.5"))
        assert workspace.cached("-c", "a.cu", "-o", "a.o", *TWO).status == 0
        asked.append(engine.executed)
    assert 0 < asked[0] == asked[1] == asked[2]


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


@pytest.mark.skipif(
    not os.environ.get("NVCCACHE_TEST_SLURM") or bool(slurm.missing()),
    reason="NVCCACHE_TEST_SLURM=1 starts a Slurm here; it needs root, slurm-wlm and munge",
)
def test_slurm_carries_stages_too(workspace, tmp_path):
    with slurm.serving(tmp_path / "slurm") as conf:
        use(workspace, "prefix:srun -Q -n1 --input=none --")
        workspace.environ |= {"NVCCACHE_EXECUTOR_DIR": str(tmp_path / "shared"), "SLURM_CONF": conf}
        assert_same_as_plain(workspace, *TWO)
    found = places(workspace)
    assert found["cicc"] == found["ptxas"] == ["prefix:srun"] * 2


def test_a_launcher_whose_controller_is_down_costs_no_build(workspace):
    use_launcher(workspace, "echo 'srun: error: Unable to contact slurm controller' >&2\nexit 1")
    assert_same_as_plain(workspace, *TWO)
    assert "unreachable" in (workspace.directory.parent / "log").read_text()


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


@pytest.mark.skipif(not casd.find().startswith("/"), reason=casd.find())
def test_an_engine_that_is_killed_in_the_middle_costs_no_build(workspace, tmp_path):
    with casd.serving(tmp_path / "casd") as url:
        use(workspace, url)
    assert_same_as_plain(workspace, *TWO)
    assert {*places(workspace)["cicc"]} == {"local"}

"""Module ids that each stage computes itself: the plan, and agreement among the real tools."""

from __future__ import annotations

import subprocess

import pytest

from hand_made_plans import CICC, CUDAFE, HOST, PIPELINE, built
from nvccache import module_id as ids
from nvccache.module_id import ROLE, independent

OWN = "/s/a.module_id.1"
EXTERNAL = "__global__ void kernel(int *p) { *p = 1; }\n"
START = "void start(int *p) { kernel<<<1, 1>>>(p); }\n"
INTERNAL = "namespace { __global__ void kernel(int *p) { *p = 1; } }\n" + START


@pytest.fixture
def plan():
    return independent(built(PIPELINE))


def of_kind(plan, kind):
    return next(stage for stage in plan.stages if stage.kind == kind)


def test_cicc_reads_nothing_of_cudafe(plan):
    assert of_kind(plan, "cicc").inputs == ("/s/a.cpp1.ii",)


def test_cicc_writes_an_id_of_its_own(plan):
    cicc = of_kind(plan, "cicc")
    assert cicc.output(ROLE).path == OWN
    assert plan.own_ids == {OWN: "/s/a.module_id"}
    at = cicc.argv.index("--module_id_file_name")
    assert cicc.argv[at - 1 : at + 2] == (ids.GENERATE_OPTION, "--module_id_file_name", OWN)


def test_who_writes_nvccs_id_is_left_alone(plan):
    assert of_kind(plan, "cudafe") == of_kind(built(PIPELINE), "cudafe")


def test_the_key_does_not_tell_where_the_source_is(plan):
    cicc = of_kind(plan, "cicc")
    assert "/p/a.cu" in cicc.argv
    assert "/p/a.cu" not in cicc.key_argv
    assert not any("module_id." in word for word in cicc.key_argv)
    assert "source path" in cicc.grammar.ignored, "or it is not added where it matters"


def test_on_older_toolkits_cudafe_reads_and_cicc_writes():
    cudafe = CUDAFE.replace("--gen_module_id_file ", "")
    cicc = CICC.replace("--module_id_file_name", "--gen_module_id_file --module_id_file_name")
    plan = independent(built([PIPELINE[2], cicc, *PIPELINE[4:5], HOST, cudafe, *PIPELINE[5:]]))
    assert of_kind(plan, "cudafe").inputs == ("/s/a.cpp4.ii",)
    assert list(plan.own_ids.values()) == ["/s/a.module_id"]


@pytest.mark.by_default("external", "internal")
@pytest.mark.parametrize(
    "text",
    [EXTERNAL, INTERNAL, "static __device__ int v;\n" + EXTERNAL],
    ids=["external", "internal", "both"],
)
def test_the_tools_make_up_the_same_id_and_the_same_code(nvcc, tmp_path, text):
    """The assumption: cicc gives the same code whether it computes the id or reads it."""
    (tmp_path / "a.cu").write_text(text)
    argv = [nvcc, "-c", "a.cu", "-o", "a.o", "-keep", "-keep-dir", "kept"]
    (tmp_path / "kept").mkdir()
    subprocess.run(argv, cwd=tmp_path, check=True)
    printed = subprocess.run([*argv, "--dryrun"], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line.removeprefix("#$ ") for line in printed.stderr.splitlines()]
    (cicc,) = (line for line in lines if "--include_file_name" in line)
    settings = "".join(f"export {line.split('=')[0]}='{line.split('=', 1)[1]}'\n" for line in lines
                       if line.split("=")[0].isidentifier())  # fmt: skip
    own = cicc.replace("--module_id_file_name", "--gen_module_id_file --module_id_file_name")
    own = own.replace("a.module_id", "own.module_id").replace("a.ptx", "own.ptx")
    before = {name: (tmp_path / "kept" / name).read_bytes() for name in ("a.module_id", "a.ptx")}
    stub = (tmp_path / "kept" / "a.cudafe1.stub.c").read_bytes()
    subprocess.run(["sh", "-c", settings + own], cwd=tmp_path, check=True)
    after = {name: (tmp_path / "kept" / name.replace("a.", "own.")).read_bytes() for name in before}
    assert after == before
    assert (tmp_path / "kept" / "a.cudafe1.stub.c").read_bytes() == stub

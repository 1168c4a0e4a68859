"""Which stages may be sent, with which arguments, tool, libraries and check."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

import hand_made_plans
from hand_made_plans import CICC, COMPILE, CUDAFE, DEVICE, FATBINARY, HOST, PTXAS
from nvccache.plan.stages import tool_of
from nvccache.records import facts
from nvccache.remote_execution import work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.work import SCRATCH_NAME, ShippedTool
from sent_work import NEEDS_CHECK

SORT = shutil.which("sort") or "sort"
LOADER = "/lib64/ld-linux-x86-64.so.2"
needs_x86 = pytest.mark.skipif(not os.path.exists(LOADER), reason=f"there is no {LOADER}")
TOOL = ShippedTool((), ())


def planned(cicc=CICC, ptxas=PTXAS, argv="-c a.cu"):
    return hand_made_plans.planned(HOST, CUDAFE, DEVICE, cicc, ptxas, FATBINARY, COMPILE, argv=argv)


def stage(kind, plan):
    return next(found for found in plan.stages if found.kind == kind)


def with_options(command, options):
    name, _, rest = command.partition(" ")
    return f"{name} {options} {rest}"


def test_cicc_and_ptxas_may_be_sent_and_nothing_else():
    assert {found.kind for found in planned().stages if work.may_be_sent(found, {})} == {"cicc", "ptxas"}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *(("cicc", options) for options in ("-g", "-generate-line-info", "--some-unknown-option")),
        *(("ptxas", options) for options in ("-g", "--generate-line-info", "-lineinfo")),
    ],
)
def test_stages_with_debug_or_unknown_options_are_not_sent(kind, options):
    command = {"cicc": CICC, "ptxas": PTXAS}[kind]
    assert not work.may_be_sent(stage(kind, planned(**{kind: with_options(command, options)})), {})


@pytest.mark.parametrize("kind", ["cicc", "ptxas"])
def test_a_stage_is_not_sent_if_a_variable_that_its_tool_reads_is_set(kind):
    found = stage(kind, planned())
    for name in tool_of(kind).variables:
        assert not work.may_be_sent(found, {name: "1"})
        assert work.may_be_sent(found, {name: ""})
    assert work.may_be_sent(found, {"HOME": "/home/u", "SECRET": "x"})


def test_only_variables_that_libc_reads_are_sent():
    environ = {"LC_ALL": "C", "GLIBC_TUNABLES": "a=b", "SECRET": "x", "PATH": "/bin", "LANG": ""}
    assert work.forwarded_variables(environ) == [("GLIBC_TUNABLES", "a=b"), ("LC_ALL", "C")]


def test_scratch_paths_are_sent_as_relative_paths(tmp_path):
    found = stage("ptxas", planned())
    sent = work.describe_stage(found, found.argv, ["/s/a.ptx"], "/s", TOOL, {})
    assert sent.arguments == ["-arch=sm_80", "-m64", f"{SCRATCH_NAME}/a.ptx", "-o", f"{SCRATCH_NAME}/a.cubin"]
    assert (sent.inputs, sent.outputs) == ({"a.ptx": "/s/a.ptx"}, ["a.cubin"])


def test_a_remote_stage_returns_only_outputs_that_later_stages_read():
    found = stage("cicc", planned())
    sent = work.describe_stage(found, found.argv, ["/s/a.cpp1.ii"], "/s", TOOL, {})
    assert {*sent.outputs} == {"a.ptx", "a.cudafe1.stub.c"}
    assert not any("gpu" in name for name in sent.outputs)


def test_a_file_named_in_an_option_is_sent_along_with_the_stage(tmp_path):
    library = tmp_path / "libdevice.10.bc"
    library.write_bytes(b"code")
    found = stage("cicc", planned(cicc=with_options(CICC, f'-nvvmir-library "{library}"')))
    assert str(library) in found.possible_files
    sent = work.describe_stage(found, found.argv, ["/s/a.cpp1.ii"], "/s", TOOL, {})
    (name,) = [name for name, path in sent.inputs.items() if path == str(library)]
    assert f"{SCRATCH_NAME}/{name}" in sent.arguments
    assert not any(str(tmp_path) in word for word in sent.arguments)


def test_files_outside_the_scratch_directory_are_not_sent():
    found = stage("ptxas", planned())
    with pytest.raises(ExecutorError):
        work.describe_stage(found, found.argv, ["/elsewhere/a.ptx"], "/s", TOOL, {})


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT"])
def test_nothing_is_sent_if_the_loader_would_add_libraries(cache, name):
    environ = {"PATH": os.environ["PATH"]}
    with pytest.raises(ExecutorError):
        work.ship_tool(SORT, {**environ, name: "/lib/x.so"}, cache)


def test_digests_of_sent_tools_are_remembered_until_the_tools_change(tmp_path, cache):
    path = tmp_path / "tool"
    path.write_bytes(b"one")
    os.utime(path, (1, 1))
    first = work.digest_of_file(str(path), cache)
    path.write_bytes(b"two")
    os.utime(path, (1, 1))
    assert work.digest_of_file(str(path), cache) != first
    assert first[1] == 3


@NEEDS_CHECK
@needs_x86
def test_the_worker_check_rejects_processors_with_other_libm_features():
    checks = work.checks_of(facts.processor_class())
    assert [check.removeprefix("-") for check in checks] == [*facts.USED_BY_LIBM]

    def status(checks):
        argv = [work.CHECK, *checks, "--", LOADER, SORT, "/dev/null"]
        return subprocess.run(argv, capture_output=True, check=False).returncode

    assert status(checks) == 0
    for number, check in enumerate(checks):
        other = check[1:] if check[0] == "-" else f"-{check}"
        assert status([*checks[:number], other, *checks[number + 1 :]]) == 97
    assert status(["nonsense"]) == status(["-nonsense"]) == 97
    assert status([]) == 98


def test_without_libms_choice_a_workers_processor_cannot_be_checked():
    assert work.checks_of("glibc 2.36 avx fma") == ["avx", "-avx2", "fma", "-fma4", "-sse4_1"]
    assert work.checks_of("glibc 3.0\nflags : avx fma") == []

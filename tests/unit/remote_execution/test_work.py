"""Which stages may be sent, and what of their commands is."""

from __future__ import annotations

from pathlib import Path

import pytest

import hand_made_plans
from hand_made_plans import CICC, COMPILE, CUDAFE, DEVICE, FATBINARY, HOST, PTXAS
from nvccache.plan.model import Plan, Stage
from nvccache.plan.stages import tool_of
from nvccache.remote_execution import work
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.shipped import ShippedTool
from nvccache.remote_execution.work import PLACE

TOOL = ShippedTool((), (), "bin/tool", "lib/ld.so", "/toolkit/tool")


def planned(cicc: str = CICC, ptxas: str = PTXAS, argv: str = "-c a.cu") -> Plan:
    return hand_made_plans.planned(HOST, CUDAFE, DEVICE, cicc, ptxas, FATBINARY, COMPILE, argv=argv)


def stage(kind: str, plan: Plan) -> Stage:
    return next(found for found in plan.stages if found.kind == kind)


def with_options(command: str, options: str) -> str:
    name, _, rest = command.partition(" ")
    return f"{name} {options} {rest}"


def test_cicc_and_ptxas_may_be_sent_and_nothing_else() -> None:
    may = {found.kind for found in planned().stages if not work.reason_to_stay(found, {})}
    assert may == {"cicc", "ptxas"}


@pytest.mark.parametrize("options", ["-g", "-generate-line-info", "--some-unknown-option"])
def test_cicc_stays_where_its_result_may_tell_of_directories(options: str) -> None:
    found = stage("cicc", planned(cicc=with_options(CICC, options)))
    assert work.reason_to_stay(found, {}) == "its result depends on directories or lines"


@pytest.mark.parametrize("options", ["-g", "--generate-line-info", "-lineinfo"])
def test_ptxas_stays_where_its_result_tells_of_names_or_dates(options: str) -> None:
    found = stage("ptxas", planned(ptxas=with_options(PTXAS, options)))
    assert work.reason_to_stay(found, {}) == "its result depends on names or dates"


@pytest.mark.parametrize("kind", ["cicc", "ptxas"])
def test_a_variable_that_its_tool_asks_for_keeps_a_stage_here(kind: str) -> None:
    found = stage(kind, planned())
    for name in tool_of(kind).variables:
        assert work.reason_to_stay(found, {name: "1"}) == f"`{name}` is set"
        assert not work.reason_to_stay(found, {name: ""})
    assert not work.reason_to_stay(found, {"HOME": "/home/u", "SECRET": "x"})


def test_of_the_environment_only_what_the_c_library_heeds_is_sent() -> None:
    environ = {"LC_ALL": "C", "GLIBC_TUNABLES": "a=b", "SECRET": "x", "PATH": "/bin", "LANG": ""}
    assert work.passed_on(environ) == [("GLIBC_TUNABLES", "a=b"), ("LC_ALL", "C")]


def test_names_of_the_scratch_directory_are_relative(tmp_path: Path) -> None:
    found = stage("ptxas", planned())
    sent = work.of_stage(found, found.argv, ["/s/a.ptx"], "/s", TOOL, {})
    assert sent.arguments == ["-arch=sm_80", "-m64", f"{PLACE}/a.ptx", "-o", f"{PLACE}/a.cubin"]
    assert (sent.inputs, sent.outputs) == ({"a.ptx": "/s/a.ptx"}, ["a.cubin"])


def test_what_nobody_reads_is_no_output() -> None:
    found = stage("cicc", planned())
    sent = work.of_stage(found, found.argv, ["/s/a.cpp1.ii"], "/s", TOOL, {})
    assert {*sent.outputs} == {"a.ptx", "a.cudafe1.stub.c"}
    assert not any("gpu" in name for name in sent.outputs)


def test_a_file_that_a_word_names_goes_along(tmp_path: Path) -> None:
    library = tmp_path / "libdevice.10.bc"
    library.write_bytes(b"code")
    found = stage("cicc", planned(cicc=with_options(CICC, f'-nvvmir-library "{library}"')))
    assert str(library) in found.possible_files
    sent = work.of_stage(found, found.argv, ["/s/a.cpp1.ii"], "/s", TOOL, {})
    (name,) = [name for name, path in sent.inputs.items() if path == str(library)]
    assert f"{PLACE}/{name}" in sent.arguments
    assert not any(str(tmp_path) in word for word in sent.arguments)


def test_what_lies_outside_the_scratch_directory_is_not_sent() -> None:
    found = stage("ptxas", planned())
    with pytest.raises(AwayError):
        work.of_stage(found, found.argv, ["/elsewhere/a.ptx"], "/s", TOOL, {})

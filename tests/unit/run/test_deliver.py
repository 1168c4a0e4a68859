"""Results in nvcc's order, up to the first failure, or left to nvcc; what begins again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nvccache.machine.process import Completed
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.run.deliver import Delivery, LinesMatterError
from nvccache.run.report import Report
from nvccache.run.stage_run import StageRun, ToolRun
from nvccache.run.wrappers import PLACES
from nvccache.store.event_line import HIT, RAN, SHARED, StageEvent
from scripted_toolkit import Toolkit, cubin, stages
from stages_of_nothing import COMPILE, CUDAFE

QUIET, WARNS, FAILS = (Completed(*end, 0.0) for end in ((0, b"", b""), (0, b"", b"so"), (1, b"", b"no")))


def check(completed: Completed = QUIET, **shown) -> Report:
    """Check a compile; the result of its cudafe++ was found for text with other line numbers."""
    before, run = StageRun(1, CUDAFE), StageRun(2, COMPILE)
    before.text = ("these lines",)
    before.entry = Entry(LookupKey("0" * 64), InputRecord(), Result())
    before.entry.result.text = ["other lines"]
    run.tool_run, run.completed = ToolRun(completed, **shown), completed
    request = SimpleNamespace(config=SimpleNamespace(log=""))
    delivery = Delivery(SimpleNamespace(runs=[before, run], request=request, messages=b""))
    delivery.check(run)
    return delivery.report


@pytest.mark.parametrize(
    ("completed", "shown", "sentence"),
    [
        (QUIET, {"wrapper": (PLACES,)}, "a wrapper's result may depend on line numbers"),
        (WARNS, {}, "there are diagnostics"),
    ],
)
def test_a_compile_that_shows_line_numbers_begins_again_with_them_in_its_keys(
    completed, shown, sentence
) -> None:
    with pytest.raises(LinesMatterError, match=sentence):
        check(completed, **shown)


@pytest.mark.parametrize("completed", [QUIET, FAILS])
def test_a_result_that_is_quiet_or_failed_needs_no_repetition_by_nvcc(completed) -> None:
    assert check(completed).leave_to_nvcc == ""


def test_a_compile_that_may_depend_on_the_path_of_its_object_is_left_to_nvcc() -> None:
    assert check(path_dependence="it names its path").leave_to_nvcc == "host_side_output"


def test_saved_time_is_that_of_stages_that_hit_or_another_call_ran() -> None:
    report = Report()
    report.stages = [
        StageEvent("cudafe", HIT, 2.0, cpu=1.5),
        StageEvent("cicc", SHARED, 9.0),
        StageEvent("ptxas", RAN, 1.0),
    ]
    assert report.tool_saved == 10.5


TWO = "-cubin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 a.cu"


def for_each(text_of_80: str, text_of_90: str) -> str:
    return f"#if __CUDA_ARCH__ == 800\n{text_of_80}\n#else\n{text_of_90}\n#endif\n"


def test_messages_come_in_nvccs_order_whichever_ends_first(toolkit: Toolkit) -> None:
    toolkit.will_do(*cubin(80, 90), messages="nvcc warning: old\n")
    toolkit.write("a.cu", for_each("int cicc_takes_long, cicc_says;", "int cicc_says, ptxas_says;"))
    expected = (
        b"nvcc warning: old\n"
        b"a.cu(1): cicc warns for compute_80\n"
        b"a.cu(1): cicc warns for compute_90\n"
        b"a.cu(1): ptxas warns\n"
    )
    for _ in ("run", "replayed"):
        report = toolkit.compile(TWO, NVCCACHE_JOBS="4")
        assert (report.status, report.leave_to_nvcc, report.stderr) == (0, "", expected)
    assert all(stage.is_hit for stage in report.stages)


def test_stages_after_a_failure_print_nothing(toolkit: Toolkit) -> None:
    toolkit.will_do(*cubin(80, 90))
    toolkit.write("a.cu", for_each("int cicc_takes_long, cicc_fails;", "int cicc_says;"))
    report = toolkit.compile(TWO, NVCCACHE_JOBS="4")
    assert (report.status, report.leave_to_nvcc) == (2, "")
    assert report.stderr == b"a.cu(1): cicc rejects it\n"
    assert list(toolkit.work.glob("*.cubin")) == []


def test_stages_before_a_failed_one_hit_on_the_next_compile(toolkit: Toolkit) -> None:
    toolkit.write("a.cu", "int cicc_says, nvcc_has_the_last_word_as_ptxas_fails;\n")
    first = toolkit.compile()
    assert first.leave_to_nvcc == "odd_failure", "nvcc tells of a failure of ptxas in words of its own"
    again = toolkit.compile()
    assert stages(again) == ["(device_preprocess)", "(cicc)", "ptxas"]
    assert again.stderr == first.stderr


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("cicc_fails", ""),
        ("cicc_runs_out", "odd_failure"),
        ("cicc_is_silent", "odd_failure"),
        ("cicc_names_its_input_and_fails", "odd_failure"),
    ],
)
def test_nvcc_repeats_a_call_that_failed_for_another_reason_than_the_source(
    toolkit: Toolkit, what: str, reason: str
) -> None:
    """nvcc repeats a call that failed by a full disk, without a message, or with one that names our files."""
    toolkit.write("a.cu", f"int {what};\n")
    report = toolkit.compile()
    assert report.status != 0
    assert report.leave_to_nvcc == reason


def test_the_event_of_each_stage_says_what_happened_to_it(toolkit: Toolkit) -> None:
    def events() -> list[tuple[object, ...]]:
        stages = toolkit.compile().stages
        return [(each.kind, each.result, each.architecture, each.where) for each in stages]

    toolkit.write("a.cu", "int cicc_fails;\n")
    passed = ("device_preprocess", "ran", "compute_80", "local")
    assert events() == [passed, ("cicc", "failed", "compute_80", "local")]
    toolkit.write("a.cu", "int a;\n")
    assert [event[1] for event in events()] == ["ran"] * 3
    assert events()[1:] == [("cicc", "hit", "compute_80", ""), ("ptxas", "hit", "sm_80", "")]


def test_a_failure_of_one_of_several_threads_is_left_to_nvcc(toolkit: Toolkit) -> None:
    """nvcc's own status is then another."""
    toolkit.write("a.cu", "int cicc_fails;\n")
    assert toolkit.compile("-cubin -arch=sm_80 -t 2 a.cu -o a.cubin").leave_to_nvcc == "odd_failure"


def test_a_product_that_cannot_be_written_is_left_to_nvcc(toolkit: Toolkit) -> None:
    toolkit.will_do(*[line.replace('"a.cubin"', '"gone/a.cubin"') for line in cubin()])
    report = toolkit.compile("-cubin -arch=sm_80 a.cu -o gone/a.cubin")
    assert report.leave_to_nvcc == "unwritable_output"


def test_the_dependency_file_is_there_even_if_the_compile_fails(toolkit: Toolkit) -> None:
    first, *others = cubin()
    toolkit.will_do(first, "-- Filter Dependencies -- > a.d", *others)
    toolkit.write("h.h", "int h;\n")
    toolkit.write("a.cu", '#include "h.h"\nint cicc_fails;\n')
    report = toolkit.compile("-cubin -arch=sm_80 a.cu -o a.cubin -MD -MF a.d")
    assert (report.status, report.leave_to_nvcc) == (2, "")
    assert (toolkit.work / "a.d").read_text().split()[-1] == "h.h"
    (toolkit.work / "a.d").unlink()
    (toolkit.work / "a.d").mkdir()
    report = toolkit.compile("-cubin -arch=sm_80 a.cu -o a.cubin -MD -MF a.d")
    assert report.leave_to_nvcc == "unwritable_output"


def test_messages_name_products_instead_of_scratch_files(toolkit: Toolkit) -> None:
    toolkit.write_tool("ptxas", '#!/bin/sh\nfor out; do :; done\necho "wrote $out" >&2\ncat "$3" >"$out"\n')
    report = toolkit.compile()
    assert report.stderr == b"wrote a.cubin\n"

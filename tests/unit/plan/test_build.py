"""From commands to a plan: edges, products, key components, and reasons for no plan."""

from __future__ import annotations

import pytest

from hand_made_plans import (
    CICC,
    COMPILE,
    CUDAFE,
    DEVICE,
    FATBINARY,
    HOST,
    LINK,
    PIPELINE,
    PTXAS,
    built,
    planned,
)
from nvccache.commandline.invocation import Bypass
from nvccache.plan.model import OPAQUE, Plan, Stage
from nvccache.plan.stages.tool import STUB_PLACEHOLDER
from nvccache.toolkit import dryrun


def _bypass(*lines, argv="-c a.cu") -> Bypass:
    found = built(lines, argv)
    assert isinstance(found, Bypass)
    return found


def _stage(found: Plan, kind: str) -> Stage:
    (stage,) = [stage for stage in found.stages if stage.kind == kind]
    return stage


def _changed(old: str, new: str, lines=PIPELINE) -> tuple[str, ...]:
    assert any(old in line for line in lines)
    return tuple(line.replace(old, new) for line in lines)


def test_file_names_with_blanks_and_commas_are_read_whole():
    found = planned(*_changed("/s/a.cubin", "/s/a b,c.cubin"))
    assert "/s/a b,c.cubin" in _stage(found, "fatbinary").inputs


def test_a_stub_file_named_behind_an_equals_sign_is_recognized():
    found = planned(*_changed('--stub_file_name "/s', '--stub_file_name="/s'))
    assert "--stub_file_name=<stub>" in _stage(found, "cicc").key_argv
    assert _stage(found, "cicc").output("stub")


def test_the_host_compile_is_known_to_include_stub_and_fatbin_text():
    found = planned(*PIPELINE)
    assert found.included["/s/a.cudafe1.cpp"] == ("/s/a.cudafe1.stub.c", "/s/a.fatbin.c")


def test_equally_named_products_of_two_directories_do_not_overwrite_each_other():
    found = planned(
        *('ptxas "e.ptx" -o "x/a.cubin"', 'ptxas "f.ptx" -o "y/a.cubin"'), argv="-cubin e.ptx f.ptx"
    )
    first, second = (stage.outputs[0] for stage in found.stages)
    assert first.path != second.path
    assert (first.destination, second.destination) == ("x/a.cubin", "y/a.cubin")


def test_stages_run_nvccs_words_unchanged_but_for_products_and_the_stub():
    found = planned(*PIPELINE)
    assert list(_stage(found, "cicc").argv) == dryrun.split_words(CICC)
    changed = set(_stage(found, "cudafe").argv) - set(dryrun.split_words(CUDAFE))
    assert changed == {STUB_PLACEHOLDER}


def test_names_of_intermediates_are_no_part_of_a_key():
    lines = [line.replace("/s/", "/other/") for line in PIPELINE]
    for old in ("a.cudafe1", "a.ptx", "a.cubin", "a.cpp1.ii"):  # with several architectures
        lines = [line.replace(old, old.replace("a.", "a.compute_80.", 1)) for line in lines]
    renamed = planned(*lines, scratch="/other")
    for stage, other in zip(planned(*PIPELINE).stages, renamed.stages, strict=True):
        assert stage.key_argv == other.key_argv
        assert stage.argv != other.argv


WITH_LINES = _changed("-arch compute_80", "-arch compute_80 -generate-line-info")
WITH_DEBUG = _changed("-arch compute_80", "-arch compute_80 -g")
# Lines, a change in them, and the stages whose keys it changes.
CHANGES = {
    "the path of the source": (PIPELINE, "/p/a.cu", "/elsewhere/a.cu", []),
    "the same with line information": (WITH_LINES, "/p/a.cu", "/elsewhere/a.cu", ["cicc"]),
    "the same with debug information": (WITH_DEBUG, "/p/a.cu", "/elsewhere/a.cu", ["cicc"]),
    "an added argument": (PIPELINE, "-arch=sm_80", "-arch=sm_80 --new-flag 7", ["ptxas"]),
    "two words in place of one": (_changed("-m64", '"-m64 -x"'), '"-m64 -x"', "-m64 -x", ["ptxas"]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_word_of_the_dry_run_changes_exactly_the_keys_of_affected_stages(case):
    lines, old, new, kinds = CHANGES[case]
    pairs = zip(planned(*lines).stages, planned(*_changed(old, new, lines)).stages, strict=True)
    assert [stage.kind for stage, other in pairs if stage.key_argv != other.key_argv] == kinds


def test_stages_keep_the_order_in_which_nvcc_prints_them():
    found = planned(DEVICE, CICC, PTXAS, FATBINARY, HOST, CUDAFE, COMPILE)
    assert [stage.argv[0] for stage in found.stages][:3] == ["gcc", "cicc", "ptxas"]


def test_a_file_of_the_user_named_in_a_command_may_be_an_input():
    found = planned('ptxas -arch=sm_80 "e.ptx" -o "e.cubin"', argv="-cubin e.ptx")
    (stage,) = found.stages
    assert stage.inputs == ()
    assert "e.ptx" in stage.possible_files


def test_a_file_named_within_a_word_may_be_an_input():
    found = planned(
        'fatbinary --create="m.fatbin" "--image3=kind=ptx,sm=80,file=e.ptx"', argv="-fatbin -o m.fatbin e.ptx"
    )
    assert "e.ptx" in found.stages[0].possible_files


def test_ptxas_checks_the_scratch_copy_of_ptx_that_is_also_the_output():
    cicc = CICC.replace('"/s/a.ptx"', '"a.ptx"')
    found = planned(DEVICE, cicc, 'ptxas -arch=compute_90 "a.ptx"', argv="-ptx a.cu -o a.ptx")
    made = next(output for output in found.stages[1].outputs if output.destination)
    check = found.stages[2]
    assert (check.inputs, check.argv[-1]) == ((made.path,), made.path)
    assert "a.ptx" not in (*check.key_argv, *check.possible_files)


@pytest.mark.parametrize(("architecture", "is_cached"), [("compute_80", True), ("sm_80", False)])
def test_ptxas_without_an_output_option_is_cached_only_for_a_virtual_architecture(architecture, is_cached):
    found = planned(*PIPELINE[:4], f'ptxas -arch={architecture} "/s/a.ptx"', *PIPELINE[4:])
    check = next(stage for stage in found.stages if stage.kind == "ptxas")
    assert (check.inputs, check.outputs, check.grammar.is_cached) == (("/s/a.ptx",), (), is_cached)


def test_an_unknown_tool_runs_but_is_not_cached():
    found = planned(*PIPELINE[:5], 'newtool --in "/s/a.cubin" -o "/s/a.extra"', *PIPELINE[5:])
    stage = _stage(found, OPAQUE)
    assert not stage.grammar.is_cached
    assert list(stage.argv) == ["newtool", "--in", "/s/a.cubin", "-o", "/s/a.extra"]


def test_files_named_by_an_unknown_tool_are_inputs_of_later_stages():
    fatbinary = FATBINARY.replace("/s/a.cubin", "/s/a.extra")
    found = planned(*PIPELINE[:5], 'newtool "/s/a.cubin" "/s/a.extra"', fatbinary, COMPILE)
    assert "/s/a.extra" in _stage(found, "fatbinary").inputs


@pytest.mark.parametrize("index", range(6))
def test_a_dry_run_where_no_command_writes_an_intermediate_is_bypassed(index):
    bypass = _bypass(*(line for number, line in enumerate(PIPELINE) if number != index))
    assert bypass.reason == "unexplained"
    assert "no command writes" in bypass.detail


NOT_PLANNED = {
    "an unknown option names an intermediate": (
        _changed("-arch=sm_80", '-arch=sm_80 --new-report="/s/a.report"'),
        "no command writes /s/a.report, but one reads it",
    ),
    "an unknown option writes an intermediate": (
        _changed("-arch compute_80", '-arch compute_80 --second-code "/s/a.second"'),
        "no command writes /s/a.second, but one reads it",
    ),
    "an output that is not kept is read": (
        _changed('"/s/a.ptx" -o "/s/a.cubin"', '"/s/a.cudafe1.gpu" -o "/s/a.cubin"'),
        "no command writes /s/a.cudafe1.gpu, but one reads it",
    ),
    "an unknown tool reads one": (
        [*PIPELINE[:4], 'newtool "/s/a.cudafe1.gpu"', *PIPELINE[4:]],
        "an unknown command may read `/s/a.cudafe1.gpu`, which is not written",
    ),
    "a producer comes after its reader": (
        [HOST, CUDAFE, DEVICE, PTXAS, CICC, FATBINARY, COMPILE],
        "no command writes /s/a.ptx, but one reads it",
    ),
    "nothing writes the product": (PIPELINE[:6], "no command writes the output file"),
    "nvcc removes a file elsewhere": ([*PIPELINE, "rm /tmp/a.ptx"], "nvcc removes /tmp/a.ptx"),
    "a depfile that nobody asked for": ([*PIPELINE, "-- Filter Dependencies -- > a.d"], "dependency file"),
}


@pytest.mark.parametrize("lines, detail", NOT_PLANNED.values(), ids=NOT_PLANNED)
def test_a_dry_run_with_unexplained_files_is_bypassed(lines, detail):
    bypass = _bypass(*lines)
    assert (bypass.reason, bypass.detail) == ("unexplained", detail)


def test_a_plan_must_make_every_requested_output():
    for argv in ("-c a.cu -o other.o", "-MD -c a.cu"):
        assert _bypass(*PIPELINE, argv=argv).reason == "unexplained"
    planned(*PIPELINE, "rm /s/a.ptx")


def test_two_commands_that_write_one_file_are_bypassed_as_equal_base_names():
    assert _bypass(*PIPELINE, *PIPELINE).reason == "same_base_name"


@pytest.mark.parametrize("others", [["one/x.cpp", "two/x.cpp"], ["a.cpp"]])
def test_inputs_whose_objects_would_have_one_name_are_bypassed(others):
    compiles = [f'gcc -c -x c++ -D__NVCC__ "{name}" -o "/s/{name[-5]}.o"' for name in others]
    device = COMPILE.replace('"a.o"', '"/s/a.o"')
    bypass = _bypass(*PIPELINE[:6], device, *compiles, LINK, argv=f"a.cu {' '.join(others)} -o x")
    assert bypass.reason == "same_base_name"


def test_text_written_by_an_unknown_tool_is_taken_to_include_stub_and_fatbin():
    renamed = CICC.replace("cicc ", "cicc-next ", 1)
    found = planned(HOST, CUDAFE, DEVICE, renamed, PTXAS, FATBINARY, COMPILE)
    assert found.included["/s/a.cudafe1.cpp"] == ("/s/a.cudafe1.stub.c", "/s/a.fatbin.c")
    renamed = CUDAFE.replace("cudafe++ ", "cudafe-next ", 1)
    found = planned(HOST, renamed, DEVICE, CICC, PTXAS, FATBINARY, COMPILE)
    assert found.included["/s/a.cudafe1.cpp"] == ("/s/a.cudafe1.stub.c", "/s/a.fatbin.c")


def test_a_cpp_source_is_one_cached_host_compile():
    (stage,) = planned('gcc -c -x c++ -D__NVCC__ "a.cpp" -o "a.o"', argv="-c a.cpp").stages
    assert (stage.kind, stage.grammar.is_cached, stage.grammar.reads_source) == ("host_compile", True, True)
    assert [output.destination for output in stage.outputs] == ["a.o"]
    assert "a.cpp" in stage.possible_files
    assert not planned(*PIPELINE).stages[-1].grammar.reads_source
    # nvcc leaves no object of `-ptx a.cpp`.
    line = 'gcc -c -x c++ -D__NVCC__ "a.cpp" -o "/s/a.o"'
    assert _bypass(line, argv="-ptx a.cpp").reason == "nothing_to_cache"


def test_preprocessed_text_as_the_product_is_bypassed():
    line = 'gcc -D__CUDA_ARCH_LIST__=800 -E "/s/a.cudafe1.cpp" -o "a.cu.cpp.ii"'
    assert _bypass(*PIPELINE[:6], line, argv="-cuda a.cu").reason == "preprocessed_product"
    assert _bypass(*PIPELINE[:6], line).reason == "unexplained"


def test_no_dependency_file_is_planned_where_nothing_is_preprocessed():
    found = planned('ptxas -arch=sm_80 -m64 "a.ptx" -o "a.cubin"', argv="-MD -cubin a.ptx")
    assert found.dependency_files == ()

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
from nvccache.plan.model import OPAQUE, DependencyFile, Plan, Stage
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


def test_a_pipeline_is_read_by_the_names_of_its_tools():
    kinds = [stage.kind for stage in planned(*PIPELINE).stages]
    assert kinds == [
        "host_preprocess",
        "cudafe",
        "device_preprocess",
        "cicc",
        "ptxas",
        "fatbinary",
        "host_compile",
    ]


def test_tools_are_known_wherever_they_are():
    found = planned(*_changed("ptxas ", '"/cuda 13/bin"/ptxas '))
    assert _stage(found, "ptxas").argv[0] == "/cuda 13/bin/ptxas"


def test_a_host_compiler_can_have_any_name():
    lines = [line.replace("gcc ", "my-c++ ", 1) for line in PIPELINE]
    assert _stage(planned(*lines), "host_compile").argv[0] == "my-c++"


def test_a_stage_reads_what_its_words_name():
    found = planned(*PIPELINE)
    assert _stage(found, "cicc").inputs == ("/s/a.cpp1.ii",)
    assert _stage(found, "fatbinary").inputs == ("/s/a.cubin", "/s/a.ptx")


def test_a_name_with_blanks_and_commas_is_read_to_its_end():
    found = planned(*_changed("/s/a.cubin", "/s/a b,c.cubin"))
    assert "/s/a b,c.cubin" in _stage(found, "fatbinary").inputs


def test_the_value_of_an_option_may_follow_an_equals_sign():
    found = planned(*_changed('--stub_file_name "/s', '--stub_file_name="/s'))
    assert "--stub_file_name=<stub>" in _stage(found, "cicc").key_argv
    assert _stage(found, "cicc").output("stub")


def test_the_compile_includes_the_stub_and_the_text_of_the_container():
    found = planned(*PIPELINE)
    assert found.included["/s/a.cudafe1.cpp"] == ("/s/a.cudafe1.stub.c", "/s/a.fatbin.c")


def test_a_product_is_first_written_in_the_scratch_directory():
    output = _stage(planned(*PIPELINE), "host_compile").outputs[0]
    assert output.destination == "a.o"
    assert output.path.startswith("/s/") and output.path.endswith("/a.o")


def test_products_of_one_name_do_not_meet_in_the_scratch_directory():
    found = planned(
        *('ptxas "e.ptx" -o "x/a.cubin"', 'ptxas "f.ptx" -o "y/a.cubin"'), argv="-cubin e.ptx f.ptx"
    )
    first, second = (stage.outputs[0] for stage in found.stages)
    assert first.path != second.path
    assert (first.destination, second.destination) == ("x/a.cubin", "y/a.cubin")


def test_an_intermediate_knows_the_products_it_ends_up_in():
    found = planned(*PIPELINE)
    assert set(found.destinations.values()) == {("a.o",)}
    assert "/s/a.fatbin.c" in found.destinations


def test_every_word_is_run_as_it_stands_but_for_products_and_the_stub():
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


def test_the_path_of_the_source_is_no_part_of_a_key():
    moved = planned(*_changed("/p/a.cu", "/elsewhere/a.cu"))
    found = planned(*PIPELINE)
    assert _stage(moved, "cicc").key_argv == _stage(found, "cicc").key_argv
    assert _stage(moved, "cudafe").key_argv == _stage(found, "cudafe").key_argv


@pytest.mark.parametrize("option", ["-g", "-generate-line-info"])
def test_the_path_of_the_source_is_part_of_a_key_with_line_information(option):
    lines = _changed("-arch compute_80", f"-arch compute_80 {option}")
    moved = planned(*_changed("/p/a.cu", "/elsewhere/a.cu", lines))
    assert _stage(moved, "cicc").key_argv != _stage(planned(*lines), "cicc").key_argv


def test_an_added_argument_changes_the_key_of_its_stage_alone():
    found, added = planned(*PIPELINE), planned(*_changed("-arch=sm_80", "-arch=sm_80 --new-flag 7"))
    changed = [
        stage.kind
        for stage, other in zip(found.stages, added.stages, strict=True)
        if stage.key_argv != other.key_argv
    ]
    assert changed == ["ptxas"]


def test_words_that_a_blank_separates_are_not_one_word_in_a_key():
    found = planned(*_changed("-m64", '"-m64 -x"')), planned(*_changed("-m64", "-m64 -x"))
    assert _stage(found[0], "ptxas").key_argv != _stage(found[1], "ptxas").key_argv


def test_the_order_of_stages_is_nvccs_and_may_be_any_that_has_producers_first():
    found = planned(DEVICE, CICC, PTXAS, FATBINARY, HOST, CUDAFE, COMPILE)
    assert [stage.argv[0] for stage in found.stages][:3] == ["gcc", "cicc", "ptxas"]


def test_an_input_of_the_user_is_a_possible_file_and_no_edge():
    found = planned('ptxas -arch=sm_80 "e.ptx" -o "e.cubin"', argv="-cubin e.ptx")
    (stage,) = found.stages
    assert stage.inputs == ()
    assert "e.ptx" in stage.possible_files


def test_a_file_in_the_middle_of_a_word_is_a_possible_file():
    found = planned(
        'fatbinary --create="m.fatbin" "--image3=kind=ptx,sm=80,file=e.ptx"',
        argv="-fatbin -o m.fatbin e.ptx",
    )
    assert "e.ptx" in found.stages[0].possible_files


def test_a_product_that_is_read_where_it_will_lie_is_an_intermediate():
    cicc = CICC.replace('"/s/a.ptx"', '"a.ptx"')
    found = planned(DEVICE, cicc, 'ptxas -arch=compute_90 "a.ptx"', argv="-ptx a.cu -o a.ptx")
    made = next(output for output in found.stages[1].outputs if output.destination)
    check = found.stages[2]
    assert (check.inputs, check.argv[-1]) == ((made.path,), made.path)
    assert "a.ptx" not in (*check.key_argv, *check.possible_files)


def test_ptxas_without_an_output_is_a_stage_without_outputs():
    found = planned(*PIPELINE[:4], 'ptxas -arch=compute_80 "/s/a.ptx"', *PIPELINE[4:])
    check = next(stage for stage in found.stages if stage.kind == "ptxas")
    assert (check.inputs, check.outputs, check.grammar.is_cached) == (("/s/a.ptx",), (), True)


def test_ptxas_that_writes_a_file_of_its_own_naming_is_not_cached():
    found = planned(*PIPELINE[:4], 'ptxas -arch=sm_80 "/s/a.ptx"', *PIPELINE[4:])
    assert not next(stage for stage in found.stages if stage.kind == "ptxas").grammar.is_cached


def test_several_stages_may_read_one_file():
    second = PTXAS.replace("sm_80", "sm_86").replace("a.cubin", "a.sm_86.cubin")
    fatbinary = FATBINARY.replace(
        " --embedded", ' "--image3=kind=elf,sm=86,file=/s/a.sm_86.cubin" --embedded'
    )
    found = planned(*PIPELINE[:5], second, fatbinary, COMPILE)
    assert "/s/a.sm_86.cubin" in _stage(found, "fatbinary").inputs


def test_an_unknown_tool_runs_but_is_not_cached():
    found = planned(*PIPELINE[:5], 'newtool --in "/s/a.cubin" -o "/s/a.extra"', *PIPELINE[5:])
    stage = _stage(found, OPAQUE)
    assert not stage.grammar.is_cached
    assert list(stage.argv) == ["newtool", "--in", "/s/a.cubin", "-o", "/s/a.extra"]


def test_what_an_unknown_tool_names_may_be_read_after_it():
    fatbinary = FATBINARY.replace("/s/a.cubin", "/s/a.extra")
    found = planned(*PIPELINE[:5], 'newtool "/s/a.cubin" "/s/a.extra"', fatbinary, COMPILE)
    assert "/s/a.extra" in _stage(found, "fatbinary").inputs


@pytest.mark.parametrize("index", range(6))
def test_without_the_producer_of_an_intermediate_there_is_no_plan(index):
    bypass = _bypass(*(line for number, line in enumerate(PIPELINE) if number != index))
    assert bypass.reason == "unexplained"
    assert "no command writes" in bypass.detail


NOT_PLANNED = {
    "an unknown option names an intermediate": (
        _changed("-arch=sm_80", '-arch=sm_80 --new-report="/s/a.report"'),
        "no command writes /s/a.report",
    ),
    "an unknown option writes an intermediate": (
        _changed("-arch compute_80", '-arch compute_80 --second-code "/s/a.second"'),
        "no command writes /s/a.second",
    ),
    "an output that is not kept is read": (
        _changed('"/s/a.ptx" -o "/s/a.cubin"', '"/s/a.cudafe1.gpu" -o "/s/a.cubin"'),
        "no command writes /s/a.cudafe1.gpu",
    ),
    "an unknown tool reads one": (
        [*PIPELINE[:4], 'newtool "/s/a.cudafe1.gpu"', *PIPELINE[4:]],
        "nothing keeps /s/a.cudafe1.gpu",
    ),
    "a producer comes after its reader": (
        [HOST, CUDAFE, DEVICE, PTXAS, CICC, FATBINARY, COMPILE],
        "no command writes /s/a.ptx",
    ),
    "nothing writes the product": (PIPELINE[:6], "no command writes the product"),
    "nvcc removes a file elsewhere": ([*PIPELINE, "rm /tmp/a.ptx"], "nvcc removes /tmp/a.ptx"),
    "a depfile that nobody asked for": ([*PIPELINE, "-- Filter Dependencies -- > a.d"], "dependency file"),
}


@pytest.mark.parametrize("lines, detail", NOT_PLANNED.values(), ids=NOT_PLANNED)
def test_what_is_not_explained_has_no_plan(lines, detail):
    bypass = _bypass(*lines)
    assert (bypass.reason, bypass.detail) == ("unexplained", detail)


def test_what_was_asked_for_must_be_made():
    for argv in ("-c a.cu -o other.o", "-MD -c a.cu"):
        assert _bypass(*PIPELINE, argv=argv).reason == "unexplained"
    planned(*PIPELINE, "rm /s/a.ptx")


def test_two_producers_of_one_file_are_two_sources_of_one_name():
    assert _bypass(*PIPELINE, *PIPELINE).reason == "same_base_name"


@pytest.mark.parametrize("others", [["one/x.cpp", "two/x.cpp"], ["a.cpp"]])
def test_objects_of_plain_sources_overwrite_none_of_another_input(others):
    compiles = [f'gcc -c -x c++ -D__NVCC__ "{name}" -o "/s/{name[-5]}.o"' for name in others]
    device = COMPILE.replace('"a.o"', '"/s/a.o"')
    bypass = _bypass(*PIPELINE[:6], device, *compiles, LINK, argv=f"a.cu {' '.join(others)} -o x")
    assert bypass.reason == "same_base_name"


def test_what_an_unknown_tool_has_written_may_include_any_text():
    renamed = CICC.replace("cicc ", "cicc-next ", 1)
    found = planned(HOST, CUDAFE, DEVICE, renamed, PTXAS, FATBINARY, COMPILE)
    assert found.included["/s/a.cudafe1.cpp"] == ("/s/a.cudafe1.stub.c", "/s/a.fatbin.c")
    renamed = CUDAFE.replace("cudafe++ ", "cudafe-next ", 1)
    found = planned(HOST, renamed, DEVICE, CICC, PTXAS, FATBINARY, COMPILE)
    assert found.included["/s/a.cudafe1.cpp"] == ("/s/a.cudafe1.stub.c", "/s/a.fatbin.c")


def test_source_without_device_code_is_one_cached_stage():
    (stage,) = planned('gcc -c -x c++ -D__NVCC__ "a.cpp" -o "a.o"', argv="-c a.cpp").stages
    assert (stage.kind, stage.grammar.is_cached, stage.grammar.reads_source) == ("host_compile", True, True)
    assert [output.destination for output in stage.outputs] == ["a.o"]
    assert "a.cpp" in stage.possible_files
    assert not planned(*PIPELINE).stages[-1].grammar.reads_source
    # nvcc leaves no object of `-ptx a.cpp`.
    line = 'gcc -c -x c++ -D__NVCC__ "a.cpp" -o "/s/a.o"'
    assert _bypass(line, argv="-ptx a.cpp").reason == "nothing_to_cache"


def test_preprocessed_text_is_no_product():
    line = 'gcc -D__CUDA_ARCH_LIST__=800 -E "/s/a.cudafe1.cpp" -o "a.cu.cpp.ii"'
    assert _bypass(*PIPELINE[:6], line, argv="-cuda a.cu").reason == "preprocessed_product"
    assert _bypass(*PIPELINE[:6], line).reason == "unexplained"


def test_the_dependency_file_is_made_of_all_passes_before_it():
    found = planned(
        DEVICE, HOST, "-- Filter Dependencies -- > a.d", CUDAFE, *PIPELINE[3:], argv="-MD -c a.cu"
    )
    steps = [step for step in found.steps if isinstance(step, DependencyFile)]
    assert steps == [DependencyFile("a.d", ("/s/a.cpp1.ii", "/s/a.cpp4.ii"))]


def test_no_dependency_file_is_written_where_nothing_is_preprocessed():
    found = planned('ptxas -arch=sm_80 -m64 "a.ptx" -o "a.cubin"', argv="-MD -cubin a.ptx")
    assert found.dependency_files == ()

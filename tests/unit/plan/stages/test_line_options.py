"""Whether a call depends on line numbers: every option counts unless tests showed that it does not."""

from __future__ import annotations

import pytest

from hand_made_plans import CICC, COMPILE, CUDAFE, PIPELINE, planned
from nvccache.plan.stages import line_options
from nvccache.toolkit import dryrun
from nvccache.values import replace

HOST_WORDS = "-m64 -Wno-psabi -Iinclude -isystem i -DX=1 -std=c++17"
CUDAFE_WORDS = (
    " --c++17 --static-host-stub --device-hidden-visibility --gnu_version=120200 --diag_suppress 177"
    " --promote_warnings --context_limit=0 --pending_instantiations=2048 --colors"
    " --allow_managed --extended-lambda --relaxed_constexpr --m64 --parse_templates "
)
CICC_WORDS = (
    " --c++17 --context_limit=0 --pending_instantiations=2048 --brief_diagnostics"
    " --device-c -arch compute_80 -kernel-params-are-restrict -m64 --no-version-ident -ftz=1"
    " -prec_div=0 -prec_sqrt=0 -fmad=1 -fast-math --gen_div_approx_ftz -maxreg 32 -tused "
)
# Options that no list may contain: those that make line numbers reach a result, and unknown ones.
OTHERS_OF_CICC = """
-g; -g -O0; -lineinfo; -generate-line-info; -O0; -O1; -opt=0; --Ofast-compile=max; -show-src;
-olto f; --emit-optix-ir; -lto; -split-compile 2; --unknown; -arch=x -unknown; --gen_optix_ir;
--nvvmir-library f; -w -g; -ftz2=1; --enable-tile; -device-c
"""
OTHERS_OF_THE_HOST = """
-g; -g1; -ggdb; -gdwarf-4; -g0; -gsplit-dwarf; -Og; -flto; -flto=auto; -pg; -p;
-fsanitize=undefined; -fsanitize=address; -fsanitize-undefined-trap-on-error; -fprofile-arcs;
--coverage; -finstrument-functions; -fopenacc; -fopenmp-simd; -Wa,-g; -Wp,-C; -Wl,-r; -C; -CC;
-P; -traditional-cpp; -fdirectives-only; -fpreprocessed; -S; -save-temps;
-frecord-gcc-switches; -fverbose-asm; -fcf-protection; -mfentry; --param x; -Xassembler -g;
-ftemplate-anything; -falign-loops-9; -flto=4; -fmerge-constants-x;
-fno-such-thing; -fcontracts; -O2 -g; -march=native -flto; -fPICK; -O4; -m65; -fvisibility;
-include x.h; -imacros x.h
"""
ORDINARY = """
-O2; -O3; -Os; -Ofast; -fPIC; -fno-exceptions; -fopenmp; -pthread; -pipe; -w; -Wall; -Wextra
-Werror=return-type; -march=native; -mavx2; -mno-red-zone; -fvisibility=hidden; -ffast-math;
-ffunction-sections -fdata-sections; -fdiagnostics-color=always; -U X; -iquote i;
-ftemplate-backtrace-limit=0; -ftemplate-depth-2048; -ftemplate-depth=900; -fmax-errors=3; -fno-lto;
-fconstexpr-ops-limit=1000; -faligned-new; -fno-gnu-unique; -fno-show-column; -mprefer-vector-width=256;
-fstack-clash-protection; -falign-functions=32; -fno-builtin; -pedantic-errors; -fno-tree-slp-vectorize;
-ffile-prefix-map=/a=/b; -fstack-protector-strong; -D_GLIBCXX_ASSERTIONS; -std=gnu++20
"""


def each(options: str) -> list[str]:
    return [" ".join(option.split()) for option in options.split(";")]


def matter_to(line: str, words: str, options: str = "") -> bool:
    """Whether line numbers matter to a stage with these further arguments."""
    tool, *argv = dryrun.split_words(line)
    matters = line_options.matter_to_host_compiler if tool == "gcc" else line_options.matter_to_cuda_tool
    return matters([tool, *words.split(), *options.split(), *argv])


def test_line_numbers_matter_to_no_stage_of_an_ordinary_compile():
    for line, words in ((CUDAFE, CUDAFE_WORDS), (CICC, CICC_WORDS), (COMPILE, HOST_WORDS)):
        assert not matter_to(line, words)
    assert not any(stage.lines_matter for stage in planned(*PIPELINE).stages)


@pytest.mark.parametrize("options", each(OTHERS_OF_CICC))
def test_line_numbers_matter_to_cicc_with_any_option_not_known_as_harmless(options):
    assert matter_to(CICC, CICC_WORDS, options)


@pytest.mark.parametrize("options", ["--debug_mode", "-g", "--unknown=1", "-tused2", "--sys_include i"])
def test_line_numbers_matter_to_cudafe_with_any_option_not_known_as_harmless(options):
    assert matter_to(CUDAFE, CUDAFE_WORDS, options)


@pytest.mark.parametrize("options", each(OTHERS_OF_THE_HOST))
def test_line_numbers_matter_to_a_host_compile_with_options_not_known_as_harmless(options):
    assert matter_to(COMPILE, HOST_WORDS, options)


@pytest.mark.parametrize("options", each(ORDINARY))
def test_line_numbers_do_not_matter_to_a_host_compile_with_common_options(options):
    assert not matter_to(COMPILE, HOST_WORDS, options)


@pytest.mark.parametrize("kind", ["cudafe", "cicc", "ptxas", "host_compile", "opaque"])
def test_each_tool_decides_whether_line_numbers_matter_to_its_stages(kind):
    """ptxas reads no lines of the source; of a command that is not understood nothing is known."""
    stages = {stage.kind: stage for stage in planned(*PIPELINE).stages}
    stage = stages.get(kind, stages["cicc"])
    stage = replace(stage, grammar=replace(stage.grammar, kind=kind), argv=(*stage.argv, "-g"))
    assert stage.lines_matter == (kind != "ptxas")


@pytest.mark.parametrize("option", ["-DX=a\nb", "-I/a\nb", "-std=c++17\n", "-O2\n", "-DX\n"])
def test_a_line_break_in_an_option_makes_line_numbers_matter(option):
    assert line_options.matter_to_host_compiler(["g++", option])


@pytest.mark.parametrize(
    ("added", "matters"),
    [
        ("-O2 -fPIC", False), ("-B/x -Wl,-z,now -L/l -lm --sysroot=/s -nostdinc++ -isysroot", False),
        ("--param ssp-buffer-size=4 -O2", False), ("--param=ssp-buffer-size=4", False), ("", False),
        ("-O2 -fmystery", True), ("--param ssp-buffer-size=x", True), ("-O2 --param", True),
        ("-O2 @file", True), ("-O2\t-fPIC", True), ("-nostdincx", True),
    ],
)  # fmt: skip
def test_line_numbers_matter_with_options_of_a_wrapper_that_are_not_known_as_harmless(added, matters):
    words = [word.replace("\t", "\n") for word in added.split(" ")]
    assert line_options.matter_if_added(words) == matters

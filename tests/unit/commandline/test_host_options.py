"""Which options for the host compiler bypass a call, and which only leave its host compile uncached."""

import pytest

from nvccache import outcomes
from nvccache.commandline.host_options import is_link, side_files
from nvccache.commandline.invocation import Bypass, Invocation, parse


def _reason(*argv, **environ):
    found = parse(argv, environ)
    return found.reason if isinstance(found, Bypass) else None


HOST = {
    "host_side_output": r"""
        -MD; -MMD; -MF,x.d; -Wp\,-MD\,x.d; -Xpreprocessor,-MMD; -save-temps; -save-temps=obj; --save-temps;
        -fdump-tree-all; -da; -dumpdir,x; -aux-info,x; -o,x; --output=x; -Wa\,-adhln=x.s; -Wa\,--MD\,x.d;
        -Xassembler,-a=x; -ftime-trace; -fsave-optimization-record; -fopt-info-vec=x;
        -Xclang,-dependency-file,-Xclang,x; -g -MD; '-MD'; -Xassembler,--x,-Wp\,-MD\,x.d
    """,
    "host_hidden_inputs": r"@x; -specs=x; --specs=x; -wrapper,x; -fplugin=x.so; -B/x; -Wa\,@x",
    "host_hides_sources": r"-P; -Wp\,-P; -Xpreprocessor,-P; --no-line-commands",
    "time_report": "-ftime-report; -time; -time=x; -Q; -fmem-report",
}


def test_files_that_gcc_writes_beside_an_object_are_named_after_the_object():
    assert side_files(["-O2", "-gsplit-dwarf", "-fstack-usage"], "o/a.c.o") == ["o/a.c.dwo", "o/a.c.su"]
    assert side_files(["-fprofile-arcs", "-ftest-coverage", "--coverage"], "a.o") == ["a.gcno"]
    assert side_files(["--coverage"], "a.obj") == side_files(["--coverage"], "/dev/null") == []
    assert side_files(["-fprofile-arcs"], "a.o") == side_files(["-O2"], "a.o") == []
    assert side_files(["--coverage", "-fprofile-use"], "a.o") == []


def test_a_host_command_with_a_group_of_libraries_is_a_link():
    assert is_link(["g++", "a.o", "-Wl,--start-group", "-lcudart", "-Wl,--end-group"]) is True
    assert is_link(["g++", "-c", "a.cpp"]) is False


@pytest.mark.parametrize("value", ["--coverage", "-fprofile-use=x", "-gsplit-dwarf", "-fstack-usage"])
def test_host_options_that_make_side_files_are_supported_only_with_dash_c(value):
    found = parse(("-c", "a.cu", "-Xcompiler", value), {})
    assert isinstance(found, Invocation) and found.host_flags == (value,)
    for line in ("a.cu -o a", "a.o -shared", "-dlink a.o", "-rdc=true a.cu"):
        assert _reason(*line.split(), "-Xcompiler", value) == "host_side_output"


@pytest.mark.parametrize(
    ("reason", "value"), [(r, value.strip()) for r, values in HOST.items() for value in values.split(";")]
)
def test_unsupported_host_options_are_left_to_nvcc_with_their_reason(reason, value):
    assert reason in outcomes.REASONS
    assert _reason("-c", "a.cu", "-Xcompiler", value) == reason
    assert _reason("-c", "a.cu", f"--compiler-options={value}") == reason


@pytest.mark.parametrize("word", ["-fopt-info", "-MQ", "-Wp,-MD,x", "-fdump-tree-all"])
def test_unsupported_host_options_are_bypassed_where_unknown_options_are_forwarded(word):
    assert _reason("-forward-unknown-to-host-compiler", word, "-c", "a.cu") == "host_side_output"
    assert _reason("-c", "a.cu", word, "-forward-unknown-opts") == "host_side_output"


@pytest.mark.parametrize(
    "variable", ["DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "CC_PRINT_OPTIONS", "CCC_OVERRIDE_OPTIONS"]
)
def test_variables_that_make_gcc_write_files_cause_a_bypass(variable):
    assert _reason("-c", "a.cu", **{variable: "x"}) == "environment_side_output"
    assert _reason("-c", "a.cu", **{variable: ""}) == "environment_side_output"

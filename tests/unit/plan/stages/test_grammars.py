"""How the command lines of the CUDA tools are read: by name, whatever the position."""

from __future__ import annotations

import pytest

from nvccache.plan.stages import grammar_of, host
from nvccache.plan.stages.tool import MENTIONS, NAMES, PLAIN, READS, WRITES, Grammar, Piece, pieces

GRAMMAR = Grammar(
    kind="test",
    writes={"-o": "output", "--create": "container"},
    mentions={"--stub": "stub"},
    names={"--source": "source name"},
)


def _pieces(*argv: str) -> list[Piece]:
    return list(pieces(["tool", *argv], GRAMMAR, "/s"))


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (["-o", "a.o"], [Piece("-o", "", PLAIN, ""), Piece("", "a.o", WRITES, "output")]),
        (["--create=a b"], [Piece("--create=", "a b", WRITES, "container")]),
        (["--stub=x=y"], [Piece("--stub=", "x=y", MENTIONS, "stub")]),
        (["--source", "-o"], [Piece("--source", "", PLAIN, ""), Piece("", "-o", NAMES, "source name")]),
        (["/s/a.ptx"], [Piece("", "/s/a.ptx", READS, "input")]),
        (["--image=kind=elf,file=/s/a b"], [Piece("--image=kind=elf,file=", "/s/a b", READS, "input")]),
        (['-DF="/s/f"'], [Piece('-DF="', "/s/f", READS, "input", '"')]),
        (["-opt", "-o2"], [Piece("-opt", "", PLAIN, ""), Piece("-o2", "", PLAIN, "")]),
        (["/sibling/a"], [Piece("/sibling/a", "", PLAIN, "")]),
        (["-o"], [Piece("-o", "", PLAIN, "")]),
        ([], []),
    ],
)
def test_words_of_a_tool_command_are_read_as_its_options_describe(argv, found):
    assert _pieces(*argv) == found


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("/cuda/bin/cudafe++ x", "cudafe"),
        ("cicc x", "cicc"),
        ("/a/b/ptxas x", "ptxas"),
        ("fatbinary x", "fatbinary"),
        ("gcc -D__CUDA_ARCH_LIST__=800 -E a.cu", "host_preprocess"),
        ("gcc -D__CUDACC__ -D__NVCC__ -E a.cu", "host_preprocess"),
        ("clang++-14 -E -D__CUDA_ARCH__=800 a.cu", "device_preprocess"),
        ("cc -D__CUDA_ARCH__=800 -c /s/a.compute_80.cudafe1.cpp -o a.o", "host_compile"),
        ("cc -c -x c++ /opt/cuda/bin/crt/link.stub -o a.o", "host_compile"),
        ("cc -D__NVCC__ -c a.cpp -o a.o", "host_compile"),
        ("nvlink --arch=sm_80 a.o -o /s/a.cubin", "nvlink"),
        ("cc -m64 -Wl,--start-group /s/a.o -Wl,--end-group -o a", "host_link"),
    ],
)
def test_commands_of_a_dry_run_are_recognized_by_program_or_by_nvccs_macros(line, kind):
    found = grammar_of(line.split())
    assert found and found.kind == kind


@pytest.mark.parametrize(
    "line",
    ["nvlink-12 x", "ptxas-12 x", "gcc -c a.cpp", "gcc -D__NVCC__ -S a.cpp -o a.s", "g++ a.o -o a", "ar x"],
)
def test_unknown_commands_of_a_dry_run_are_not_understood(line):
    assert grammar_of(line.split()) is None


@pytest.mark.parametrize("words", ["-g", "-g3", "-ggdb", "-gdwarf-4", "-g0 -g", "-g -gno-column-info"])
def test_options_of_gcc_that_make_debug_information_are_recognized(words):
    assert host.has_debug_info(["gcc", *words.split(), "-c"])


@pytest.mark.parametrize("words", ["-g -g0", "-gno-column-info", "-O2"])
def test_options_of_gcc_that_make_no_debug_information_are_recognized(words):
    assert not host.has_debug_info(["gcc", *words.split(), "-c"])


@pytest.mark.parametrize("word", ["-B/x", "-fplugin=x.so", "-specs=x", "--config=x", "@file", "-wrapper"])
def test_gcc_options_that_load_unknown_programs_prevent_caching(word):
    line = ["gcc", "-D__CUDA_ARCH__=800", word, "-c", "/s/a.cudafe1.cpp", "-o", "a.o"]
    found = grammar_of(line)
    assert found and not found.is_cached


# What is true of each command line of a tool, as far as it is not true by default.
TRAITS = {
    "cicc x.ii": "",
    "cicc -g x.ii": "sees_directory",
    "cicc -g -generate-line-info -o a.ptx x.ii": "sees_directory",
    "cicc -generate-line-info -olto x -o a.ptx x.ii": "sees_directory",
    "cicc -generate-line-info -o a.ptx x.ii": "sees_directory joins_directory",
    "cudafe++ x.ii": "",
    "ptxas -o x.cubin x.ptx": "",
    "ptxas -arch=compute_80 x.ptx": "",
    "ptxas x.ptx": "not_cached stays_in_order",
    "ptxas --output-file=x.cubin --generate-line-info x.ptx": "dates_sources",
    "ptxas -g -o x.cubin x.ptx": "sees_names sees_output_names dates_sources",
    "ptxas --device-debug -o x.cubin x.ptx": "sees_names sees_output_names dates_sources",
    "nvlink a.o -o x.cubin": "",
    "nvlink -nvvmpath=/cuda a.o -o x.cubin": "dates_linked_sources",
    "nvlink --options-file=x a.o -o x.cubin": "not_cached",
    "gcc -D__NVCC__ -E a.cu -o /s/a.ii": "sees_directory may_include",
    "gcc -D__NVCC__ -E a.cu -wrapper x -o /s/a.ii": "sees_directory not_cached may_include",
    "gcc -D__CUDA_ARCH__=800 -E a.cu -o /s/a.ii": "sees_directory may_include",
    "gcc -D__CUDA_ARCH__=800 -c a.cudafe1.cpp -o a.o": "sees_names may_include",
    "gcc -D__CUDA_ARCH__=800 -c a.cudafe1.cpp -g -o a.o": "sees_directory sees_names may_include",
    "gcc -D__CUDA_ARCH__=800 -c a.cudafe1.cpp -fstack-usage -o a.o": "sees_names may_include writes_beside",
    "gcc -D__CUDA_ARCH__=800 -c a.cudafe1.cpp -fprofile-use -o a.o": "not_cached may_include stays_in_order",
    "gcc -D__NVCC__ -c a.cpp -o a.o": "sees_directory sees_names may_include reads_source stays_in_order",
    "gcc -c /cuda/crt/link.stub -o a.o": "may_include",
    "gcc -c /cuda/crt/link.stub -g -o a.o": "sees_directory sees_names may_include",
    "gcc -Wl,--start-group a.o -Wl,--end-group -o a": "not_cached stays_in_order",
}


@pytest.mark.parametrize("line", TRAITS)
def test_what_a_stage_depends_on_follows_from_the_options_of_its_tool(line):
    found, default = grammar_of(line.split()), Grammar("x")
    names = [name for name in Grammar.__slots__ if isinstance(getattr(default, name), bool)]
    differing = [name for name in names if getattr(found, name) != getattr(default, name)]
    assert " ".join(differing).replace("is_cached", "not_cached") == TRAITS[line]


@pytest.mark.parametrize(
    ("options", "names_checkout"),
    [
        ("-O2", False), ("-g", True), ("-g -ffile-prefix-map=/base=x", False),
        ("-g -fdebug-prefix-map==x", True),
        ("-g -fdebug-prefix-map=/base/one/=x", False), ("-g -fdebug-prefix-map=/base/on=x", True),
        ("-g -ffile-prefix-map=/base/one/below=x", True), ("-g -fmacro-prefix-map=/base=x", True),
    ],
)  # fmt: skip
def test_debug_information_names_the_checkout_unless_its_path_is_mapped(options, names_checkout):
    words = ["gcc", *options.split(), "-c", "a.cudafe1.cpp"]
    assert host.COMPILE.names_directory(words, "/base/one", "/base/one") == names_checkout
    assert host.COMPILE.names_directory(words, "/base/one", "/link/one") == ("-g" in words)
    added = ("-fdebug-prefix-map=/tmp/s=/tmp/nvccache",) if "-g" in words else ()
    assert host.COMPILE.added_options(words, "/tmp/s") == added


def test_a_fatbin_is_stored_only_where_the_call_asks_for_it():
    product = grammar_of(["fatbinary", "--create=m.fatbin"])
    by_the_way = grammar_of(["fatbinary", "--create=/s/a.fatbin", "--embedded-fatbin=/s/a.fatbin.c"])
    assert product and not product.unread
    assert by_the_way and by_the_way.unread == {"fatbin"}

"""Which calls are cached, what is parsed from them, and why the others are bypassed."""

import itertools
import os
import re
import subprocess

import pytest

from nvccache import outcomes
from nvccache.commandline import invocation
from nvccache.commandline.invocation import MODES, Bypass, Invocation, parse


def _parse(*argv, **environ):
    return parse(argv, environ)


def _compiled(*argv, **environ):
    found = parse(argv, environ)
    assert isinstance(found, Invocation), found
    return found


def _reason(*argv, **environ):
    found = parse(argv, environ)
    return found.reason if isinstance(found, Bypass) else None


# Lines for each reason, and below for each mode.
BYPASSES = {
    "information": """
        -c; -E; -M -o a.d; -V -nonsense; -V -keep; --dryrun -c a.cu; -dryrun -E a.cu; -hls=gen-lcs
    """,
    "unknown_option": """
        -c a.cu -Wall; -c a.cu -o; -c a.cu -v -MQ t; -c a.cu --cicc-prefix time;
        -forward-unknown-opts -c a.cu --cicc-prefix time; -forward-unknown-opts -c a.cu -Os
    """,
    "verbose": "-v -c a.cu; --verbose a.cu; -v2 -c a.cu",
    "time_report": """
        -time - -c a.cu; --time=t.csv -c a.cu; -fdevice-time-trace - -c a.cu;
        -Xcompiler -ftime-report -c a.cu; -Xcompiler -Q -c a.cu
    """,
    "keeps_intermediates": """
        -objtemp -c a.cu; -keep -objtemp -c a.cu; -keep -c a.cu; -save-temps -keep-dir k -ptx a.cu;
        -keep-dir k -c a.cu; -keep -c a.cu -keep-dir $HOME
    """,
    "run": "-run a.cu; -clean -c a.cu; -run -c a.cu",
    "preprocess_only": "-E -keep a.cu; -M -save-temps a.cu",
    "library": "-lib a.o; -lib -c a.cu",
    "standard_input": """
        -x cu -c -; -x cu -c - -o a.o; -x cu -c /dev/null; -x cu -c /dev/stdin; -x cu -c /proc/self/fd/0;
        -x cu -c /proc/version
    """,
    "standard_output": """
        -ptx a.cu -o -; a.cu -o /dev/null; -c a.cu -MD -o /dev/null; -E a.cu -o /dev/null;
        -c a.cu -o /dev/stdout; -c a.cu -o /proc/self/fd/1; -c a.cu -o /proc/never;
        -c a.cu -o /dev/never/a.o; -c a.cu -MD -MF -; -c a.cu -MD -MF /dev/stdout
    """,
    "dryrun_failed": "-c a.cu -MF a.d; -E a.cu -MF a.d; -c a.cu -MT x -MP -MF a.d",
    "shell_expansion": r"""
        -c a.cu -o $HOME/a.o; -c a.cu -o `id`; -c a.cu -o a\b.o; -ptx a.cu -odir $HOME;
        -M a.cu -o $HOME/a.d; -c a.cu -Xcompiler -DX=$HOME;
        -c a.cu -Xcompiler `id`; -c a.cu -Xcompiler -DX=[1]; -c a.cu -forward-unknown-opts -DX=a -Wa,*
    """,
    "device_tool_files": """
        -c a.cu -Xptxas -o,x; -c a.cu -Xptxas --output-file=x; -c a.cu -Xptxas --options-file,x;
        -c a.cu -Xptxas -optf,x; -c a.cu -Xcudafe --gen_c_file_name=x; -c a.cu -Xcicc -olto,x;
        -c a.cu -apply-controls x
    """,
    "source_in_ptx": "-ptx -lineinfo -src-in-ptx a.cu; -c -G --source-in-ptx a.cu",
}


def each(table: dict[str, str]) -> list[tuple[str, str]]:
    """What a line is an example of, and the line."""
    return [(name, line) for name, lines in table.items() for line in map(str.strip, lines.split(";"))]


@pytest.mark.parametrize(("reason", "line"), each(BYPASSES))
def test_unsupported_command_lines_are_left_to_nvcc_with_their_reason(reason, line):
    assert reason in outcomes.REASONS and _reason() == "information"
    assert _reason(*line.split()) == reason


# What the log names as the cause, and a line that has it.
DETAILS = {
    "no input file": "-c",
    "-MF without -MD": "-c a.cu -MF a.d",
    "-Xcompiler": "-c a.cu -Xcompiler -DX=[1]",
    "no path for the depfile of /dev/null": "-c a.cu -MD -o /dev/null",
    "files next to a temporary object": "a.o -o x -Xcompiler --coverage",
    "--threads": "-t 2 -t 4 -c a.cu",
    "--jobserver": "-c a.cu --jobserver",
    "-optf": '-c a.cu -optf a"b',
    "absent": "-c a.cu -optf absent",
    "-o": "-c a.cu -Xptxas -o,x",
    "-MD": "-c a.cu -Xcompiler -MD",
    "--source-in-ptx": "-ptx -lineinfo -src-in-ptx a.cu",
}


@pytest.mark.parametrize("detail", DETAILS)
def test_a_bypass_names_what_causes_it(detail):
    assert parse(DETAILS[detail].split(), {}).detail == detail


COMPILES = {
    "compile": r"""
        -c a.cu; -c /proc/self/cwd/a.cu -MD -MF /dev/shm/never.d -o /proc/self/cwd/never.o;
        -c a.cu -o x/a.o; a.cu --compile; -c a.cpp b.c c.cu; -c -x cu a.cpp; -c -shared a.cu;
        -c -link a.cu; -c -rdc=true a.cu; -c -dlto a.cu; -G -g -lineinfo -c a.cu;
        -c -Xptxas -v,-O1,-warn-spills -res-usage a.cu; -c --resource-usage -arch=native a.cu;
        -c -split-compile 0 a.cu; -c -ccbin g++ a.cu;
        -c -ccbin=/usr/bin/g++ --compiler-bindir clang a.cu; -c -pg -Xcompiler -pg a.cu;
        -c -Xcompiler -Wp,-D_FORTIFY_SOURCE=2 a.cu;
        -c -Xcompiler -Wp\,-D_FORTIFY_SOURCE=2,-Wa\,--noexecstack a.cu; -c -Xcompiler -Wl\,-Map=x a.cu;
        -c -Xcompiler -march=native,-Wall,-isystem,x a.cu;
        -c -Xcudafe --diag_suppress=177 -Xcudafe --display_error_number a.cu;
        -c -Xptxas --allow-expensive-optimizations=true,-opt-fp-atomics a.cu;
        -forward-unknown-to-host-compiler -fPIC -Wall -pthread -MD -MT t -MF f -x cu -c a.cu -o a.o;
        -dlink -c a.cu
    """,
    "device-c": "-dc a.cu; -c -dc a.cu",
    "device-w": "-dw a.cu; -c -dw a.cu",
    "ptx": "-ptx a.cu; -c -ptx a.cu; -cubin -ptx a.cu",
    "cubin": "-cubin a.ptx; -fatbin -cubin a.cu",
    "fatbin": "-fatbin -dc a.cu",
    "cuda": "-cuda -dc a.cu; -dlink -cuda a.cu",
    "optix-ir": "-optix-ir -c a.cu",
    "ltoir": "-dlto --ltoir a.cu; -dlto -dc -ltoir a.cu",
    "tilecubin": "-enable-tile -tilecubin -c a.cu",
    "device-link": "-dlink a.cu; -dlink -cubin a.o; -dlink -fatbin a.o",
}


@pytest.mark.parametrize(("mode", "line"), each(COMPILES))
def test_the_mode_of_a_compile_follows_from_its_command_line(mode, line):
    found = _compiled(*line.split())
    assert found.mode == mode
    assert found.dryrun_arguments == tuple(line.split())


def test_an_option_whose_value_may_be_left_out_is_understood_only_with_an_equals_sign():
    assert _compiled("-ptx", "a.cu", "-Ofc=max").inputs == ("a.cu",)
    assert _reason("-ptx", "a.cu", "-Ofc") == "unknown_option"
    assert _reason("max", "-ptx", "a.cu", NVCC_PREPEND_FLAGS="-Ofc") == "unknown_option"


def test_every_supported_compile_mode_is_recognized_from_its_option():
    for mode in MODES:
        assert _compiled(f"--{mode}", "a.cu").mode == mode


def test_nvcc_chooses_the_mode_that_we_choose_for_a_command_line(tmp_path, real_nvcc):
    products = {"ptx": "a.ptx", "cubin": "a.cubin", "fatbin": "a.fatbin", "optix-ir": "a.optixir"}
    firsts = ("-c", "-dc", "-dw", "-ptx", "-cubin", "-fatbin", "-cuda", "-optix-ir")
    for first, second in itertools.product(firsts, ("-ptx", "-fatbin", "-optix-ir", "-shared")):
        found = _compiled(first, second, "a.cu")
        line = [real_nvcc, "--dryrun", first, second, "a.cu"]
        stderr = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
        outputs = re.findall(r'(?:-o |--create=)"([^"/]*)"', stderr)
        wanted = "a.cu.cpp.ii" if found.mode == "cuda" else products.get(found.mode, "a.o")
        assert outputs == [wanted], (first, second)


def test_inputs_and_output_are_kept_as_typed():
    found = _compiled("-c", "./a.cu", "-o", "out/../a b.o", "-odir", "x")
    assert (found.inputs, found.output, found.output_directory) == (("./a.cu",), "out/../a b.o", "x")
    assert _compiled("-c", "a.cu", "b.cu").inputs == ("a.cu", "b.cu")
    assert _compiled("-c", "a.cu").output == ""
    assert _compiled("-c", "a.cu", "-o", "x", "-o", "y").output == "y"
    assert _reason("-c", "a.cu", "-o", "") == "unwritable_output"


def test_options_in_force_have_their_long_names_and_the_last_value():
    found = _compiled("-c", "-G", "-lto", "-rdc=true", "-rdc=false", "--expt-extended-lambda", "a.cu")
    assert found.options == {"compile", "device-debug", "dlink-time-opt", "extended-lambda"}
    assert "relocatable-device-code" in _compiled("-dc", "a.cu").options


def test_host_compiler_options_are_one_list_without_quotes_and_commas():
    argv = ["-Xcompiler", "-Wall,-O1", "-Xcompiler=-g -DX='a b'", "-Xcompiler", '-DY=\\"q\\"', "-c", "a.cu"]
    assert _compiled(*argv).host_flags == ("-Wall", "-O1", "-g", "-DX=a b", "-DY=q")
    forwarded = _compiled("-fPIC", "-Xcompiler", "-A", "-Wall", "-forward-unknown-opts", "-c", "a.cu")
    assert forwarded.host_flags == ("-A", "-fPIC", "-Wall")


def test_thread_options_are_removed_from_the_dry_run():
    found = _compiled("-t4", "-DA=-t", "-c", "--threads", "4", "a.cu", "-t=4", "-o", "a.o")
    assert found.threads == 4
    assert found.dryrun_arguments == ("-DA=-t", "-c", "a.cu", "-o", "a.o")
    assert _compiled("-c", "a.cu").threads == 0
    assert _compiled("-c", "a.cu", "-t0").threads == 0


def test_the_jobserver_option_is_removed_from_the_dry_run_if_make_has_a_jobserver():
    found = _compiled("-jobserver", "-c", "a.cu", MAKEFLAGS=" -j4 --jobserver-auth=fifo:/x")
    assert found.dryrun_arguments == ("-c", "a.cu")
    assert _reason("-jobserver", "-c", "a.cu") == "irremovable_option"


def test_dev_null_is_a_valid_output_and_dependency_file():
    found = _compiled("-c", "a.cu", "-MD", "-MF", "/dev/null", "-o", "/dev/null")
    assert found.output == found.dependencies.output == "/dev/null"


@pytest.mark.parametrize("line", ["-t 2 -t 4 -c a.cu", "-t x -c a.cu", "-t -1 -c a.cu", "-t 0x2 -c a.cu"])
def test_thread_counts_that_nvcc_warns_about_cause_a_bypass(line):
    assert _reason(*line.split()) == "irremovable_option"


def test_nvcc_prepend_and_append_flags_surround_the_arguments():
    environ = {"NVCC_PREPEND_FLAGS": "-o a -G", "NVCC_APPEND_FLAGS": "-dc -Xcompiler -g"}
    found = _compiled("-o", "b", "a.cu", **environ)
    assert (found.mode, found.output, found.host_flags) == ("device-c", "b", ("-g",))
    assert found.dryrun_arguments == ("-o", "b", "a.cu")
    assert _compiled("-o", "b", "-c", "a.cu", NVCC_APPEND_FLAGS="-o c").output == "c"
    assert _compiled("-fPIC", "-c", "a.cu", NVCC_APPEND_FLAGS="-forward-unknown-opts").host_flags == (
        "-fPIC",
    )


@pytest.mark.parametrize(
    ("argv", "mode", "output"),
    [
        ("-E a.cu", "preprocess_only", ""),
        ("-M a.cu", "preprocess_only", ""),
        ("-c -MM a.cu -o a.o", "preprocess_only", "a.o"),
        ("-M -MF a.d a.cu", "preprocess_only", "a.d"),
        ("-M -MF a.d -o b.d a.cu", "preprocess_only", "b.d"),
        ("-ptx -E a.cu -MD", "preprocess_only", ""),
        ("--version", "information", ""),
        ("-V -M a.cu -o a.d", "information", ""),
        ("-h", "information", ""),
        ("-c a.cu --help", "information", ""),
        ("-arch-ls", "information", ""),
        ("--list-gpu-code -c a.cu", "information", ""),
    ],
)
def test_preprocess_and_dependency_options_make_a_call_a_query(argv, mode, output):
    found = _compiled(*argv.split())
    assert (found.is_query, found.mode, found.output, found.dependencies) == (True, mode, output, None)


def test_options_in_nvcc_flags_variables_decide_mode_and_bypass():
    assert _compiled("-c", "a.cu", NVCC_APPEND_FLAGS="-E").mode == "preprocess_only"
    assert _reason("-c", "a.cu", NVCC_PREPEND_FLAGS="-Xcompiler --save-temps") == "host_side_output"
    assert _reason("-c", "a.cu", NVCC_PREPEND_FLAGS="-nonsense") == "unknown_option"


@pytest.mark.parametrize("name", ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"])
def test_irremovable_options_in_nvcc_flags_variables_cause_a_bypass(name):
    assert _reason("-c", "a.cu", **{name: "-t 4"}) == "irremovable_option"
    assert _reason("-c", "a.cu", **{name: "-time x"}) == "time_report"
    found = parse(["-c", "a.cu"], {name: '-DX="a\\"b"'})
    expected = ("unreadable_environment", "NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS")
    assert (found.reason, found.detail) == expected


def test_an_option_on_the_command_line_takes_no_value_from_a_flags_variable():
    assert _reason("a.cu", "-c", "-o", NVCC_APPEND_FLAGS="x.o") == "unknown_option"


@pytest.fixture
def in_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_options_of_an_option_file_take_its_place_in_the_command_line(in_directory):
    (in_directory / "one").write_text('-o file "-Xcompiler" -O1\n')
    (in_directory / "sub").mkdir()
    (in_directory / "sub" / "two").write_text("-dc\nb.cu")
    found = _compiled("-o", "x", "-optf", "one,sub/two", "-Xcompiler", "-O2", "a.cu")
    assert (found.mode, found.output, found.inputs) == ("device-c", "file", ("b.cu", "a.cu"))
    assert found.host_flags == ("-O1", "-O2")
    assert found.option_files == ("one", "sub/two")
    assert found.dryrun_arguments == ("-o", "x", "-optf", "one,sub/two", "-Xcompiler", "-O2", "a.cu")
    assert _compiled("-c", "a.cu", NVCC_APPEND_FLAGS="-optf sub/two").option_files == ("sub/two",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("-E -keep", "preprocess_only"),
        ("-nonsense", "unknown_option"),
        ("-o", "unknown_option"),
        ("-t 4", "irremovable_option"),
        ("-time x", "time_report"),
        ("-DX=a\\ b", "unreadable_option_file"),
        ("-optf self", "unreadable_option_file"),
        ("-optf absent", "unreadable_option_file"),
        ("-optf .", "unreadable_option_file"),
    ],
)
def test_options_in_an_option_file_can_cause_a_bypass(in_directory, content, reason):
    (in_directory / "self").write_text(content)
    assert _reason("-c", "a.cu", "-optf", "self") == reason


def test_a_pipe_as_option_file_is_left_for_nvcc_to_read(in_directory):
    os.mkfifo(in_directory / "pipe")
    assert _reason("-c", "a.cu", "-optf", "pipe") == "unreadable_option_file"


def test_an_option_file_that_may_not_be_read_is_left_to_nvcc(in_directory, monkeypatch):
    def refuse(path, mode):
        raise PermissionError

    monkeypatch.setattr(invocation, "open", refuse, raising=False)
    (in_directory / "private").touch()
    assert _reason("-c", "a.cu", "-optf", "private") == "unreadable_option_file"


@pytest.mark.parametrize(
    "line",
    [
        "-c {}",
        "-M {}",
        "-x cu -ptx {}",
        "{} b.o -o program",
        "-c a.cu -include b.h,{}",
        "-c a.cu -Xcompiler -include,{}",
        "-c a.cu -optf {}",
    ],
)
@pytest.mark.parametrize(
    "target", ["pipe", "/dev/stdin", "descriptors/0", "/proc/self/fd/0", "another", "/dev/tty"]
)
def test_a_link_to_a_pipe_or_stdin_is_left_for_nvcc_to_read(in_directory, line, target):
    os.mkfifo("pipe")
    os.symlink("/dev/fd", "descriptors")
    os.symlink("/dev/stdin", "another")
    os.symlink(target, "k.cu")
    for path in ("k.cu", in_directory / "k.cu", target):
        expected = "unreadable_option_file" if "-optf" in line else "standard_input"
        assert _reason(*line.format(path).split()) == expected


def test_an_input_that_is_a_link_to_a_regular_file_is_accepted(in_directory):
    os.makedirs("sub/fd")
    (in_directory / "sub" / "fd" / "b.cu").write_text("")
    os.symlink("sub/fd", "link")
    os.symlink(in_directory / "link/b.cu", "a.cu")
    os.symlink("nowhere", "dangling.cu")
    assert _compiled("-c", "a.cu", "link/b.cu", "dangling.cu", "sub").inputs


def test_dependency_options_give_the_rule_that_nvcc_would_write():
    found = _compiled(
        "-c", "a.cu", "-MD", "-MT", "x", "-MT", "a,b c", "-MF", "f", "-MF", "g", "-MP"
    ).dependencies
    assert (found.targets, found.output, found.phony, found.omit_system) == (("a,b c",), "g", True, False)
    plain = _compiled("-c", "a.cu", "-MMD").dependencies
    assert (plain.targets, plain.output, plain.phony, plain.omit_system) == ((), "", False, True)
    assert _compiled("-c", "a.cu", "-MD", "-MMD").dependencies.omit_system
    assert _compiled("-c", "a.cu", "-MT", "x").dependencies is None

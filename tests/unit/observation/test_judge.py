"""The tables of what each kind of program depends on, and of what leaves it without a record."""

from __future__ import annotations

import os
import stat

import pytest

from nvccache.environment import WHOLE
from nvccache.observation import judge
from nvccache.observation.observed_process import CUDA_TOOL, HOST, OTHER, SHELL, Process
from nvccache.observation.shell_text import OF_SHELLS
from nvccache.records import facts
from nvccache.records.input_records import UnreadableError
from observed_stages import DEVICE, FILE, FOLDER, PIPE, inherited_descriptors

__all__ = ["inherited_descriptors"]  # the fixtures

COMPILERS, OTHERS = "g++ cicc ptxas", "python3 wrapper cat"
PROGRAMS = f"{COMPILERS} {OTHERS} sh"  # each kind


def process(program: str = "x", *arguments: str, **seen) -> Process:
    if program in ("sh", "bash") and not arguments:
        arguments = ("-c", "exec g++")
    seen = {name: seen[name] if isinstance(seen[name], dict | bool) else {*seen[name]} for name in seen}
    return Process(f"/usr/bin/{program}", [program, *arguments], **seen)


def unrecordable(one: Process) -> str:
    """The reason, without the program."""
    try:
        judge.check(one)
    except UnreadableError as error:
        assert str(error).startswith(f"`{os.path.basename(one.program)}` ")
        return str(error).partition("` ")[2]
    return ""


def topics(one: Process) -> set[str]:
    return {topic for topic, _ in judge.facts_needed(one)}


KINDS = {
    HOST: """
        cc1plus x86_64-linux-gnu-g++-12 aarch64-conda-linux-gnu-c++ g++-12.2.0 g++-real g++-12.distrib
        clang-14 clang++ collect2 as x86_64-linux-gnu-as ld.gold
    """,
    CUDA_TOOL: "cudafe++ cicc nvcc ptxas nvlink",
    SHELL: "sh dash bash",
    OTHER: "g++-realtime python3.11 cat [ mpicxx ccache my-as-wrapper ptxas2 gccx zsh env cudafe",
}


@pytest.mark.parametrize("kind", KINDS)
def test_programs_are_recognized_as_compilers_shells_or_others_by_their_name(kind):
    assert {name for name in KINDS[kind].split() if process(name).kind != kind} == set()


def test_programs_are_classified_by_the_programs_they_start():
    """`env` has used nothing unobserved if it has started something; nvcc that starts nvcc is a wrapper."""
    assert Process("/usr/bin/env", started=["/bin/sh"]).kind == CUDA_TOOL
    assert Process("/opt/bin/nvcc", started=["/usr/local/cuda/bin/nvcc"]).kind == OTHER
    assert Process("/opt/bin/nvcc", started=["/bin/sh"]).kind == CUDA_TOOL


OPENED = "/proc/self/task/7/environ"


@pytest.mark.parametrize(
    ("seen", "reason", "programs"),
    [
        *[
            ({"questions": [(name, 1)]}, "asks for the time", f"g++ {OTHERS} sh")
            for name in ("time", "ctime", "localtime")
        ],
        *[
            ({"questions": [(name, 1)]}, "asks for the time", f"{OTHERS} sh")
            for name in ("gettimeofday", "clock_gettime")
        ],
        ({"questions": [("getrandom", 1)]}, "asks for random numbers", f"{OTHERS} sh"),
        # What an interpreter asks before it opens its script is for itself.
        ({"questions": [("time", 0)]}, "asks for the time", "g++ cat wrapper"),
        ({"questions": [("getrandom", 0)]}, "asks for random numbers", "cat wrapper"),
        ({"listed": ["bin"]}, "lists `bin`", "sh"),
        # Descriptors.
        ({"uses_descriptor": True}, "uses a file descriptor of its caller", f"{OTHERS} sh"),
        ({"absent": ["/dev/fd/18"]}, "looks at `/dev/fd/18`", PROGRAMS),
        ({"absent": ["/proc/self//fd/18/x"]}, "looks at `/proc/self//fd/18/x`", PROGRAMS),
        ({"links": ["/proc/thread-self/fd/9"]}, "looks at `/proc/thread-self/fd/9`", PROGRAMS),
        ({"files": {"/dev/fd/9/a.h": (0, 0, 0, 0, 0)}}, "looks at `/dev/fd/9/a.h`", PROGRAMS),
        # clang asks for the path of what it has opened.
        (
            {"links": ["/proc/self/fd/9"], "found": {"/proc/self/fd/9": 0}},
            "looks at `/proc/self/fd/9`",
            f"{OTHERS} sh",
        ),
        ({"found": {"/dev/fd/2": PIPE}, "absent": ["/dev/fd/1"]}, "", ""),
        # Files of the kernel.
        *[({"others": {path: DEVICE}}, "", "") for path in ("/dev/null", "/dev/zero")],
        *[
            ({"others": {f"/proc/{name}": FILE}}, "", "")
            for name in ("self/status", "cpuinfo", "filesystems")
        ],
        ({"others": {"/dev/urandom": DEVICE}}, "reads `/dev/urandom`", f"{OTHERS} sh"),
        ({"others": {"/proc/meminfo": FILE}}, "reads `/proc/meminfo`", f"{OTHERS} sh"),
        ({"others": {"/proc/self/maps": FILE}}, "reads `/proc/self/maps`", f"{OTHERS} sh"),
        *[
            ({"others": {path: FILE}}, f"reads `{path}`", f"g++ cicc {OTHERS} sh")
            for path in ("/proc/uptime", "/sys/kernel/notes", "/proc/self/environ", OPENED)
        ],
        ({"others": {"/proc": FOLDER}}, "reads `/proc`", ""),
        *[
            ({"others": {path: PIPE}}, f"reads `{path}`", f"g++ cicc {OTHERS} sh")
            for path in ("/dev/stdin", "/dev/fd/63", "pipe")
        ],
        *[
            ({"files": {path: (0, 0, 0, 0, 0)}}, f"reads `{path}`", f"g++ cicc {OTHERS} sh")
            for path in ("/proc/self/fd/0", "/proc/self/task/8/fd/0", "/proc/77/fd/9")
        ],
        ({"files": {"/dev/stdin": (0, 0, 0, 0, 0)}}, "reads `/dev/stdin`", f"{OTHERS} sh"),
        ({"files": {"/dev/shm/a.h": (0, 0, 0, 0, 0)}}, "", ""),
    ],
    ids=str,
)
def test_programs_that_ask_for_unrecordable_things_leave_no_record(seen, reason, programs):
    for program in PROGRAMS.split():
        assert unrecordable(process(program, **seen)) == (reason if program in programs.split() else "")


@pytest.mark.parametrize("program", PROGRAMS.split())
def test_reading_an_inherited_descriptor_prevents_a_record(inherited_descriptors, program):
    number, file = inherited_descriptors
    reason = f"reads descriptor {number}, which its caller opened"
    assert unrecordable(process(program, inputs=[file])) == reason


@pytest.mark.parametrize(
    ("argv", "seen", "reason"),
    [
        ("cicc --preinclude x.h", {"questions": [("time", 1)]}, "asks for the time"),
        ("cudafe++ --preinclude=x.h", {"questions": [("time", 1)]}, "asks for the time"),
        ("cicc -o x.h", {"questions": [("time", 1)]}, ""),
        *[(name, {}, "reads the status of files") for name in ("stat", "ls", "find", "test", "[")],
    ],
)
def test_commands_whose_result_no_file_determines_leave_no_record(argv, seen, reason):
    assert unrecordable(process(*argv.split(), **seen)) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo $RANDOM", "uses `RANDOM`"),
        *[
            (text, "reads the dates, owners or modes of files")
            for text in ("[ one -nt two ]", 'test -O "$x"', "[[ -k one ]]", "[ ! -g one ]", "[ a -ef b ]")
        ],
        ("[ -d sub ] && g++ -Og x-nt\ng++ -g -u x", ""),
    ],
)
def test_unrecordable_shell_scripts_have_a_reason(text, reason):
    assert unrecordable(process("sh", "-c", text)) == reason


def test_a_shell_whose_text_is_unknown_has_no_record():
    for argv in (["script"], ["-s"], ["-i", "script"]):
        assert unrecordable(process("sh", *argv)) == "runs unknown commands"


def test_the_file_that_uses_the_time_macro_is_named_in_the_reason(tmp_path):
    (tmp_path / "b.h").write_text("const char *t = __TIME__;")
    one = process("cc1plus", questions=[("time", 1)], files={f"{tmp_path}/b.h": (0, 0, 0, 0, 0)})
    assert unrecordable(one) == f"asks for the time (`{tmp_path}/b.h` has `__TIME__`)"


@pytest.mark.parametrize(
    ("seen", "topic", "programs"),
    [
        ({}, facts.DIRECTORY, OTHERS),
        ({}, facts.CALLER, OTHERS),
        ({"variables": ["PWD"]}, facts.DIRECTORY, OTHERS),
        *[
            ({"others": {path: 0}}, facts.CALLER, PROGRAMS)
            for path in ("/proc/self/status", "/proc/thread-self/limits")
        ],
        *[
            ({"questions": [(name, 0)]}, facts.HOST, f"{OTHERS} sh")
            for name in ("uname", "gethostname", "sysconf", "get_nprocs", "sched_getaffinity")
        ],
        *[
            ({"others": {path: FILE}}, facts.NATIVE, PROGRAMS)
            for path in ("/proc/cpuinfo", "/sys/devices/system/cpu/online")
        ],
        ({"files": {"/etc/clang++.cfg": (0, 0, 0, 0, 0)}}, facts.NATIVE, COMPILERS),
    ],
    ids=str,
)
def test_machine_properties_are_inputs_only_of_programs_whose_result_may_depend_on_them(
    seen, topic, programs
):
    found = {program for program in PROGRAMS.split() if topic in topics(process(program, **seen))}
    assert found == set(programs.split())


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("g++ -march=native", {facts.NATIVE}),
        ("cc1plus --param l1-cache-size=48", {facts.NATIVE}),
        ("g++ @options", {facts.NATIVE}),
        ("g++ -march=x86-64-v3 -DX=nativeness", set()),
        ("sh -c exec\tg++\t-DX", set()),
        ("sh -c umask", {facts.DIRECTORY, facts.CALLER}),
        ("sh -c exec\tg++\t-DX=$PWD", {facts.DIRECTORY, facts.CALLER}),
    ],
)
def test_options_such_as_march_native_make_the_machine_an_input(argv, expected):
    words = argv.split(" ")
    assert topics(process(*words[:2], *(word.replace("\t", " ") for word in words[2:]))) == expected


@pytest.mark.parametrize("program", ["as", "x86_64-linux-gnu-as", "as-2.40"])
def test_an_assembler_that_reads_pwd_depends_on_the_working_directory(program):
    assert topics(process(program, variables=["PWD"])) == {facts.DIRECTORY}
    assert topics(process(program)) == set()


def test_include_paths_are_those_given_found_or_in_variables_but_not_the_working_directory(monkeypatch):
    monkeypatch.chdir("/usr/lib")
    found = dict.fromkeys(("/usr", "/usr/lib", "/opt"), stat.S_IFDIR) | {"/etc/passwd": stat.S_IFREG}
    one = process("cc1plus", "-I", "a", "-isystem/b", "-c", found=found)
    paths = judge.include_paths(one, {"CPATH": "c:", "CPLUS_INCLUDE_PATH": "a:d", "PATH": "e"})
    assert paths == ["a", "/b", "c", ".", "d", "/opt", "/usr"]


def test_scripts_that_branch_on_arguments_depend_on_the_directory(tmp_path):
    script = f"{tmp_path}/script"
    one = process("sh", script, "/base/one/a.cu", files={script: (0, 0, 0, 0, 0)})
    for text, chooses in (('case $1 in *two*) x=1;; esac\nexec g++ "$@"', True), ('exec g++ "$@"', False)):
        (tmp_path / "script").write_text(text)
        assert judge.may_choose(one) == chooses
        assert (facts.DIRECTORY in topics(one)) == chooses
    assert [name for name in PROGRAMS.split() if judge.may_choose(process(name))] == OTHERS.split()


READ = "TERM GCC_COLORS COLUMNS PWD CPATH HOME SOURCE_DATE_EPOCH MAKELEVEL TMPDIR PATH NVCCACHE_DIR".split()


@pytest.mark.parametrize(
    ("requests_colours", "programs", "expected"),
    [
        (False, COMPILERS, "CPATH HOME SOURCE_DATE_EPOCH"),
        (True, COMPILERS, "CPATH HOME SOURCE_DATE_EPOCH TERM GCC_COLORS"),
        (False, OTHERS, " ".join(sorted({WHOLE, *READ} - {"PATH", "NVCCACHE_DIR"}))),
    ],
)
def test_which_variables_are_inputs_depends_on_the_kind_of_program(requests_colours, programs, expected):
    for program in programs.split():
        found = judge.variables_of(process(program, variables=READ), {}, requests_colours)
        assert found == set(expected.split())
    read = {*READ} - {"PATH", "NVCCACHE_DIR"}
    assert judge.variables_of(process("sh", variables=READ), {}, requests_colours) == read | OF_SHELLS


@pytest.mark.parametrize(
    ("text", "environ", "is_whole"),
    [
        ("exec g++ $X", {}, True),
        ("exec g++", {"PATH": "~/bin:/usr/bin"}, True),
        ("exec g++", {"BASH_ENV": "$X/settings"}, True),
        ("exec g++", {"BASH_ENV": "`pwd`/settings"}, True),
        ("exec g++", {"BASH_ENV": "/settings"}, False),
    ],
)
def test_a_shell_may_depend_on_all_variables(text, environ, is_whole):
    assert (WHOLE in judge.variables_of(process("sh", "-c", text), environ, False)) == is_whole


@pytest.mark.parametrize("name", ["MAKELEVEL", "OLDPWD", "SHLVL", "TMPDIR", "_"])
def test_normally_ignored_variables_are_inputs_of_a_script_that_names_them(name):
    assert judge.variables_of(process("sh", "-c", f"eval ${{{name}}}"), {}, False) == {WHOLE, name}
    assert judge.variables_of(process("wrapper", f"x['{name}']"), {}, False) == {WHOLE, name}
    assert judge.variables_of(process("wrapper", "for _ in x", f"X{name}"), {}, False) == {WHOLE}


@pytest.mark.parametrize(
    ("text", "name"), [("x=~-/y", "OLDPWD"), ("cd -", "OLDPWD"), ("cd x", ""), ("x=$_", "_"), ("x=$_y", "")]
)
def test_normally_ignored_variables_are_inputs_of_a_script_that_uses_their_short_forms(text, name):
    assert judge.variables_of(process("sh", "-c", f"{text}; eval x"), {}, False) == {WHOLE, name} - {""}

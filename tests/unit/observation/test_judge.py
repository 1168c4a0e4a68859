"""The table of what each kind of program depends on, a test for each row."""

from __future__ import annotations

import pytest

from nvccache.environment import WHOLE
from nvccache.observation import judge
from nvccache.observation.observed_process import CUDA_TOOL, HOST, OTHER, SHELL, Process
from nvccache.records import facts
from nvccache.records.input_records import UnreadableError

COMPILERS = ("g++", "cicc", "ptxas")
OPEN_ENDED = ("python3", "wrapper", "cat")
PROGRAMS = (*COMPILERS, *OPEN_ENDED, "sh")  # each kind
TEXT = "exec g++"


def process(program: str = "x", *arguments: str, questions=(), variables=()) -> Process:
    if program in ("sh", "bash") and not arguments:
        arguments = ("-c", TEXT)
    return Process(
        f"/usr/bin/{program}", [program, *arguments], questions=set(questions), variables=set(variables)
    )


def topics(one: Process) -> set[str]:
    return {topic for topic, _ in judge.questions(one, "", "/scratch", ())}


def unrecordable(one: Process) -> str:
    try:
        judge.check(one)
    except UnreadableError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cc1plus", HOST),
        ("x86_64-linux-gnu-g++-12", HOST),
        ("aarch64-conda-linux-gnu-c++", HOST),
        ("g++-12.2.0", HOST),
        ("g++-real", HOST),
        ("g++-12.distrib", HOST),
        ("g++-realtime", OTHER),
        ("clang-14", HOST),
        ("clang++", HOST),
        ("collect2", HOST),
        ("as", HOST),
        ("x86_64-linux-gnu-as", HOST),
        ("ld.gold", HOST),
        ("cudafe++", CUDA_TOOL),
        ("cicc", CUDA_TOOL),
        ("nvcc", CUDA_TOOL),
        ("ptxas", CUDA_TOOL),
        ("nvlink", CUDA_TOOL),
        ("dash", SHELL),
        ("bash", SHELL),
        ("python3.11", OTHER),
        ("cat", OTHER),
        ("[", OTHER),
        ("mpicxx", OTHER),
        ("ccache", OTHER),
        ("my-as-wrapper", OTHER),
        ("ptxas2", OTHER),
        ("gccx", OTHER),
        ("zsh", OTHER),
        ("env", OTHER),
        ("cudafe", OTHER),
        ("", OTHER),
    ],
)
def test_a_program_is_known_by_its_name(name, kind):
    assert process(name).kind == kind


def test_env_that_has_started_a_program_has_used_nothing_unobserved():
    assert Process("/usr/bin/env", started=["/bin/sh"]).kind == CUDA_TOOL
    assert Process("/usr/bin/env").kind == OTHER


def test_an_nvcc_that_starts_an_nvcc_is_a_wrapper():
    assert Process("/opt/bin/nvcc", started=["/usr/local/cuda/bin/nvcc"]).kind == OTHER
    assert Process("/opt/bin/nvcc", started=["/bin/sh"]).kind == CUDA_TOOL


@pytest.mark.parametrize(
    ("program", "text", "found"),
    [
        ("sh", "exec g++ x", set()),
        ("sh", "x=$(pwd)", {facts.DIRECTORY}),
        ("sh", "cd x && ./tool", {facts.DIRECTORY}),
        ("sh", "g++ -DX=$PWD", {facts.DIRECTORY}),
        ("bash", "g++ -I~+/x", {facts.DIRECTORY}),
        ("sh", "mypwd $PWDS abcd", set()),
        ("sh", "umask", {facts.CALLER}),
        ("sh", "[ -w x ] && y", {facts.CALLER}),
        ("sh", "eval x", {facts.DIRECTORY, facts.CALLER}),
        *[(name, "", {facts.DIRECTORY, facts.CALLER}) for name in OPEN_ENDED],
        *[(name, "", set()) for name in COMPILERS],
    ],
)
def test_what_depends_on_directory_and_caller(program, text, found):
    assert topics(process(program, *(["-c", text] if text else []))) == found


@pytest.mark.parametrize(
    ("program", "asks"),
    [("as", True), ("x86_64-linux-gnu-as", True), ("as-2.40", True), ("g++", False)],
)
def test_an_assembler_that_asks_writes_down_where_it_works(program, asks):
    assert (facts.DIRECTORY in topics(process(program, variables=["PWD"]))) == asks
    assert topics(process(program)) == set()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("path", ["/proc/self/status", "/proc/thread-self/limits"])
def test_limits_and_users_read_from_proc_are_of_the_caller(path, program):
    one = process(program)
    one.others[path] = 0
    assert facts.CALLER in topics(one)


@pytest.mark.parametrize("name", ["uname", "gethostname", "sysconf", "get_nprocs", "sched_getaffinity"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_depends_on_the_machine(name, program):
    assert (facts.HOST in topics(process(program, questions=[(name, 84, 0)]))) == (program not in COMPILERS)
    assert facts.HOST not in topics(process(program, questions=[("getpid", 0, 0)]))


@pytest.mark.parametrize("name", ["time", "ctime", "localtime", "strftime"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_who_asks_for_the_time_may_write_it_down(name, program):
    found = unrecordable(process(program, questions=[(name, 0, 1)]))
    assert found == ("" if program in ("cicc", "ptxas") else f"`{program}` asks for the time")


@pytest.mark.parametrize("name", ["gettimeofday", "clock_gettime"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_compilers_measure_by_some_clocks(name, program):
    assert bool(unrecordable(process(program, questions=[(name, 0, 1)]))) == (program not in COMPILERS)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 7, 9])
@pytest.mark.parametrize("program", ["wrapper", "sh", "python3", "cat"])
def test_a_clock_that_only_runs_does_not_tell_the_time(number, program):
    assert not unrecordable(process(program, questions=[("clock_gettime", number, 1)]))
    for other in (0, 5, 8, 11):
        assert unrecordable(process(program, questions=[("clock_gettime", other, 1)]))


@pytest.mark.parametrize("program", PROGRAMS)
def test_random_numbers_may_reach_a_result(program):
    found = unrecordable(process(program, questions=[("getrandom", 0, 1)]))
    assert bool(found) == (program not in COMPILERS)


@pytest.mark.parametrize("name", ["time", "getrandom"])
@pytest.mark.parametrize("program", ["sh", *OPEN_ENDED])
def test_what_an_interpreter_asks_before_it_opens_its_script_is_for_itself(name, program):
    early = unrecordable(process(program, questions=[(name, 0, 0)]))
    assert bool(early) == (program not in ("sh", "python3"))
    assert unrecordable(process(program, questions=[(name, 0, 0), (name, 0, 1)]))


@pytest.mark.parametrize("program", ["cicc", "cudafe++"])
def test_a_front_end_that_includes_files_by_itself_may_expand_the_time(program):
    asked = [("time", 0, 1)]
    assert unrecordable(process(program, "--preinclude", "x.h", questions=asked))
    assert unrecordable(process(program, "--preinclude=x.h", questions=asked))
    assert not unrecordable(process(program, "-o", "x.h", questions=asked))


@pytest.mark.parametrize("is_coloured", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_variables(program, is_coloured):
    """Colours matter to compilers that are asked for them; others depend on what they name, or on all."""
    read = [
        "TERM",
        "GCC_COLORS",
        "COLUMNS",
        "PWD",
        "CPATH",
        "HOME",
        "SOURCE_DATE_EPOCH",
        "MAKELEVEL",
        "TMPDIR",
    ]
    found = judge.variables_of(process(program, variables=[*read, "PATH"]), {}, is_coloured)
    assert {"CPATH", "HOME"} <= found and "PATH" not in found
    assert (WHOLE in found) == (program in OPEN_ENDED)
    assert ({"MAKELEVEL", "TMPDIR"} <= found) == ({"COLUMNS", "PWD"} <= found) == (program not in COMPILERS)
    assert ({"TERM", "GCC_COLORS"} <= found) == (is_coloured or program not in COMPILERS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_directories_that_are_one(program):
    assert judge.distinguishes_directories(process(program)) == (program not in ("cicc", "ptxas", "sh"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments_may_decide(program):
    assert judge.may_choose(process(program)) == (program in OPEN_ENDED)
    assert judge.may_choose(process("sh", "-c", 'case $1 in x) y ;; esac; exec g++ "$@"'))
    assert judge.may_choose(process("sh", "unknown"))

"""Kinds of programs, and which of their queries matter."""

from __future__ import annotations

import pytest

from nvccache.observation import known_programs
from nvccache.observation.observed_process import (
    DEVICE,
    EDG,
    HOST,
    INTERPRETER,
    SHELL,
    UNKNOWN,
    UTILITY,
    Process,
)

COMPILERS = ("g++", "cicc", "ptxas")
OPEN_ENDED = ("python3", "wrapper")
PROGRAMS = (*COMPILERS, *OPEN_ENDED, "sh", "cat")  # one of each kind


def process(program: str = "/usr/bin/x", *arguments: str, questions=()) -> Process:
    return Process(program, [program, *arguments], questions=set(questions))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cc1plus", HOST),
        ("x86_64-linux-gnu-g++-12", HOST),
        ("aarch64-conda-linux-gnu-c++", HOST),
        ("g++-12.2.0", HOST),
        ("g++-real", HOST),
        ("g++-12.distrib", HOST),
        ("g++-realtime", UNKNOWN),
        ("clang-14", HOST),
        ("clang++", HOST),
        ("collect2", HOST),
        ("as", HOST),
        ("x86_64-linux-gnu-as", HOST),
        ("ld.gold", HOST),
        ("cudafe++", EDG),
        ("cicc", EDG),
        ("nvcc", DEVICE),
        ("ptxas", DEVICE),
        ("nvlink", DEVICE),
        ("dash", SHELL),
        ("bash", SHELL),
        ("python3.11", INTERPRETER),
        ("perl5.36.0", INTERPRETER),
        ("cat", UTILITY),
        ("[", UTILITY),
        ("egrep", UTILITY),
        ("mpicxx", UNKNOWN),
        ("ccache", UNKNOWN),
        ("my-as-wrapper", UNKNOWN),
        ("ptxas2", UNKNOWN),
        ("gccx", UNKNOWN),
        ("zsh", UNKNOWN),
        ("env", UNKNOWN),
        ("date", UNKNOWN),
        ("cudafe", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_program_is_known_by_its_name(name, kind):
    assert process(f"/some/where/{name}").kind == kind


def test_env_that_has_started_a_program_has_shown_nothing():
    assert Process("/usr/bin/env", started=["/bin/sh"]).kind == UTILITY
    assert Process("/usr/bin/env").kind == UNKNOWN


def test_an_nvcc_that_starts_an_nvcc_is_a_wrapper():
    assert Process("/opt/bin/nvcc", started=["/usr/local/cuda/bin/nvcc"]).kind == UNKNOWN
    assert Process("/opt/bin/nvcc", started=["/bin/sh"]).kind == DEVICE


@pytest.mark.parametrize(
    ("program", "arguments", "asks"),
    [
        ("sh", ["-c", "exec g++ x"], False),
        ("sh", ["-c", "x=$(pwd)"], True),
        ("sh", ["-c", "cd x && ./tool"], True),
        ("sh", ["-c", "g++ -DX=$PWD"], True),
        ("bash", ["-c", "g++ -I~+/x"], True),
        ("sh", ["-c", "mypwd $PWDS abcd"], False),
        ("sh", [], True),
        ("pwd", [], True),
        ("readlink", ["-f", "x"], True),
        ("readlink", ["-f", "/x"], False),
        ("realpath", ["."], True),
        ("cat", ["x"], False),
        ("python3", [], True),
        ("mpicxx", [], True),
        ("g++", [], False),
        ("cicc", [], False),
        ("nvcc", [], False),
    ],
)
def test_who_may_learn_where_it_works(program, arguments, asks):
    assert known_programs.queries_directory(process(program, *arguments)) == asks


@pytest.mark.parametrize(
    ("program", "asks"),
    [
        ("as", True),
        ("x86_64-linux-gnu-as", True),
        ("aarch64-as-2.40", True),
        ("cc1plus", False),
    ],
)
def test_an_assembler_that_asks_writes_down_where_it_works(program, asks):
    asking = Process(f"/usr/bin/{program}", variables={"PWD"})
    assert known_programs.queries_directory(asking) == asks
    assert not known_programs.queries_directory(process(program))


@pytest.mark.parametrize("name", ["time", "ctime", "localtime", "strftime"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_who_asks_for_the_time_may_write_it_down(name, program):
    asks = known_programs.volatile_query(process(program, questions=[(name, 0, 1)]))
    assert asks == ("" if program in ("cicc", "ptxas") else "the time")


@pytest.mark.parametrize("name", ["gettimeofday", "clock_gettime"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_compilers_measure_by_some_clocks(name, program):
    asks = known_programs.volatile_query(process(program, questions=[(name, 0, 1)]))
    assert asks == ("" if program in COMPILERS else "the time")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 7, 9])
@pytest.mark.parametrize("program", ["wrapper", "sh", "python3", "cat"])
def test_a_clock_that_only_runs_does_not_tell_the_time(number, program):
    assert known_programs.volatile_query(process(program, questions=[("clock_gettime", number, 1)])) == ""
    for other in (0, 5, 8, 11):
        assert (
            known_programs.volatile_query(process(program, questions=[("clock_gettime", other, 1)]))
            == "the time"
        )


@pytest.mark.parametrize("program", PROGRAMS)
def test_random_numbers_may_reach_a_result(program):
    asks = known_programs.volatile_query(process(program, questions=[("getrandom", 0, 1)]))
    assert asks == ("random numbers" if program in ("sh", *OPEN_ENDED) else "")


@pytest.mark.parametrize("name", ["time", "getrandom"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_an_interpreter_asks_before_it_opens_its_script_is_for_itself(name, program):
    early = known_programs.volatile_query(process(program, questions=[(name, 0, 0)]))
    late = known_programs.volatile_query(process(program, questions=[(name, 0, 1)]))
    assert early == ("" if program in ("sh", "python3") else late)
    both = process(program, questions=[(name, 0, 0), (name, 0, 1)])
    assert known_programs.volatile_query(both) == late


@pytest.mark.parametrize("program", ["cicc", "cudafe++"])
def test_a_front_end_that_includes_files_by_itself_may_expand_the_time(program):
    asked = [("time", 0, 1)]
    assert (
        known_programs.volatile_query(process(program, "--preinclude", "x.h", questions=asked)) == "the time"
    )
    assert known_programs.volatile_query(process(program, "--preinclude=x.h", questions=asked)) == "the time"
    assert known_programs.volatile_query(process(program, "-o", "x.h", questions=asked)) == ""


@pytest.mark.parametrize("name", ["uname", "gethostname", "sysconf", "get_nprocs", "sched_getaffinity"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_that_may_depend_on_the_machine(name, program):
    asked = process(program, questions=[(name, 84, 0)])
    assert known_programs.queries_machine(asked) == (program in ("sh", *OPEN_ENDED))
    assert not known_programs.queries_machine(process(program, questions=[("getpid", 0, 0)]))
    assert not known_programs.queries_machine(process(program))


@pytest.mark.parametrize("name", ["TERM", "GCC_COLORS", "TERM_URLS", "NO_COLOR"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_colours_matter_to_compilers_that_are_asked_for_them(name, program):
    assert known_programs.is_noise(name, process(program).kind, False) == (program in COMPILERS)
    assert not known_programs.is_noise(name, process(program).kind, True)


@pytest.mark.parametrize("is_coloured", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_width_and_the_name_of_the_directory_matter_to_scripts(program, is_coloured):
    for name in ("COLUMNS", "PWD"):
        assert known_programs.is_noise(name, process(program).kind, is_coloured) == (program in COMPILERS)


@pytest.mark.parametrize("name", ["CPATH", "HOME", "PTXAS_FLAGS", "SOURCE_DATE_EPOCH", "COMPILER_PATH"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_any_other_variable_matters(name, program):
    assert not known_programs.is_noise(name, process(program).kind, False)

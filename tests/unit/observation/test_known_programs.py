"""What kinds of programs there are, and which of their questions matter."""

from __future__ import annotations

import pytest

from nvccache.observation import known_programs
from nvccache.observation.known_programs import DEVICE, EDG, HOST, INTERPRETER, SHELL, UNKNOWN, UTILITY
from nvccache.observation.observed_process import Process

KINDS = (HOST, EDG, DEVICE, SHELL, INTERPRETER, UTILITY, UNKNOWN)
COMPILERS = (HOST, EDG, DEVICE)


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
    assert known_programs.kind_of(process(f"/some/where/{name}")) == kind


def test_env_that_has_started_a_program_has_shown_nothing():
    assert known_programs.kind_of(Process("/usr/bin/env", started=["/bin/sh"])) == UTILITY
    assert known_programs.kind_of(Process("/usr/bin/env")) == UNKNOWN


@pytest.mark.parametrize(
    ("program", "arguments", "kind", "text", "asks"),
    [
        ("sh", [], SHELL, "exec g++ x", False),
        ("sh", [], SHELL, "x=$(pwd)", True),
        ("sh", [], SHELL, "cd x && ./tool", True),
        ("sh", [], SHELL, "g++ -DX=$PWD", True),
        ("bash", [], SHELL, "g++ -I~+/x", True),
        ("sh", [], SHELL, "mypwd $PWDS abcd", False),
        ("sh", [], SHELL, None, True),
        ("pwd", [], UTILITY, None, True),
        ("readlink", ["-f", "x"], UTILITY, None, True),
        ("readlink", ["-f", "/x"], UTILITY, None, False),
        ("realpath", ["."], UTILITY, None, True),
        ("cat", ["x"], UTILITY, None, False),
        ("python3", [], INTERPRETER, None, True),
        ("mpicxx", [], UNKNOWN, None, True),
        ("g++", [], HOST, None, False),
        ("cicc", [], EDG, None, False),
        ("nvcc", [], DEVICE, None, False),
    ],
)
def test_who_may_be_told_where_it_works(program, arguments, kind, text, asks):
    texts = [] if text is None else [text.encode()]
    assert known_programs.asks_for_directory(process(program, *arguments), kind, texts) == asks


@pytest.mark.parametrize(
    ("program", "asks"),
    [
        ("as", True),
        ("x86_64-linux-gnu-as", True),
        ("aarch64-as-2.40", True),
        ("cc1plus", False),
        ("alias", False),
    ],
)
def test_an_assembler_that_asks_writes_down_where_it_works(program, asks):
    asking = Process(f"/usr/bin/{program}", variables={"PWD"})
    assert known_programs.asks_for_directory(asking, HOST, []) == asks
    assert not known_programs.asks_for_directory(process(program), HOST, [])


@pytest.mark.parametrize("name", ["time", "ctime", "localtime", "strftime"])
@pytest.mark.parametrize("kind", KINDS)
def test_who_asks_for_the_time_may_write_it_down(name, kind):
    asks = known_programs.clock_of(process(questions=[(name, 0, 1)]), kind)
    assert asks == ("" if kind in (EDG, DEVICE) else "the time")


@pytest.mark.parametrize("name", ["gettimeofday", "clock_gettime"])
@pytest.mark.parametrize("kind", KINDS)
def test_compilers_measure_by_some_clocks(name, kind):
    asks = known_programs.clock_of(process(questions=[(name, 0, 1)]), kind)
    assert asks == ("" if kind in COMPILERS else "the time")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 7, 9])
@pytest.mark.parametrize("kind", [UNKNOWN, SHELL, INTERPRETER, UTILITY])
def test_a_clock_that_only_runs_does_not_tell_the_time(number, kind):
    assert known_programs.clock_of(process(questions=[("clock_gettime", number, 1)]), kind) == ""
    for other in (0, 5, 8, 11):
        assert known_programs.clock_of(process(questions=[("clock_gettime", other, 1)]), kind) == "the time"


@pytest.mark.parametrize("kind", KINDS)
def test_random_numbers_may_reach_a_result(kind):
    asks = known_programs.clock_of(process(questions=[("getrandom", 0, 1)]), kind)
    assert asks == ("random numbers" if kind in (SHELL, INTERPRETER, UNKNOWN) else "")


@pytest.mark.parametrize("name", ["time", "getrandom"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_an_interpreter_asks_before_it_opens_its_script_is_for_itself(name, kind):
    early = known_programs.clock_of(process(questions=[(name, 0, 0)]), kind)
    late = known_programs.clock_of(process(questions=[(name, 0, 1)]), kind)
    assert early == ("" if kind in (SHELL, INTERPRETER) else late)
    both = process(questions=[(name, 0, 0), (name, 0, 1)])
    assert known_programs.clock_of(both, kind) == late


@pytest.mark.parametrize("program", ["cicc", "cudafe++"])
def test_a_front_end_that_includes_files_by_itself_may_expand_the_time(program):
    asked = [("time", 0, 1)]
    assert (
        known_programs.clock_of(process(program, "--preinclude", "x.h", questions=asked), EDG) == "the time"
    )
    assert known_programs.clock_of(process(program, "--preinclude=x.h", questions=asked), EDG) == "the time"
    assert known_programs.clock_of(process(program, "-o", "x.h", questions=asked), EDG) == ""


@pytest.mark.parametrize("name", ["uname", "gethostname", "sysconf", "get_nprocs", "sched_getaffinity"])
@pytest.mark.parametrize("kind", KINDS)
def test_who_may_be_told_of_the_machine(name, kind):
    asked = process(questions=[(name, 84, 0)])
    assert known_programs.asks_for_machine(asked, kind) == (kind in (UNKNOWN, INTERPRETER, SHELL))
    assert not known_programs.asks_for_machine(process(questions=[("getpid", 0, 0)]), kind)
    assert not known_programs.asks_for_machine(process(), kind)


@pytest.mark.parametrize("name", ["TERM", "GCC_COLORS", "TERM_URLS", "NO_COLOR"])
@pytest.mark.parametrize("kind", KINDS)
def test_colours_matter_to_compilers_that_are_asked_for_them(name, kind):
    assert known_programs.is_noise(name, kind, False) == (kind in COMPILERS)
    assert not known_programs.is_noise(name, kind, True)


@pytest.mark.parametrize("is_coloured", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_width_and_the_name_of_the_directory_matter_to_scripts(kind, is_coloured):
    for name in ("COLUMNS", "PWD"):
        assert known_programs.is_noise(name, kind, is_coloured) == (kind in COMPILERS)


@pytest.mark.parametrize("name", ["CPATH", "HOME", "PTXAS_FLAGS", "SOURCE_DATE_EPOCH", "COMPILER_PATH"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_other_variable_matters(name, kind):
    assert not known_programs.is_noise(name, kind, False)

"""Which command a wrapper becomes, from its log."""

from __future__ import annotations

import pytest

from nvccache.machine.watchdog import SCRATCH_VARIABLE
from nvccache.observation import wrapper_command
from nvccache.observation.observed_process import Inherited, Process
from nvccache.observation.observer import LIBRARY
from nvccache.observation.observer_log import Observation
from nvccache.records.rehearsed import CompilerCall
from nvccache.values import replace

ENVIRON = {"PATH": "/bin", "SITE": "one"}
ARMED = {"LD_PRELOAD": LIBRARY, SCRATCH_VARIABLE: "/scratch/watched-0"}
INHERITED = Inherited(1, 2, (3, 4, 5))


def shell(*argv: str) -> Process:
    return Process("/bin/sh", ["/bin/sh", "wrapper", *argv], directory="/work", inherited=INHERITED)


def compiler(
    *argv: str, directory: str = "/work", inherited: Inherited = INHERITED, **changes: str
) -> Process:
    environ = {"PATH": "/bin", "SITE": "one", **ARMED, "_": "g++", **changes}
    return Process(
        "/usr/bin/g++-12", ["g++", *argv], directory=directory, inherited=inherited, environ=environ
    )


def become(*processes: Process, goes_on: bool = False) -> CompilerCall | None:
    images = [processes[0]] if goes_on else [processes[0], next(one for one in processes if one.environ)]
    return wrapper_command.of_run(Observation(list(processes), set(), images=images), ENVIRON)


def test_what_it_becomes_is_the_compiler_with_all_its_words() -> None:
    found = become(shell("-c", "a.cu"), compiler("-DX", "-c", "a.cu"))
    assert found == CompilerCall("/usr/bin/g++-12", ("g++", "-DX", "-c", "a.cu"), ())


def test_variables_that_are_set_changed_or_taken_away() -> None:
    changed = compiler(SITE="two", CPATH="/inc")
    del changed.environ["PATH"]
    found = become(shell(), changed)
    assert found and found.variables == ("CPATH=/inc", "PATH", "SITE=two")


@pytest.mark.parametrize("pwd", ["/work", "/other"])
def test_the_directory_is_no_variable_where_it_is_the_directory(pwd: str) -> None:
    found = become(shell(), compiler(PWD=pwd))
    assert found and found.variables == (() if pwd == "/work" else ("PWD=/other",))


UNKNOWN = {
    "another directory": (shell(), compiler(directory="/elsewhere")),
    "other limits": (shell(), compiler(inherited=Inherited(2, 2, (3, 4, 5)))),
    "two compilers": (shell(), compiler("-c"), compiler("-c", "-O0")),
    "a descriptor": (shell(), compiler("-include", "/dev/fd/9")),
    "its standard input": (shell(), compiler("-")),
    "a descriptor in a variable": (shell(), compiler(CPATH="/proc/self/fd/9")),
    "a variable that is too long for a record": (shell(), replace(compiler(), has_long_variable=True)),
    "a word that was cut": (shell(), compiler("-D" + "x" * 4095)),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_known(what: str) -> None:
    assert become(*UNKNOWN[what]) is None


def test_a_wrapper_that_goes_on_starts_no_other_program() -> None:
    inner, strip = Process("/usr/lib/cc1plus", ["cc1plus"]), Process("/usr/bin/strip", ["strip", "a.o"])
    assert become(shell(), compiler(), inner, goes_on=True)
    assert become(shell(), compiler(), inner, strip, goes_on=True) is None
    assert become(shell(), compiler(), inner, strip), "it has become the compiler, which may start any"


def test_clang_starts_itself() -> None:
    assert become(shell(), compiler("-c"), compiler("-cc1", "-c"))


def test_what_was_not_observed_in_full_is_not_known() -> None:
    assert wrapper_command.of_run(Observation([shell(), compiler()], set(), "torn"), ENVIRON) is None
    assert wrapper_command.of_run(Observation([shell()], set(), images=[shell()]), ENVIRON) is None


def nvcc(*argv: str, inherited: Inherited = INHERITED, **changes: str) -> Process:
    environ = {"PATH": "/bin", "SITE": "one", **ARMED, "_": "nvcc", **changes}
    return Process("/cuda/bin/nvcc", ["nvcc", *argv], directory="/work", inherited=inherited, environ=environ)


def become_nvcc(*processes: Process) -> CompilerCall | str:
    return wrapper_command.of_nvcc(
        Observation(list(processes), set(), images=[processes[0], processes[-1]]), ENVIRON
    )


def test_an_nvcc_is_given_all_variables_to_the_letter() -> None:
    found = become_nvcc(shell(), nvcc("-c", PWD="/work", SHLVL="2", CPATH="/inc"))
    variables = ("CPATH=/inc", "PWD=/work", "SHLVL=2")
    assert found == CompilerCall("/cuda/bin/nvcc", ("nvcc", "-c"), variables)


def asking(number: int, phase: int = 1) -> Process:
    made = shell()
    made.questions.add(("isatty", number, phase))
    return made


def looking(path: str) -> Process:
    made = shell()
    made.links.add(path)
    return made


LEFT_ALONE = {
    "other limits": (shell(), nvcc(inherited=Inherited(2, 2, (3, 4, 5)))),
    "other surroundings": (shell(), nvcc(inherited=Inherited(1, 3, (3, 4, 5)))),
    "another stream": (shell(), nvcc(inherited=Inherited(1, 2, (3, 4, 6)))),
    "a library": (shell(), nvcc(LD_PRELOAD=f"/time.so:{LIBRARY}")),
    "two of them": (shell(), nvcc(), nvcc()),
    "none": (shell(),),
    "it looks for a terminal": (asking(4), nvcc()),
    "it looks where a stream leads": (looking("/proc/self/fd/1"), nvcc()),
    "it looks at its caller": (looking("/proc/77/cmdline"), nvcc()),
    "a descriptor": (shell(), nvcc("-include", "/dev/fd/9")),
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_a_script_that_is_left_alone(what: str) -> None:
    assert isinstance(become_nvcc(*LEFT_ALONE[what]), str)


@pytest.mark.parametrize(("number", "phase"), [(4, 0), (9, 1)])
def test_what_a_shell_asks_of_itself(number: int, phase: int) -> None:
    """Lookups before its script, and whether that is a terminal."""
    assert isinstance(become_nvcc(asking(number, phase), nvcc()), CompilerCall)

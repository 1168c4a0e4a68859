"""Which nvcc a script becomes, from its log."""

from __future__ import annotations

import pytest

from nvccache.machine.watchdog import SCRATCH_VARIABLE
from nvccache.observation import wrapper_command
from nvccache.observation.observed_process import Inherited, Process
from nvccache.observation.observer import LIBRARY
from nvccache.observation.observer_log import Observation
from nvccache.records.rehearsed import CompilerCall

ENVIRON = {"PATH": "/bin", "SITE": "one"}
ARMED = {"LD_PRELOAD": LIBRARY, SCRATCH_VARIABLE: "/scratch/watched-0"}
INHERITED = Inherited(1, 2, (3, 4, 5))


def shell(*argv: str) -> Process:
    return Process("/bin/sh", ["/bin/sh", "wrapper", *argv], directory="/work", inherited=INHERITED)


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

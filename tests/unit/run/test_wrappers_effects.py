"""Wrappers of the host compiler: which are plain, what their runs show, and whose an object in place is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nvccache.files import signatures
from nvccache.observation.observed_process import Process
from nvccache.observation.observer_log import Observation
from nvccache.plan.model import ANY_WRAPPER, PLAIN_WRAPPER, Output, Plan
from nvccache.run import wrappers
from nvccache.run.wrappers import PLACES, UNKNOWN
from nvccache.values import replace
from stages_of_nothing import stage

GCC = shutil.which("g++") or "/usr/bin/g++"
ALL = (UNKNOWN, PLACES)
PLAIN = {
    "one line": f'exec {GCC} -B/usr/bin -isystem /more "$@"',
    "further words and settings": f'# Adds\nset -e\n\nexport X=\'a b\'\nexec "{GCC}" -O2 \\\n  "$@" -DX \n',
    "found on PATH": 'exec g++ "$@"',
}
ANY = {
    "a variable among the words": f'MORE=-O2\nexec {GCC} $MORE "$@"',
    "more than one line": f'case $1 in -c) X=1 ;; esac\nexec {GCC} $X "$@"',
    "it looks at arguments": f'X=$1\nexec {GCC} "$@"',
    "a variable as program": 'exec $CXX "$@"',
    "another wrapper": 'exec nice g++ "$@"',
    "a command after an assignment": f'X=1 touch /tmp/x\nexec {GCC} "$@"',
    "the search path": 'PATH=/elsewhere\nexec g++ "$@"',
    "a command in a word": f'exec {GCC} -DX=$(date) "$@"',
    "a command in quotes": f'X="`date`"\nexec {GCC} "$@"',
    "a stream": f'exec {GCC} "$@" 2>/dev/null',
    "it goes on": f'{GCC} "$@"',
    "a program that is none": 'exec /no/such/g++ "$@"',
    "files beside the object": f'exec {GCC} "--coverage" "$@"',
    "temporary files": f'exec {GCC} -save-temps=obj "$@"',
}


def kind_of(path: Path) -> str:
    plan = Plan((replace(stage("host_compile", "a.o"), argv=(str(path), "-c")),), {}, {}, "/s")
    return wrappers.mark_wrappers(plan, {"PATH": "/usr/bin:/bin"}).stages[0].wrapper


@pytest.mark.parametrize(
    ("text", "kind"),
    [*((text, PLAIN_WRAPPER) for text in PLAIN.values()), *((text, ANY_WRAPPER) for text in ANY.values())],
    ids=[*PLAIN, *ANY],
)
def test_shell_scripts_that_only_start_the_compiler_count_as_plain(
    tmp_path: Path, text: str, kind: str
) -> None:
    path = tmp_path / "wrapper"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    assert kind_of(path) == kind


@pytest.mark.parametrize(("name", "is_in_place"), [("new.o", True), ("old.o", True), ("fifo", False)])
def test_a_wrapper_writes_its_object_in_place_unless_the_output_is_a_special_file(
    tmp_path: Path, name, is_in_place
):
    (tmp_path / "old.o").touch()
    os.mkfifo(tmp_path / "fifo")
    output = Output("object", "/s/a.o", str(tmp_path / name))
    compile_stage = replace(stage("host_compile", "/s/a.o"), argv=("g++", "-o", "/s/a.o"), outputs=(output,))
    (found,) = wrappers.plan_in_place(Plan((compile_stage,), {}, {}, "/s")).stages
    path = str(tmp_path / name) if is_in_place else "/s/a.o"
    assert (found.argv[-1], found.outputs[0].path) == (path, path)
    flags = ("sees_directory", "sees_names", "sees_output_names", "stays_in_order")
    assert [getattr(found.grammar, flag) for flag in flags] == [is_in_place] * 4


def test_programs_other_than_gcc_and_shell_scripts_are_opaque_wrappers(tmp_path: Path) -> None:
    assert kind_of(Path(GCC)) == ""
    assert kind_of(Path("/bin/true")) == ANY_WRAPPER
    path = tmp_path / "wrapper"
    path.write_text(f'#!{sys.executable}\nexec {GCC} "$@"\n')
    path.chmod(0o755)
    assert kind_of(path) == ANY_WRAPPER


def run(program: str, *words: str, directory: str = "/w") -> Process:
    return Process(program, [program, *words], directory=directory)


SHELL = run("/bin/sh", "wrapper", "-c", "/s/a.ii")
COMPILER = run("/usr/bin/g++-12", "-c", "/s/a.ii")
INNER = run("/usr/lib/cc1plus", "/s/a.ii")
RUNS = {
    "nothing": ((), [SHELL, COMPILER, INNER]),
    "harmless options": ((), [SHELL, run("/usr/bin/g++-12", "-fPIC", "-DX", "-c", "/s/a.ii"), INNER]),
    "debug information": ((PLACES,), [SHELL, run("/usr/bin/g++-12", "-g", "-c")]),
    "an unknown option": ((PLACES,), [SHELL, run("/usr/bin/g++-12", "-finstrument-functions", "-c")]),
    "options in a file": ((PLACES,), [SHELL, run("/usr/bin/g++-12", "@words", "-c")]),
    "clang's front end": ((), [SHELL, run("/usr/bin/clang", "-c"), run("/usr/bin/clang", "-cc1", "-g")]),
    "no compiler": (ALL, [SHELL]),
    "two compilers": (ALL, [SHELL, COMPILER, COMPILER]),
    "another directory": (ALL, [SHELL, run("/usr/bin/g++-12", "-c", directory="/elsewhere")]),
}


@pytest.mark.parametrize("what", RUNS)
def test_effects_of_a_wrapper_follow_from_its_observed_processes(what: str) -> None:
    expected, processes = RUNS[what]
    log = SimpleNamespace(read=lambda: Observation(processes, set()))
    for wrapper, shown in ((PLAIN_WRAPPER, expected), ("", ())):
        one = replace(stage("host_compile", "a.o"), wrapper=wrapper)
        assert wrappers.effects_of(one, ("g++", "-c", "/s/a.ii"), log, ["/s/a.ii"]) == shown


def test_a_wrapper_that_reads_an_intermediate_itself_is_detected(tmp_path: Path) -> None:
    """Under any name; what the compiler reads does not count."""
    path = tmp_path / "a.ii"
    path.write_text("text")
    read = {"/other/name": signatures.signature_of(path)}
    one = replace(stage("host_compile", "a.o"), wrapper=ANY_WRAPPER)
    grep, sizes, inner = (run(program, "x") for program in ("/bin/grep", "/bin/python3", "/usr/lib/cc1plus"))
    grep.files, sizes.found, inner.files = read, {str(path): 0}, read
    for looking, expected in ((grep, ALL), (sizes, ALL), (inner, ())):
        observation = Observation([SHELL, looking, COMPILER], set())
        log = SimpleNamespace(read=lambda result=observation: result)
        assert wrappers.effects_of(one, COMPILER.arguments, log, [str(path)]) == expected


def test_a_wrapper_that_was_not_observed_is_taken_to_have_every_effect() -> None:
    log = SimpleNamespace(read=lambda: Observation([SHELL, COMPILER], set(), "torn"))
    one = replace(stage("host_compile", "a.o"), wrapper=ANY_WRAPPER)
    assert wrappers.effects_of(one, (), log, []) == ALL


@pytest.fixture
def product(tmp_path: Path) -> str:
    path = tmp_path / "a.o"
    path.write_bytes(b"made")
    return str(path)


def seen_to_make(*paths: str) -> Observation:
    return Observation([], set(), made={(os.stat(path).st_dev, os.stat(path).st_ino) for path in paths})


def shown(path: str) -> dict[str, signatures.Signature]:
    return {path: signatures.signature_of(path) or signatures.UNKNOWN}


def test_an_object_belongs_to_the_tool_that_was_observed_to_write_that_file(product: str) -> None:
    assert wrappers.was_written_by(shown(product), seen_to_make(product))
    assert wrappers.was_written_by({}, Observation([], set()))


def test_an_object_replaced_by_another_program_does_not_belong_to_the_tool(
    product: str, tmp_path: Path
) -> None:
    made = seen_to_make(product)
    other = tmp_path / "other"
    other.write_bytes(b"else")
    other.replace(product)
    assert not wrappers.was_written_by(shown(product), made)


def test_an_object_changed_after_it_was_read_does_not_belong_to_the_tool(product: str) -> None:
    taken = shown(product)
    Path(product).write_bytes(b"more than was made")
    assert not wrappers.was_written_by(taken, seen_to_make(product))


@pytest.mark.parametrize(
    ("argv", "looks"),
    [
        *[(["/bin/sh"], True), (["/opt/wrapper"], True), (["/bin/["], True), (["/bin/cp", "-u"], True)],
        *[(["/bin/cp", "-pf"], True), (["/bin/rm", "-f"], True), (["/bin/as"], False)],
    ],
)
def test_a_tool_that_looks_up_its_output_before_writing_is_detected(
    product: str, argv: list[str], looks: bool
) -> None:
    """If the name exists only afterwards, the tool found the object that was already made."""
    absent, found = Process(argv[0], argv, absent={product}), Process(argv[0], argv, found={product: 0})
    elsewhere = Process(argv[0], argv, absent={"sub/a.o"}, found={"sub/a.o": 0})

    def answer(process: Process, *existed: str) -> bool:
        return bool(wrappers.early_lookup([product], existed, Observation([process], set())))

    assert answer(absent) is answer(found, product) is looks
    assert answer(found) is answer(elsewhere, product) is False

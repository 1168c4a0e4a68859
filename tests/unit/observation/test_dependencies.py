"""What each kind of program depends on besides the files that it read."""

from __future__ import annotations

import stat

import pytest

from nvccache.environment import WHOLE
from nvccache.observation import dependencies
from nvccache.observation.observed_process import Process
from nvccache.observation.shell_text import OF_SHELLS
from nvccache.records import facts
from observed_stages import ANY_KIND, FILE, OTHERS, TOOLS, process


def topics(one: Process) -> set[str]:
    return {topic for topic, _ in dependencies.facts_needed(one)}


@pytest.mark.parametrize(
    ("seen", "topic", "programs"),
    [
        ({}, facts.DIRECTORY, OTHERS),
        ({}, facts.CALLER, OTHERS),
        ({"variables": ["PWD"]}, facts.DIRECTORY, OTHERS),
        *[
            ({"others": {path: 0}}, facts.CALLER, ANY_KIND)
            for path in ("/proc/self/status", "/proc/thread-self/limits")
        ],
        *[
            ({"questions": [(name, 0)]}, facts.HOST, f"{OTHERS} sh")
            for name in ("uname", "gethostname", "sysconf", "get_nprocs", "sched_getaffinity")
        ],
        *[
            ({"others": {path: FILE}}, facts.NATIVE, ANY_KIND)
            for path in ("/proc/cpuinfo", "/sys/devices/system/cpu/online")
        ],
        ({"files": {"/etc/clang++.cfg": (0, 0, 0, 0, 0)}}, facts.NATIVE, TOOLS),
    ],
    ids=str,
)
def test_machine_properties_are_inputs_only_of_programs_whose_result_may_depend_on_them(
    seen, topic, programs
):
    found = {program for program in ANY_KIND.split() if topic in topics(process(program, **seen))}
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
    paths = dependencies.include_paths(one, {"CPATH": "c:", "CPLUS_INCLUDE_PATH": "a:d", "PATH": "e"})
    assert paths == ["a", "/b", "c", ".", "d", "/opt", "/usr"]


def test_scripts_that_branch_on_arguments_depend_on_the_directory(tmp_path):
    script = f"{tmp_path}/script"
    one = process("sh", script, "/base/one/a.cu", files={script: (0, 0, 0, 0, 0)})
    for text, chooses in (('case $1 in *two*) x=1;; esac\nexec g++ "$@"', True), ('exec g++ "$@"', False)):
        (tmp_path / "script").write_text(text)
        assert dependencies.may_choose(one) == chooses
        assert (facts.DIRECTORY in topics(one)) == chooses
    assert [name for name in ANY_KIND.split() if dependencies.may_choose(process(name))] == OTHERS.split()


READ = "TERM GCC_COLORS COLUMNS PWD CPATH HOME SOURCE_DATE_EPOCH MAKELEVEL TMPDIR PATH NVCCACHE_DIR".split()


@pytest.mark.parametrize(
    ("requests_colours", "programs", "expected"),
    [
        (False, TOOLS, "CPATH HOME SOURCE_DATE_EPOCH"),
        (True, TOOLS, "CPATH HOME SOURCE_DATE_EPOCH TERM GCC_COLORS"),
        (False, OTHERS, " ".join(sorted({WHOLE, *READ} - {"PATH", "NVCCACHE_DIR"}))),
    ],
)
def test_which_variables_are_inputs_depends_on_the_kind_of_program(requests_colours, programs, expected):
    for program in programs.split():
        found = dependencies.variables_of(process(program, variables=READ), {}, requests_colours)
        assert found == set(expected.split())
    read = {*READ} - {"PATH", "NVCCACHE_DIR"}
    assert dependencies.variables_of(process("sh", variables=READ), {}, requests_colours) == read | OF_SHELLS


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
    assert (WHOLE in dependencies.variables_of(process("sh", "-c", text), environ, False)) == is_whole


@pytest.mark.parametrize("name", ["MAKELEVEL", "OLDPWD", "SHLVL", "TMPDIR", "_"])
def test_normally_ignored_variables_are_inputs_of_a_script_that_names_them(name):
    assert dependencies.variables_of(process("sh", "-c", f"eval ${{{name}}}"), {}, False) == {WHOLE, name}
    assert dependencies.variables_of(process("wrapper", f"x['{name}']"), {}, False) == {WHOLE, name}
    assert dependencies.variables_of(process("wrapper", "for _ in x", f"X{name}"), {}, False) == {WHOLE}


@pytest.mark.parametrize(
    ("text", "name"), [("x=~-/y", "OLDPWD"), ("cd -", "OLDPWD"), ("cd x", ""), ("x=$_", "_"), ("x=$_y", "")]
)
def test_normally_ignored_variables_are_inputs_of_a_script_that_uses_their_short_forms(text, name):
    assert dependencies.variables_of(process("sh", "-c", f"{text}; eval x"), {}, False) == {WHOLE, name} - {
        ""
    }

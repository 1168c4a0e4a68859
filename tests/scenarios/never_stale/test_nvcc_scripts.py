"""Scripts named nvcc that change nvcc's result by anything they can see: no object is ever stale.

Each script is used in turns, and what is in the object is what plain nvcc puts there behind the same
script at that moment: by whole records, and by the stages alone.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.observed_wrappers import script
from workspaces import Workspace

pytestmark = pytest.mark.light
SOURCE = """#include "maybe.h"
#if __has_include(<site.h>)
#include <site.h>
#endif
#ifndef VALUE
#define VALUE none
#endif
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)
__global__ void kernel(int *x) { *x = 1; }
const char *launch() { return "value-" TEXT(VALUE); }
"""
LINE = ("-arch=sm_75", "-I.", "-c")


@dataclasses.dataclass(frozen=True)
class Turn:
    """One compile: what is written before it (None: removed), how it is called, and where."""

    files: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    before: tuple[str, ...] = ()  # arguments
    after: tuple[str, ...] = ()
    output: str = "a.o"
    directory: str = "."
    does: str = ""  # a command that is run before it
    caller: str = ":"  # what its caller does in the shell that starts it


def env(name: str, *values: str) -> tuple[Turn, ...]:
    return tuple(Turn(variables={name: value}) for value in values)


def file(name: str, *texts: str | None) -> tuple[Turn, ...]:
    return tuple(Turn(files={name: text}) for text in texts)


def does(*commands: str) -> tuple[Turn, ...]:
    return tuple(Turn(does=command) for command in commands)


def words(*after: str) -> tuple[Turn, ...]:
    return tuple(Turn(after=tuple(each.split())) for each in after)


BECOMES = '\nexec "{nvcc}" -DVALUE=$V "$@"'
WAITS = '\n"{nvcc}" -DVALUE=$V "$@"\nexit $?'


def python(text: str) -> str:
    become = 'os.execv("{nvcc}", ["{nvcc}", "-DVALUE=" + v, *sys.argv[1:]])'
    return f"import os, sys\n{text}\n{become}"


ONE_TWO = env("SITE", "one", "two")
WORDS = tuple(Turn(caller=f'set -- env _={word} "$@"') for word in ("/a", "/b/cc"))
OPEN = (Turn(caller="exec 9<&-"), Turn(caller="exec 9<a.cu"))
F = file("f", "V=one\n", "V=two\n")
CLOCK = "printf -v now '%(%s)T'; read -r due < {work}/due; test $now -ge $due && V=two"
# Nothing changes but the time.
PASSES = does(
    "test -e due || date +%s -d '15 sec' > due", "until test $(date +%s) -gt $(cat due); do sleep 1; done"
)
# What a script depends on: its text and the turns that show it. The first line is `#!/bin/sh` for most.
MINDS: dict[str, tuple[str, tuple[Turn, ...]]] = {
    "a variable, and waits": ("V=$SITE" + WAITS, ONE_TWO),
    "where headers are": ('export CPATH="$SITE"\nexec "{nvcc}" "$@"', env("SITE", "{work}/c1", "{work}/c2")),
    "bash: BASH_ENV": ("true" + BECOMES, env("BASH_ENV", "{work}/e1", "{work}/e2")),
    "how an option is spelt": (
        'case "$*" in *"-O 2"*) V=2 ;; *) V=1 ;; esac' + BECOMES,
        words("-O2", "-O 2"),
    ),
    # Files.
    "its own text": (
        'exec {work}/inner/nvcc "$@"',
        does("sed -i s/two/one/ inner/nvcc", "sed -i s/one/two/ inner/nvcc"),
    ),
    "what is in a directory": ('set -- "$@"; V=$(echo {work}/l/* | wc -w)' + BECOMES, file("l/x", None, "x")),
    "the mask": ("V=m$(umask)" + BECOMES, tuple(Turn(variables={"MASK": mask}) for mask in ("022", "027"))),
    "whether the object is there": ("test -e a.o && V=two" + BECOMES, does("rm -f a.o", "touch a.o")),
    "bash: a descriptor that it does not read": (
        "{ : <&9; } 2>/dev/null && V=two || V=one" + BECOMES,
        OPEN[::-1],
    ),
    # The time.
    "the clock": ("test $(date +%s) -ge $(cat {work}/due) && V=two" + BECOMES, PASSES),
}


def set_up(workspace: Workspace, text: str, first: str) -> None:
    real = workspace.nvcc
    workspace.write("a.cu", SOURCE)
    workspace.write("maybe.h", "")
    for number, value in enumerate(("one", "two"), start=1):
        workspace.write(f"d{number}/maybe.h", "")
        workspace.write(f"d{number}/a.cu", SOURCE.replace("maybe.h", "../maybe.h"))
        workspace.write(f"h{number}/.site", f"V={value}\n")
        workspace.write(f"e{number}", f"V={value}\n")
        script(f"echo {value}", f"p{number}/site")(workspace)
        script(f'exec "{real}" -DVALUE={value} "$@"', f"inner/{value}")(workspace)
        workspace.write(f"c{number}/site.h", f"#define VALUE {value}\n")
    workspace.write("d2/mark", "")
    workspace.write("clock", CLOCK.replace("{work}", str(workspace.directory)) + "\n")
    workspace.write("l/kept", "")
    (workspace.directory / "p0").mkdir()
    (workspace.directory / "p9").mkdir()
    (workspace.directory / "p9/real-nvcc").symlink_to("../inner/one")
    script(f'exec "{real}" -DVALUE=one "$@"', "inner/nvcc")(workspace)
    script(text.replace("{nvcc}", real), "bin/nvcc", first)(workspace)
    workspace.nvcc = str(workspace.directory / "bin/nvcc")
    workspace.environ["PATH"] = (
        f"{workspace.directory}/p0:{workspace.directory}/p9:{workspace.environ['PATH']}"
    )


def value(workspace: Workspace, turn: Turn, *, cached: bool) -> str:
    """The value in an object compiled as a turn says."""
    cwd = workspace.directory / turn.directory
    if not (turn.does and "a.o" in turn.does):
        (cwd / turn.output).unlink(missing_ok=True)
    environ = {**workspace.environ, "PWD": str(cwd)}
    for name, text in turn.variables.items():
        environ[name] = text.replace("{work}", str(workspace.directory)).replace(
            "{path}", workspace.environ["PATH"]
        )
    ours = [str(launcher_of_tree())] if cached else []
    argv = [*ours, workspace.nvcc, *turn.before, *LINE, "a.cu", "-o", turn.output, *turn.after]
    around = [
        "bash",
        "-c",
        f'umask ${{MASK:-022}}; ulimit -n ${{FILES:-1000}}; {turn.caller}; exec "$@"',
        "sh",
    ]
    done = subprocess.run([*around, *argv], cwd=cwd, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(rb"value-(\w*)", (cwd / turn.output).read_bytes())
    assert found
    return found[1].decode()


def prepare(workspace: Workspace, turn: Turn) -> None:
    for name, text in turn.files.items():
        if text is None:
            (workspace.directory / name).unlink(missing_ok=True)
        else:
            workspace.write(name, text)
    if turn.does:
        subprocess.run(["sh", "-c", turn.does], cwd=workspace.directory, check=True)
    time.sleep(0.1)


@pytest.mark.by_default(
    "where headers are",
    "bash: BASH_ENV",
    "its own text",
    "whether the object is there",
    "bash: a descriptor that it does not read",
)
@pytest.mark.parametrize("what", MINDS)
def test_no_object_is_stale(workspace: Workspace, what: str) -> None:
    text, turns = MINDS[what]
    shell = what.partition(":")[0]
    first = {"bash": "#!/bin/bash", "python": "#!{python}", "perl": "#!/usr/bin/perl"}.get(shell, "#!/bin/sh")
    set_up(workspace, text, first)
    seen = set()
    for number, turn in enumerate((*turns, turns[-1], *turns, turns[0])):
        if number == len(turns) + 1:
            workspace.forget_calls()
        prepare(workspace, turn)
        expected = value(workspace, turn, cached=False)
        prepare(workspace, turn)
        assert value(workspace, turn, cached=True) == expected, (what, number, turn)
        seen.add(expected)
    assert len(seen) > 1, "what it chooses by shows in nothing that plain nvcc makes"


EACH_TIME = {
    "random": ("#!/bin/bash", "V=$RANDOM$RANDOM"),
}


@pytest.mark.parametrize("what", EACH_TIME)
def test_what_is_another_each_time_is_so_behind_nvccache(workspace: Workspace, what: str) -> None:
    first, text = EACH_TIME[what]
    set_up(workspace, text if "import" in text else text + BECOMES, first)
    assert len({value(workspace, Turn(), cached=True) for _ in range(4)}) == 4


PRELOADED = {
    "its length": ("#!/bin/bash", "V=v${#LD_PRELOAD}"),
}


@pytest.mark.parametrize("what", PRELOADED)
def test_who_looks_for_a_library_that_is_preloaded_finds_none_of_ours(
    workspace: Workspace, what: str
) -> None:
    first, text = PRELOADED[what]
    set_up(workspace, text if "import" in text else text + BECOMES, first)
    assert value(workspace, Turn(), cached=True) == value(workspace, Turn(), cached=False)


SAYS = {
    "another status": '"{nvcc}" "$@" || exit 7',
    "a filter": '"{nvcc}" "$@" 2>&1 | sed s/error/ERROR/',
    "twice": '"{nvcc}" -DX=1 "$@" && exec "{nvcc}" -DX=2 "$@"',
}


@pytest.mark.by_default("another status", "a filter")
@pytest.mark.parametrize("what", SAYS)
def test_what_is_said_and_how_it_ends(workspace: Workspace, what: str) -> None:
    set_up(workspace, SAYS[what], "#!/bin/sh")
    for more in ("", "", "int a = b;\n", "int a = b;\n"):
        workspace.write("a.cu", SOURCE + more)
        results = []
        for run in (workspace.plain, workspace.cached):
            (workspace.directory / "a.o").unlink(missing_ok=True)
            done = run(*LINE, "a.cu", "-o", "a.o")
            results.append(
                (done.status, done.stdout, done.stderr, os.path.exists(workspace.directory / "a.o"))
            )
        assert results[0] == results[1]


def test_what_a_script_does_beside_it_is_done_once(workspace: Workspace) -> None:
    """A rehearsal has no side effects, and commands after nvcc run after the real nvcc."""
    for name, text in {
        "log": 'echo "$*" >> {work}/noted\nexec "{nvcc}" "$@"',
        "behind": '"{nvcc}" "$@" && echo "$*" >> {work}/noted',
        "looks": '"{nvcc}" "$@" && test -s a.o && echo "$*" >> {work}/noted',
        "background": '(sleep 0.2; echo x >> {work}/noted) &\nexec "{nvcc}" "$@"',
        "removes": 'rm -f {work}/gone\nexec "{nvcc}" "$@"',
    }.items():
        counts = []
        if name == "log":
            set_up(workspace, text, "#!/bin/sh")
            real = re.search(r'exec "(\S+)"', Path(workspace.nvcc).read_text())
            assert real
        script(text.replace("{nvcc}", real[1]), "bin/nvcc")(workspace)
        for run in (workspace.plain, workspace.cached):
            noted, gone = workspace.write("noted", ""), workspace.write("gone", "")
            (workspace.directory / "a.o").unlink(missing_ok=True)
            assert run(*LINE, "a.cu", "-o", "a.o").status == 0
            time.sleep(0.4)
            counts.append((noted.read_text().count("\n"), gone.exists()))
        assert counts[0] == counts[1], name

"""A few random edits in a row, made from a seed: after each of them nvccache gives what plain nvcc gives.

A compile searches three directories for headers, of which some are missing, lead elsewhere or include others.
Its options are in a file and in variables as well, and in every third seed a script is its host compiler. An
edit does one or two things to files, links, directories or the call, or puts back what was there first.

1 seed is tried by default, 120 with --every-case:

    pytest --every-case tests/scenarios/never_stale/test_random_edits.py
    NVCCACHE_TEST_SEED=7        other seeds
    NVCCACHE_TEST_SEED=7:123    one of them, as a failure names it
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time

import pytest

from generator.lines import seeds
from scenarios.support.both_ways import both_ways
from scenarios.support.cases import OLD_ENOUGH
from workspaces import Workspace

_BY_DEFAULT, _EVERY, _EDITS = 1, 120, 4
_PLACES = ("one", "two", "three")
_HEADERS = {"a.h": "A", "b.h": "B", "sub/a.h": "C", "asked.h": "D"}
_SOURCE = """\
#include "a.h"
#include <b.h>
#if __has_include("sub/a.h")
#include "sub/a.h"
#endif
#if __has_include(<asked.h>)
#define ASKED 1
#endif
extern "C" __global__ void kernel(long *x)
{
    x[0] = A; x[1] = B; x[2] = E;
#ifdef C
    x[3] = C;
#endif
#ifdef D
    x[4] = D;
#endif
#ifdef ASKED
    x[5] = 1;
#endif
}
#if !defined(__CUDA_ARCH__) && defined(C)
extern const long host[] = {A, B, C, E};
#endif
"""
_COMPILER = """\
#!/bin/sh
here=${0%/*}
FLAGS=
[ -e "$here/debug" ] && FLAGS=-DE=7
. "$here/flags"
exec g++ $FLAGS $SITE "$@"
"""
# Shell functions for the edits; one that is not possible in the tree as it is does nothing.
_PRELUDE = """\
free() { mkdir -p "$(dirname "$1")"; [ ! -d "$1" ] || rm -rf "$1"; }
put() { free "$1"; printf "%b" "$2" > "$1"; }
same_date() { free "$1"; touch "$1"; cp -p "$1" ../old; put "$1" "$2"; touch -r ../old "$1"; }
other_file() { free "$1"; touch "$1"; put "$1.new" "$2"; touch -r "$1" "$1.new"; mv -T "$1.new" "$1"; }
link() { free "$1"; ln -sfn "$2" "$1"; }
exchange() { mv -T "$1" "$1.other"; mv -T "$2" "$1"; mv -T "$1.other" "$2"; }
"""
_EDITS_OF_FILES = (
    *["put {header} '{text}'"] * 3,
    *["same_date {header} '{text}'"] * 2,
    *["other_file {header} '{text}'"] * 2,
    "rm -rf {header}",
    "touch {header}",
    "touch -d 2001-02-03 {header}",
    "rm -rf {header}; mkdir -p {header}",
    "link {header} $PWD/{other_header}",
    "link {header} nowhere",
    "mv {header} moved.h; link {header} $PWD/moved.h",
    "exchange {header} {other_header}",
    "exchange {place} {other_place}",
    "rm -rf {place}; ln -s {other_place} {place}",
    "cp -a {place} new; rm -rf {place}; mv new {place}",
    "mv {place}/sub {place}/real; ln -s real {place}/sub",
    "put a.h '{text}'",
    "put options '-DE={digit}'",
    "put options '-DE={digit} -I{place}'",
    "sed -i '1i // one more' a.cu",
    "cp -p a.cu new; echo 'int more;' >> new; mv new a.cu",
)
_EDITS_OF_COMPILER = (
    "put tools/flags 'FLAGS=-DC={digit}'",
    "same_date tools/flags 'FLAGS=-DC={digit}'",
    "touch tools/debug",
    "rm -f tools/debug",
    "link tools/debug nowhere",
    "put tools/g++ '#!/bin/sh\\nexec g++ -DC={digit} \"$@\"\\n'; chmod +x tools/g++",
)
_CALL = {
    "path": ("-Ione -Itwo -Ithree", "-Itwo -Ione -Ithree", "-Ione -Isub -isystem two -Ithree"),
    "macro": ("", "-DC=5", "-UC"),
    "CPATH": ("", "one", "three:one", ":two"),
    "NVCC_APPEND_FLAGS": ("", "-DD=1", "-Ithree"),
    "SITE": ("", "-DD=2"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    few = seeds(_BY_DEFAULT)
    rows = [pytest.param(seed, marks=() if seed in few else pytest.mark.full) for seed in seeds(_EVERY)]
    metafunc.parametrize("seed", rows)


class Tree:
    """The directory of a seed, and the call in it."""

    def __init__(self, workspace: Workspace, seed: str) -> None:
        self.chance = random.Random(f"{seed} edits")
        self.workspace = workspace
        self.first = workspace.directory.with_name("first")
        self.scripts: list[str] = []
        self.call = {name: values[0] for name, values in _CALL.items()}
        self.has_script = int(seed.rpartition(":")[2]) % 3 == 0
        self.mode = self.chance.choice(("-ptx", "-c", "-c -MD -MF a.d"))

    def prepare(self) -> None:
        self.workspace.write("a.cu", _SOURCE)
        self.workspace.write("tools/g++", _COMPILER).chmod(0o755)
        self.workspace.write("tools/flags", "")
        here, there = self.chance.sample(_PLACES, 2)
        self._run(
            f"mkdir one two three; put options -DE=1; put {here}/a.h '#define A 1\\n'",
            *[f"put {place}/b.h '#define B {place == there:d}\\n'" for place in (here, there)],
        )
        shutil.copytree(self.workspace.directory, self.first, symlinks=True)

    def edit(self) -> None:
        """Everything as it was first, or one or two changes."""
        if self.chance.random() < 0.2:
            shutil.rmtree(self.workspace.directory)
            shutil.copytree(self.first, self.workspace.directory, symlinks=True)
            self.call = {name: values[0] for name, values in _CALL.items()}
            self.scripts.append("# everything as it was first")
        else:
            for _ in range(self.chance.choice((1, 1, 2))):
                self._change()
        time.sleep(self.chance.choice((0, OLD_ENOUGH)))

    def _change(self) -> None:
        if self.chance.random() < 0.25:
            name = self.chance.choice(sorted(_CALL))
            self.call[name] = self.chance.choice(_CALL[name])
            self.scripts.append(f"# {name} is `{self.call[name]}`")
            return
        template = self.chance.choice(_EDITS_OF_FILES + _EDITS_OF_COMPILER * self.has_script)
        place, other = self.chance.sample(_PLACES, 2)
        name = self.chance.choice(sorted(_HEADERS))
        header, other_header = f"{place}/{name}", f"{other}/{self.chance.choice((name, 'b.h'))}"
        names = {"place": place, "other_place": other, "header": header, "other_header": other_header}
        self._run(template.format(**names, text=self._text(name), digit=self.chance.randrange(9)))

    def _text(self, name: str) -> str:
        """A header: what it defines, and sometimes another that it includes, asks for or complains of."""
        more = ("", "", "", "#include <b.h>", f"#include_next <{name}>", "#warning said", "#error no")
        asking = '#if __has_include("never.h")\\n#error there\\n#endif'
        macro = _HEADERS[name]
        rest = self.chance.choice((*more, asking)) if name != "b.h" else ""
        return f"#undef {macro}\\n#define {macro} {self.chance.randrange(9)}\\n{rest}\\n"

    def _run(self, *scripts: str) -> None:
        self.scripts += scripts
        subprocess.run(
            ["sh", "-c", "\n".join([_PRELUDE, *scripts])],
            cwd=self.workspace.directory,
            capture_output=True,
            check=False,
        )

    def compare(self) -> int:
        """Compile both ways, and once more through nvccache."""
        variables = {name: value for name, value in self.call.items() if name.isupper() and value}
        line = f"{self.mode} a.cu -o product -optf options {self.call['path']} {self.call['macro']}"
        argv = [*line.split(), *(["-ccbin", "tools/g++"] if self.has_script else [])]
        for _ in range(2):
            made = both_ways(self.workspace, *argv, **variables)
        return made.status


def test_no_object_is_stale_after_random_edits(workspace: Workspace, seed: str) -> None:
    tree = Tree(workspace, seed)
    tree.prepare()
    try:
        assert tree.compare() == 0
        for _ in range(_EDITS):
            tree.edit()
            tree.compare()
    except AssertionError as difference:
        done = "\n".join([f"NVCCACHE_TEST_SEED={seed}", _PRELUDE, *tree.scripts])
        raise AssertionError(f"{done}\n\n{difference}") from difference

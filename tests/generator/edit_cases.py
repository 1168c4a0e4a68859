"""Small compiles and one edit of each, made from a seed: what it changes, and what plain nvcc then does.

A case is made of parts. Each part adds files, options or variables, and a value that ends in the product; the
main part of a case also offers the edits, of which one is made. The number of a seed goes through the main
parts and their edits in turn, so that some hundreds of seeds make every edit there is at least once.

Files are made and edited by shell commands, so that a failure can print a script that reproduces it.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shlex
from collections.abc import Callable, Mapping

PRELUDE = """\
put() { mkdir -p "$(dirname "$1")"; cat > "$1"; }
program() { put "$1"; chmod +x "$1"; }
same_date() { cp -p "$1" ../old; cat > "$1"; touch -r ../old "$1"; }
other_file() { cat > "$1.new"; chmod --reference="$1" "$1.new"; touch -r "$1" "$1.new"; mv -T "$1.new" "$1"; }
exchange() { mv -T "$1" "$1.other"; mv -T "$2" "$1"; mv -T "$1.other" "$2"; }
"""
# What an edit changes of what plain nvcc gives, if not everything, nothing or what is not known (None).
DEPFILE = "the depfile, if there is one"
OBJECT = "the object for the host, if there is one"
# Claimed by a part that is only ever the main one, since its options keep a call from the cache.
ALONE = "all"
# When and where an edit is made.
AT_REST = "between two calls"
ELSEWHERE = "in a copy of the directory, below the same base directory"
STAGES = ("cc1plus", "cudafe++", "cicc", "ptxas")
_MODES = ("-c", "-c", "-c", "-dc", "-ptx", "-cubin")
_DEPFILES = ("", "", "-MD -MF a.d", "-MMD -MF a.d", "-MD -MF a.d -MP", "-MD -MF a.d -MT product")
_SURROUNDINGS = ("", "", "", "-lineinfo", "-Xcompiler -Wall", "-std=c++17", "-O2", "-Xcompiler -O2")


@dataclasses.dataclass(frozen=True)
class Edit:
    """`variables` are set, or unset where None; `line` is a text of the command line and another for it."""

    description: str
    script: str = ""
    variables: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    line: tuple[str, str] = ("", "")
    changes: bool | str | None = True


@dataclasses.dataclass(frozen=True)
class Call:
    """A command line; `{work}`, `{path}` and `{toolkit}` are to be filled in, also in the variables."""

    nvcc: str
    line: str
    variables: Mapping[str, str]

    def after(self, edit: Edit) -> Call:
        old, new = edit.line
        assert old in self.line, (old, self.line)
        line = self.line.replace(old, new, 1) if old else f"{self.line} {new}".rstrip()
        variables = {**self.variables, **edit.variables}
        return Call(self.nvcc, line, {name: value for name, value in variables.items() if value is not None})

    def shown(self) -> str:
        """The call through nvccache, for a shell."""
        variables = [f'{name}="{value}"' for name, value in self.variables.items()]
        return " ".join([*variables, "nvccache", self.nvcc, self.line])


@dataclasses.dataclass(frozen=True)
class EditCase:
    """`moment` is AT_REST, ELSEWHERE or the stage during which the edit is made."""

    seed: str
    parts: tuple[str, ...]
    script: str
    call: Call
    edit: Edit
    moment: str
    is_repeated: bool  # the first call
    is_undone: bool
    has_pauses: bool

    @property
    def makes(self) -> tuple[str, ...]:
        return ("a.o", "a.d") if "-MF" in self.call.line else ("a.o",)

    @property
    def is_made_meanwhile(self) -> bool:
        """While the first call runs."""
        return self.moment in STAGES

    @property
    def changes(self) -> bool | None:
        """Whether plain nvcc gives something else after the edit; None where that is not known."""
        if self.edit.changes == DEPFILE:
            return True if "a.d" in self.makes else None
        if self.edit.changes == OBJECT:
            return True if self.call.line.startswith(("-c ", "-dc ")) else None
        assert self.edit.changes is None or isinstance(self.edit.changes, bool)
        return self.edit.changes

    def __str__(self) -> str:
        """A script that reproduces it, by hand or in a shell; `$TOOLKIT` is a toolkit of links."""
        when = f"# The edit, {self.moment}: {self.edit.description}."
        edit = [self.edit.script]
        if self.moment == ELSEWHERE:
            edit = ["cp -a . ../other; cd ../other", *edit]
        elif self.is_made_meanwhile:
            when = f"# The edit, while `{self.moment}` runs in the call above: {self.edit.description}."
        undone = ["# Everything as it was.", self.call.shown()] if self.is_undone else []
        lines = [
            f"# Seed {self.seed}: {', '.join(self.parts)}.",
            "mkdir work; cd work",
            "export NVCCACHE_BASE_DIR=${PWD%/*}" if self.moment == ELSEWHERE else "",
            PRELUDE + self.script.rstrip("\n"),
            *[self.call.shown()] * (2 if self.is_repeated else 1),
            when,
            *edit,
            self.call.after(self.edit).shown(),
            *undone,
        ]
        text = "\n".join(line for line in lines if line)
        return text.replace("{work}", "$PWD").replace("{path}", "$PATH").replace("{toolkit}", "$TOOLKIT")


class Draft:
    """A case in the making."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.scripts: list[str] = []
        self.source: list[str] = []  # lines in front of the code
        self.values: list[str] = []  # expressions that all passes understand
        self.host_values: list[str] = []
        self.argv: list[str] = []
        self.variables: dict[str, str] = {}
        self.edits: list[Edit] = []
        self.nvcc = "nvcc"
        self.source_name = "a.cu"
        self._number = 0

    def number(self) -> int:
        """One that no other part has, for names."""
        self._number += 1
        return self._number

    def run(self, *commands: str) -> None:
        self.scripts.extend(commands)

    def put(self, name: str, text: str, how: str = "put") -> None:
        self.run(written(name, text, how))

    def add_path(self, name: str, value: str) -> None:
        """Put it at the end of a variable that holds a list."""
        self.variables[name] = ":".join(filter(None, [self.variables.get(name, ""), value]))

    def edit(
        self,
        description: str,
        script: str = "",
        changes: bool | str | None = True,
        line: tuple[str, str] = ("", ""),
        **variables: str | None,
    ) -> None:
        self.edits.append(Edit(description, script, variables, line, changes))

    def edits_of_file(self, name: str, text: str, other: str, what: str = "") -> None:
        """The ways in which a file that is read can get another content of the same size."""
        assert len(text) == len(other), (text, other)
        what = what or f"`{name}`"
        self.edit(f"{what} gets another content", written(name, other))
        self.edit(f"{what} gets another content of the same size and date", written(name, other, "same_date"))
        self.edit(
            f"another file of the same size and date takes the place of {what}",
            written(name, other, "other_file"),
        )
        self.edit(
            f"a link to another file takes the place of {what}",
            written(f"{name}.target", other)
            + f"chmod --reference={name} {name}.target\nln -sfn {os.path.basename(name)}.target {name}\n",
        )
        self.edit(f"{what} becomes unreadable", f"chmod a-r {name}\n", changes=None)


Part = Callable[[Draft], None]


def written(name: str, text: str, how: str = "put") -> str:
    """Shell commands that write a file."""
    return f"{how} {name} <<'END'\n{text.rstrip(chr(10))}\nEND\n"


def value(number: int, digit: int) -> str:
    return f"#define V{number} {digit}\n"


def make_case(seed: str, parts: Mapping[str, tuple[Part, str]]) -> EditCase:
    """The case of a seed; with each part goes what no other part of the same case may claim, if anything."""
    base, _, number = seed.rpartition(":")
    chance = random.Random(f"{seed} edit")
    names = sorted(parts)
    main = names[int(number) % len(names)]
    draft = Draft(chance)
    claimed = {parts[main][1]} - {""}
    chosen = [main]
    for name in chance.sample(names, chance.choice((0, 1, 1, 2))):
        if name not in chosen and parts[name][1] not in {*claimed, ALONE}:
            claimed |= {parts[name][1]} - {""}
            chosen.append(name)
    for name in reversed(chosen):  # so that what the main part offers is of all there is
        draft.edits = []
        parts[name][0](draft)
    line = _line(draft)
    # Some hundreds of seeds make every edit; another first seed begins with another edit.
    turn = int(number) // len(names) + random.Random(base).randrange(100)
    edit = draft.edits[turn % len(draft.edits)]
    return EditCase(
        seed,
        tuple(chosen),
        "".join(text.rstrip("\n") + "\n" for text in [*draft.scripts, _source(draft)]),
        Call(draft.nvcc, line, draft.variables),
        edit,
        _moment(edit, chance),
        is_repeated=chance.random() < 0.3,
        is_undone=chance.random() < 0.4,
        has_pauses=chance.random() < 0.7,
    )


def _line(draft: Draft) -> str:
    mode = "-c" if draft.host_values else draft.chance.choice(_MODES)
    argv = [mode, draft.source_name, "-o a.o"]
    if not any("arch=" in word for word in draft.argv):
        argv.append("-arch=sm_75")
    argv += [*draft.argv, draft.chance.choice(_DEPFILES), draft.chance.choice(_SURROUNDINGS)]
    line = " ".join(word for word in argv if word)
    assert shlex.split(line)
    return line


def _source(draft: Draft) -> str:
    stores = " ".join(f"x[{index}] = {text};" for index, text in enumerate(draft.values))
    host = ", ".join([*draft.values, *draft.host_values, "0"])
    code = [
        f"__global__ void kernel(int *x) {{ {stores} }}",
        "#ifndef __CUDA_ARCH__",
        f"extern const long host[];\nconst long host[] = {{{host}}};",
        "#endif",
    ]
    return written(draft.source_name, "\n".join([*draft.source, *code]))


def _moment(edit: Edit, chance: random.Random) -> str:
    if not edit.script or edit.variables or edit.line[1]:
        return AT_REST
    found = chance.random()
    if found < 0.15:
        return chance.choice(STAGES)
    return ELSEWHERE if found < 0.3 else AT_REST

"""What an edit makes nvcc's stages do anew: those whose output is another, and the seconds that they take.

The command lines are recorded in the real build, by a launcher that writes them down and compiles nothing.
Each is carried out with `-keep --time`, before the edit and after it; the rows of `--time` name the files
of each stage (seen with CUDA 13.0). Texts are compared without line markers and blank lines: these change
no code unless there is debug information, which the PTX then has.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .faults import UnavailableError

RECORDER = """\
#!{python} -IS
import json, os, sys
to, argv = os.environ.get("RECORD_TO"), sys.argv[1:]
if not to or "-o" not in argv or not any(word.endswith(".cu") for word in argv):
    os.execv(argv[0], argv)
with open(to, "a") as stream:
    print(json.dumps({{"directory": os.getcwd(), "argv": argv}}), file=stream)
for option in ("-o", "-MF", "--dependency-output"):
    if option in argv:
        open(argv[argv.index(option) + 1], "w").close()
"""
_LINE_MARKER = re.compile(rb"(?m)^#(?:line)? ?\d.*\n|^[ \t]*\n")
_TEXTS = (".ii", ".c", ".cpp", ".gpu")
_PREPROCESSING, _DRIVER = "preprocessing", "nvcc (driver)"


@dataclass(frozen=True)
class Command:
    """A compile as a build system starts it."""

    directory: str
    argv: tuple[str, ...]

    @property
    def product(self) -> Path:
        return Path(self.directory, self.argv[self.argv.index("-o") + 1])


@dataclass(frozen=True)
class Stage:
    """A row of `--time`: what ran, for which architecture, what it wrote, and the seconds it took."""

    phase: str
    architecture: str
    outputs: tuple[str, ...]
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.phase} {self.architecture}".strip()


@dataclass(frozen=True)
class Kept:
    """What a compile left: its stages, and the content of the files they wrote, by the names of these."""

    stages: tuple[Stage, ...]
    contents: dict[str, bytes]


@dataclass(frozen=True)
class Limit:
    """Seconds of the stages whose output is another, their names, and the seconds of all preprocessing."""

    seconds: float = 0.0
    stages: tuple[str, ...] = ()
    preprocessing: float = 0.0

    @property
    def text_differs(self) -> bool:
        return any(_PREPROCESSING in stage for stage in self.stages)


def read_commands(path: Path) -> list[Command]:
    """What the recorder wrote."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [Command(one["directory"], tuple(one["argv"])) for one in found]


def read_stages(text: str) -> tuple[Stage, ...]:
    """The table of `--time`; its first line has the names of the columns."""
    stages = []
    for row in list(csv.reader(text.splitlines()))[1:]:
        _, phase, _, outputs, architecture, _, metric, unit = (value.strip() for value in row)
        if unit != "ms":
            raise UnavailableError(f"`nvcc --time` counts in `{unit}`")
        if phase != _DRIVER:
            names = tuple(Path(name).name for name in outputs.split())
            stages.append(Stage(phase, architecture, names, float(metric) / 1000))
    return tuple(stages)


def keep(command: Command, environ: dict[str, str], work: Path) -> Kept:
    """Carry out a command, always in the same directory, as the names in it are in some outputs."""
    folder, times = work / "kept", work / "times.csv"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    times.unlink(missing_ok=True)
    argv = [*command.argv, "-keep", "-keep-dir", str(folder), "--time", str(times)]
    done = subprocess.run(argv, cwd=command.directory, env=environ, capture_output=True, check=False)
    if done.returncode:
        raise UnavailableError(f"`nvcc -keep` failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    contents = {path.name: content_of(path) for path in folder.iterdir()}
    contents[command.product.name] = content_of(command.product)
    return Kept(read_stages(times.read_text()), contents)


def content_of(path: Path) -> bytes:
    content = path.read_bytes()
    return _LINE_MARKER.sub(b"", content) if path.suffix in _TEXTS else content


def difference(before: Kept, after: Kept) -> Limit:
    """The stages of `after` that wrote what `before` has not."""
    changed = [stage for stage in after.stages if _differs(stage, before, after)]
    preprocessing = sum(stage.seconds for stage in after.stages if _PREPROCESSING in stage.phase)
    return Limit(
        sum(stage.seconds for stage in changed), tuple(stage.name for stage in changed), preprocessing
    )


def _differs(stage: Stage, before: Kept, after: Kept) -> bool:
    return any(
        before.contents.get(name) != after.contents.get(name)
        for name in stage.outputs
        if name in after.contents or name in before.contents
    )


def together(limits: Sequence[Limit]) -> Limit:
    """The limit of some units: the sum."""
    names = dict.fromkeys(name for limit in limits for name in limit.stages)
    return Limit(sum(one.seconds for one in limits), tuple(names), sum(one.preprocessing for one in limits))

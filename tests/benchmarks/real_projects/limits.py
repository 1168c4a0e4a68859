"""The stages of nvcc that an edit makes necessary, since their output changes, and the seconds they take.

The command lines are recorded in the real build, by a launcher that only logs them. Each is run with `-keep
--time`, before and after the edit; the rows of `--time` name the files of each stage (observed with CUDA
13.0). Texts are compared without line markers and blank lines: these change no code unless there is debug
information, which is then in the PTX.

The module id of a unit without an external definition contains the time and a process id, so that no two
objects are the same. It is masked in texts; outputs made from texts count as changed if an input does.
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

import filelock

from nvccache.plan.stages.host import DEBUG_DIRECTORY

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
_VARYING = re.compile(rb"_[0-9a-f]{8}_\d+$")  # of a module id: a time and a process
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
    """A row of `--time`: a tool, its architecture, inputs, outputs and seconds."""

    phase: str
    architecture: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.phase} {self.architecture}".strip()


@dataclass(frozen=True)
class Kept:
    """The results of a compile: its stages, the content of their files by name, its object and module id."""

    stages: tuple[Stage, ...]
    contents: dict[str, bytes]
    product: bytes = b""
    module_id: bytes = b""


@dataclass(frozen=True)
class Limit:
    """Seconds of the stages whose output changes, of all preprocessing, of all stages; names of the first.

    All are from one run of nvcc: on a busy machine only shares of `total` can be compared with other runs.
    """

    seconds: float = 0.0
    stages: tuple[str, ...] = ()
    preprocessing: float = 0.0
    total: float = 0.0

    @property
    def text_differs(self) -> bool:
        return any(_PREPROCESSING in stage for stage in self.stages)


def read_commands(path: Path) -> list[Command]:
    """The commands that the recording launcher wrote."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [Command(one["directory"], tuple(one["argv"])) for one in found]


def read_stages(text: str) -> tuple[Stage, ...]:
    """The table of `--time`; its first line has the names of the columns."""
    stages = []
    for row in list(csv.reader(text.splitlines()))[1:]:
        _, phase, inputs, outputs, architecture, _, metric, unit = (value.strip() for value in row)
        if unit != "ms":
            raise UnavailableError(f"`nvcc --time` counts in `{unit}`")
        if phase != _DRIVER:
            names = (tuple(Path(name).name for name in column.split()) for column in (inputs, outputs))
            stages.append(Stage(phase, architecture, *names, float(metric) / 1000))
    return tuple(stages)


def keep(command: Command, environ: dict[str, str]) -> Kept:
    """Run a command with `-keep`.

    Intermediate files have the paths that are in nvccache's objects with debug information, since the order
    of strings in it depends on the paths. Hence only one process may do this at a time, as in tests.
    """
    folder = Path(DEBUG_DIRECTORY)
    with filelock.FileLock(f"{folder}-tests.lock"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            return _kept(command, environ, folder)
        finally:
            shutil.rmtree(folder)


def _kept(command: Command, environ: dict[str, str], folder: Path) -> Kept:
    times = folder / "times"
    argv = [*command.argv, "-keep", "-keep-dir", str(folder), "--time", str(times)]
    done = subprocess.run(argv, cwd=command.directory, env=environ, capture_output=True, check=False)
    if done.returncode:
        raise UnavailableError(f"`nvcc -keep` failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    module_id = b"".join(path.read_bytes().strip() for path in folder.glob("*.module_id"))
    contents = {path.name: content_of(path, module_id) for path in folder.iterdir()}
    product = command.product.read_bytes()
    contents[command.product.name] = product
    return Kept(read_stages(times.read_text()), contents, product, module_id)


def content_of(path: Path, module_id: bytes = b"") -> bytes:
    content = path.read_bytes()
    if path.suffix in (*_TEXTS, ".ptx") and _VARYING.search(module_id):
        content = content.replace(module_id, _VARYING.sub(b"", module_id))
    return _LINE_MARKER.sub(b"", content) if path.suffix in _TEXTS else content


def difference(before: Kept, after: Kept) -> Limit:
    """The stages of `after` with outputs that `before` lacks."""
    names = before.contents.keys() | after.contents.keys()
    other = {name for name in names if before.contents.get(name) != after.contents.get(name)}
    if _VARYING.search(after.module_id):
        other = {name for name in other if Path(name).suffix in (*_TEXTS, ".ptx")}
        other |= _made_of(after, other)
    changed = [stage for stage in after.stages if other.intersection(stage.outputs)]
    return Limit(
        sum(stage.seconds for stage in changed),
        tuple(stage.name for stage in changed),
        sum(stage.seconds for stage in after.stages if _PREPROCESSING in stage.phase),
        sum(stage.seconds for stage in after.stages),
    )


def _made_of(kept: Kept, other: set[str]) -> set[str]:
    """The outputs of stages after cicc that read any of these files, directly or not."""
    found = set()
    for tool in ("ptxas", "fatbinary", "compiling"):
        for stage in kept.stages:
            if tool in stage.phase:
                texts = {name for name in other | found if Path(name).suffix in (".cpp", ".c", ".fatbin")}
                inputs = stage.inputs or texts  # the rows of host compiles name no file
                found |= set(stage.outputs) if (other | found).intersection(inputs) else set()
    return found


def together(limits: Sequence[Limit]) -> Limit:
    """The limit of several units: the sum."""
    names = dict.fromkeys(name for limit in limits for name in limit.stages)
    return Limit(
        sum(one.seconds for one in limits),
        tuple(names),
        sum(one.preprocessing for one in limits),
        sum(one.total for one in limits),
    )

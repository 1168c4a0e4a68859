"""A directory to compile in, with plain nvcc and through nvccache, and what was counted meanwhile."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from click.testing import CliRunner

import stored_records
from installations import launcher_of_tree, private_path
from nvccache.cli.group import commands
from nvccache.plan import stages
from nvccache.store import event_totals, store

# What a developer's shell may hold and a test must not see.
HIDDEN_PREFIXES = ("NVCCACHE_", "NVCC_", "_NVCCACHE", "XDG_", "CPATH", "CUDA", "CPLUS_INCLUDE", "C_INCLUDE")
# Where `-g` objects say the intermediates were: see plan/stages/host.py.
REFERENCE_KEEP_DIRECTORY = Path("/tmp/nvccache")
# Next to a toolkit shared by many tests: a cache with nothing but the digests of its tools and headers.
REMEMBERED = "remembered"
# Seconds: what changed just before a call began is not recorded, since it may have changed meanwhile.
OLD_ENOUGH = 0.06
OWN_PATH = private_path()[0]


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished process."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclasses.dataclass
class Workspace:
    """A directory with sources, a cache of its own, and an environment without the developer's settings."""

    directory: Path
    nvcc: str
    environ: dict[str, str]

    @property
    def cache(self) -> Path:
        return Path(self.environ["NVCCACHE_DIR"])

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def run(self, argv: Sequence[str | Path], cwd: Path | None = None, **variables: str) -> Result:
        """Run any command in the workspace's environment."""
        done = subprocess.run(
            [str(word) for word in argv],
            cwd=cwd or self.directory,
            env={**self.environ, **variables},
            capture_output=True,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def plain(self, *arguments: str | Path, cwd: Path | None = None, **variables: str) -> Result:
        """Run the real nvcc by itself."""
        return self.run([self.nvcc, *arguments], cwd, **variables)

    def cached(self, *arguments: str | Path, cwd: Path | None = None, **variables: str) -> Result:
        """Run nvcc through nvccache as a launcher, once files written before are old enough.

        The launcher ignores PYTHONPATH, by which some tests load other modules.
        """
        self.begin_with_digests(variables)
        time.sleep(OLD_ENOUGH)
        path = {**self.environ, **variables}.get("PYTHONPATH", OWN_PATH)
        ours = [str(launcher_of_tree())] if path == OWN_PATH else [sys.executable, "-m", "nvccache"]
        return self.run([*ours, self.nvcc, *arguments], cwd, **variables)

    def explain(self, *words: str, cwd: Path | None = None, **variables: str) -> str:
        """What `nvccache explain` prints, by its code in this process: starting Python takes far longer."""
        here = os.getcwd()
        os.chdir(cwd or self.directory)
        try:
            environ = {**dict.fromkeys(os.environ), **self.environ, **variables}
            done = CliRunner().invoke(commands, ["explain", *words], prog_name="nvccache", env=environ)
        finally:
            os.chdir(here)
        assert done.exit_code == 0, done.output
        return done.output

    def begin_with_digests(self, variables: Mapping[str, str]) -> None:
        """Fill an empty cache with the tools' digests, if the toolkit has them next to it.

        Reading 200 MB of tools takes as long as compiling a small unit with few headers.
        """
        environ = {**self.environ, **variables}
        place = Path(environ.get("NVCCACHE_DIR", ""))
        remembered = Path(self.nvcc).parents[2] / REMEMBERED if self.nvcc.count("/") > 2 else Path()
        is_usual = {name for name in environ if name.startswith("NVCCACHE_")} <= {
            "NVCCACHE_DIR",
            "NVCCACHE_STRICT",
        }
        if (
            not is_usual
            or os.path.lexists(place)
            or not place.parent.is_dir()
            or not (remembered / store.MEMO).is_dir()
        ):
            return
        made = place.with_name(f"{place.name}-{threading.get_ident()}")
        shutil.copytree(remembered, made)
        try:
            made.rename(place)
        except OSError:  # another call was faster
            shutil.rmtree(made)

    def forget_calls(self) -> None:
        """Remove what answers whole calls from records, so that the stages are asked."""
        shutil.rmtree(self.cache / store.REPLAY, ignore_errors=True)
        stored_records.forget_calls(self.cache)

    def counters(self) -> Counters:
        """What the journal counted so far."""
        return Counters(event_totals.read(str(self.cache), stages.counted()))

    def since(self, action: Callable[[], Result]) -> tuple[Result, Counters]:
        """Run an action; its result, and what it alone added to the counters."""
        event_totals.reset(str(self.cache))
        return action(), self.counters()


class Counters:
    """The totals of the journal, in the words of the tests."""

    def __init__(self, totals: dict[str, object]) -> None:
        self.calls: dict[str, int] = totals["calls"]  # type: ignore[assignment]
        self.bypass_reasons: dict[str, int] = totals["bypass_reasons"]  # type: ignore[assignment]
        self.stages: dict[str, dict[str, float]] = totals["stages"]  # type: ignore[assignment]

    @property
    def outcome(self) -> str:
        """The outcome of the one call counted."""
        (outcome,) = [name for name, count in self.calls.items() if count]
        assert self.calls[outcome] == 1
        return outcome

    def ran(self) -> dict[str, int]:
        """Stage -> how often it was run; only those that ran."""
        return {name: int(stage["miss"]) for name, stage in self.stages.items() if stage["miss"]}

    def hit(self) -> dict[str, int]:
        """Stage -> how often it was taken from the cache; only those that were."""
        return {name: int(stage["hit"]) for name, stage in self.stages.items() if stage["hit"]}

    def compiled(self) -> dict[str, int]:
        """Like `ran`, without preprocessing."""
        return {name: count for name, count in self.ran().items() if not name.endswith("_preprocess")}


def make_workspace(tmp_path: Path, nvcc: str) -> Workspace:
    directory = tmp_path / "work"
    directory.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN_PREFIXES)}
    environ |= {
        "HOME": str(home),
        "NVCCACHE_DIR": str(tmp_path / "cache"),
        "NVCCACHE_STRICT": "1",
        "PATH": f"{Path(nvcc).parent}:{os.environ['PATH']}",
        "LC_ALL": "C",
    }
    libraries = Path(nvcc).parents[1] / "lib"
    if (libraries / "libcudart_static.a").exists() and not libraries.with_name("lib64").exists():
        environ["LIBRARY_PATH"] = str(libraries)  # where wheels put them: nvcc 13.0 looks in lib64
    return Workspace(directory, nvcc, environ)

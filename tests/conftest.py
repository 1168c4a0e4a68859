"""Fixtures shared by all tests: a real nvcc, a workspace, and nvccache run in it as a user runs it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from nvccache import journal
from nvccache.nvcc_search import find_nvcc

CORPUS = Path(__file__).parents[2] / "shared" / "dryruns"
# What a developer's shell may hold and a test must not see.
_HIDDEN_PREFIXES = ("NVCCACHE_", "NVCC_", "_NVCCACHE", "XDG_", "CPATH", "CUDA", "CPLUS_INCLUDE", "C_INCLUDE")
# Where `-g` objects say the intermediates were: see execution.DEBUG_DIRECTORY.
REFERENCE_KEEP_DIRECTORY = Path("/tmp/nvccache")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-line",
        action="store_true",
        help="compare every command line of tests/scenarios with plain nvcc, not every second one",
    )


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

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, words: Sequence[str | Path], cwd: Path | None = None, **variables: str) -> Result:
        """Run any command in the workspace's environment."""
        done = subprocess.run(
            [str(word) for word in words],
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
        """Run nvcc through nvccache as a launcher."""
        return self.run([sys.executable, "-m", "nvccache", self.nvcc, *arguments], cwd, **variables)

    def counters(self) -> Counters:
        """What the journal counted so far."""
        return Counters(journal.totals(str(self.cache)))

    def since(self, action: Callable[[], Result]) -> tuple[Result, Counters]:
        """Run an action; its result, and what it alone added to the counters."""
        journal.reset(str(self.cache))
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


@pytest.fixture(scope="session")
def nvcc() -> str:
    """A real nvcc of CUDA 13, this machine's or the wheels' of the `toolkit` extra."""
    found = os.environ.get("NVCCACHE_TEST_NVCC") or find_nvcc(os.environ, release="13")
    assert found, "the tests need a real nvcc 13: pip install -e '.[test,toolkit]'"
    return found


@pytest.fixture
def workspace(tmp_path: Path, nvcc: str) -> Workspace:
    """An empty workspace; its environment has strict mode on, so that a fault of ours surfaces."""
    return make_workspace(tmp_path, nvcc)


def make_workspace(tmp_path: Path, nvcc: str) -> Workspace:
    directory = tmp_path / "work"
    directory.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN_PREFIXES)}
    environ |= {
        "HOME": str(home),
        "NVCCACHE_DIR": str(tmp_path / "cache"),
        "NVCCACHE_STRICT": "1",
        "PATH": f"{Path(nvcc).parent}:{os.environ['PATH']}",
        "LC_ALL": "C",
    }
    return Workspace(directory, nvcc, environ)


@pytest.fixture(autouse=True)
def users_cache_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may touch the cache of whoever runs it: whatever asks for the default finds a file there."""
    blocker = tmp_path / "no-home"
    blocker.write_text("not a directory")
    for name in [name for name in os.environ if name.startswith(_HIDDEN_PREFIXES)]:
        if not name.startswith("NVCCACHE_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(blocker))


@pytest.fixture
def reference_directory() -> Iterator[Path]:
    """The directory for `nvcc -keep`; objects with debug information name it. One test at a time."""
    import filelock

    with filelock.FileLock("/tmp/nvccache-tests.lock"):
        REFERENCE_KEEP_DIRECTORY.mkdir(exist_ok=True)
        yield REFERENCE_KEEP_DIRECTORY
        shutil.rmtree(REFERENCE_KEEP_DIRECTORY)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The recorded dry runs of six toolkits, which are kept beside the repository."""
    if not CORPUS.is_dir():
        pytest.skip("the dry-run corpus ../shared/dryruns is not here")
    return CORPUS

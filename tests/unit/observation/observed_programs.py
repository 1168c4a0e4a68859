"""Small programs that run observed: for tests of the observer."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from nvccache.machine import process
from nvccache.observation import observer, observer_log
from nvccache.observation.observer_log import Observation

SOURCE = Path(__file__).with_name("observed_program.c")
CAT = str(shutil.which("cat"))
QUIET = {"PATH": os.environ["PATH"]}


@pytest.fixture(scope="module", autouse=True)
def the_observer_is_built() -> None:
    assert os.path.exists(observer.LIBRARY), "pip install -e . builds the observer, with a C compiler"


def compile_c(source: Path, path: Path, *argv: str) -> str:
    subprocess.run(["gcc", "-w", "-pthread", *argv, "-o", path, source, "-ldl"], check=True)
    return str(path)


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    return compile_c(SOURCE, tmp_path_factory.mktemp("observed") / "observed")


@pytest.fixture(scope="module")
def static(tmp_path_factory) -> str:
    return compile_c(SOURCE, tmp_path_factory.mktemp("static") / "unseen", "-static", "-DSTATIC")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command observed: the finished process and the observation."""
    directory = tmp_path / "work"
    directory.mkdir()

    def run(*argv: str, watched: str = "watched", **variables: str) -> tuple[process.Completed, Observation]:
        place, began_ns = str(tmp_path / watched), time.time_ns()
        with monkeypatch.context() as meanwhile:
            meanwhile.chdir(directory)
            done = process.run(argv, observer.arm(place, {**QUIET, **variables}))
        return done, observer_log.read(observer.log_in(place), argv[0], began_ns)

    run.directory = directory  # type: ignore[attr-defined]
    return run


def seen_by(found: Observation, kind: str) -> set[str]:
    """The base names of the paths of one kind."""
    return {os.path.basename(path) for process in found.processes for path in getattr(process, kind)}


def complete(result: tuple[process.Completed, Observation], status: int = 0) -> Observation:
    done, found = result
    assert (done.status, done.stdout, done.stderr, found.incomplete) == (status, b"", b"", "")
    return found

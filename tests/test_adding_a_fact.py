"""A fact more is a row and what yields it: the lines of the page that says how, in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "development" / "adding-a-fact.md"
LAST_ROW = "    # (topic, subject, answer)"
SENTENCES = '_MOVED = {"moved"'
FILES = "        self._add_files(made)\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a package with one fact more."""
    folder = tmp_path_factory.mktemp("one-more")
    shutil.copytree(ROOT / "src/nvccache", folder / "nvccache", ignore=shutil.ignore_patterns("__pycache__"))
    row, check, yielding = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    row, comment, _ = row.split("\n")
    _insert(folder / "nvccache/records/facts.py", LAST_ROW, f"    {row},\n    {comment}\n")
    _insert(folder / "nvccache/records/facts.py", SENTENCES, f"{check}\n\n")
    _insert(
        folder / "nvccache/observation/stage_inputs.py",
        FILES,
        FILES + textwrap.indent(textwrap.dedent(yielding), " " * 8),
        instead=True,
    )
    return folder


def _insert(path: Path, mark: str, text: str, *, instead: bool = False) -> None:
    before, found, after = path.read_text().partition(mark)
    assert found
    path.write_text(before + text + ("" if instead else found) + after)


@pytest.fixture
def compile_with(tmp_path: Path, real_nvcc: str):
    def compile_with(package: Path) -> str:
        """Compile, and compile again with another mode of a header: why that was no direct hit, or not."""
        work = tmp_path / "work"
        work.mkdir()
        (work / "a.h").write_text("#define A 1\n")
        (work / "a.cu").write_text('#include "a.h"\n__global__ void k(int *p) { *p = A; }\n')
        (work / "a.h").chmod(0o644)
        environ = {name: text for name, text in os.environ.items() if not name.startswith("NVCCACHE_")}
        environ |= {"PYTHONPATH": str(package), "NVCCACHE_DIR": str(work / "cache"), "NVCCACHE_STRICT": "1"}

        def run(*argv: str) -> str:
            argv = (sys.executable, "-m", "nvccache", *argv)
            return subprocess.run(
                argv, cwd=work, env=environ, capture_output=True, text=True, check=True
            ).stdout

        time.sleep(0.1)
        for mode in (0o644, 0o644, 0o600):
            (work / "a.h").chmod(mode)
            run(real_nvcc, "-c", "a.cu", "-o", "a.o", "-arch=sm_80")
        return run("explain", "a.o")

    return compile_with


def test_it_is_recorded_compared_and_explained(package, compile_with):
    assert "because the mode of `a.h` changed" in compile_with(package)


def test_without_it_a_mode_is_nothing(compile_with):
    assert "direct hit" in compile_with(ROOT / "src")

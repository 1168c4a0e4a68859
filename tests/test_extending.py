"""The lines of docs/development/extending.md, in a copy of the package: each part is a file or a row."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.remote.machines import machine

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "development" / "extending.md").read_text()
# Where the page's blocks go, in order: a file, and the text before which it is inserted.
PLACES = (
    ("config.py", "\n    origins: dict[str, str]"),
    ("records/facts.py", '    Fact("machine", 3'),
    ("records/facts.py", '_MOVED_CLAUSE = {"moved"'),
    ("observation/stage_inputs.py", "        for process in self._processes:\n            own ="),
    ("remote/database.py", ""),
    ("remote/backend.py", "    from nvccache.remote.object_store"),
    ("remote_url.py", '    "file": Scheme('),
    ("cli/hello.py", ""),
    ("cli/__init__.py", '    "clean": '),
)
Run = Callable[..., str]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a package with one part more of each kind."""
    folder = tmp_path_factory.mktemp("one-more")
    shutil.copytree(ROOT / "src/nvccache", folder / "nvccache")
    for (name, mark), text in zip(PLACES, re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), strict=True):
        path = folder / "nvccache" / name
        before, found, after = path.read_text().partition(mark) if mark else ("", "", "")
        assert found == mark, (name, mark)
        added = textwrap.indent(text.replace("\n", ",\n", 1), "    ") if text[:5] == "Fact(" else text
        path.write_text(before + added + ("\n\n" if text[:4] == "def " else "") + found + after)
    return folder


@pytest.fixture
def run(package: Path, tmp_path: Path) -> Run:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("NVCCACHE_", "XDG_"))}
    environ = {**kept, "HOME": str(tmp_path), "PYTHONPATH": str(package), "NVCCACHE_STRICT": "1"}

    def run(*argv: str, **variables: str) -> str:
        words, own = [sys.executable, *argv], environ | variables
        done = subprocess.run(words, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_an_added_setting_and_command_work_and_are_listed(run, tmp_path):
    code = "import os; from nvccache import config; print(config.load(os.environ).greetings)"
    assert (run("-c", code), run("-c", code, NVCCACHE_GREETINGS="7")) == ("2\n", "7\n")
    assert run("-m", "nvccache", "config", "greetings", NVCCACHE_GREETINGS="7") == "7\n"
    assert json.loads(run("-m", "nvccache", "hello", "--json")) == {"cache": f"{tmp_path}/.cache/nvccache"}
    assert re.search("^  hello +Say which cache is in use.$", run("-m", "nvccache", "--help"), re.MULTILINE)


def test_an_added_kind_of_input_is_recorded_compared_and_explained(run, tmp_path, light_nvcc):
    (tmp_path / "a.h").write_text("#define A 1\n")
    (tmp_path / "a.cu").write_text('#include "a.h"\n__global__ void k(int *p) { *p = A; }\n')
    time.sleep(0.1)
    for mode, cause in ((0o644, "no earlier compile is recorded"), (0o600, "the mode of `a.h` changed")):
        (tmp_path / "a.h").chmod(mode)
        run("-m", "nvccache", light_nvcc, "-c", "a.cu", "-o", "a.o", "-arch=sm_80")
        assert f"because {cause}\n" in run("-m", "nvccache", "explain", "a.o")


def test_an_added_storage_backend_serves_a_second_machine(package, tmp_path, light_nvcc):
    """All machines have one home directory, with the database in it."""
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(package)}
    urls = {"one": "sqlite://team,rw", "two": "sqlite://team"}
    one, two = (machine(tmp_path / name, light_nvcc, url, **home) for name, url in urls.items())
    assert one.compile().outcome == "miss"
    # By a command: what sends in the background would be that of the package that is installed.
    push = [sys.executable, "-m", "nvccache", "remote", "push"]
    assert one.run(push).status == 0
    assert two.compile().outcome == "direct_hit"

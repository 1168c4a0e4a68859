"""A storage backend more: the class and the lines of the page that says how, in a copy of the package."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from scenarios.remote.machines import Machine
from scenarios.remote.remote_units import compile_like_plain, with_sources
from workspaces import Result

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "development" / "adding-a-storage-backend.md"
OTHER_KINDS = "    from nvccache.remote.object_store"
LAST_SCHEME = '    "file": Scheme('
URL = "sqlite://team"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a package with one storage backend more."""
    folder = tmp_path_factory.mktemp("one-more")
    shutil.copytree(ROOT / "src/nvccache", folder / "nvccache", ignore=shutil.ignore_patterns("__pycache__"))
    module, line, row = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "nvccache/remote/database.py").write_text(module)
    _insert(folder / "nvccache/remote/kinds.py", OTHER_KINDS, textwrap.indent(line, "    "))
    _insert(folder / "nvccache/remote_url.py", LAST_SCHEME, row)
    return folder


def _insert(path: Path, mark: str, text: str) -> None:
    before, found, after = path.read_text().partition(mark)
    assert found
    path.write_text(before + text + found + after)


@pytest.fixture
def new_machine(package: Path, tmp_path: Path, light_nvcc: str):
    """Makes a machine that has the backend; all have one home directory, with the database in it."""

    def make(name: str, url: str) -> Machine:
        home = {"HOME": str(tmp_path), "PYTHONPATH": str(package)}
        return with_sources(tmp_path / name, light_nvcc, url, **home)

    return make


def command(machine: Machine, *argv: str) -> Result:
    return machine.run([sys.executable, "-m", "nvccache", *argv], NVCCACHE_REMOTE=f"{URL},rw")


def test_a_second_machine_compiles_nothing(new_machine):
    one = new_machine("one", URL)
    assert compile_like_plain(one).outcome == "miss"
    # By a command: what sends in the background would be that of the package that is installed.
    assert command(one, "remote", "push", "--all").status == 0
    counters = compile_like_plain(new_machine("two", URL))
    assert (counters.outcome, counters.ran()) == ("direct_hit", {})


def test_it_can_do_all_that_is_asked_of_a_remote(new_machine):
    tested = command(new_machine("one", URL), "remote", "test")
    assert (tested.status, tested.stderr) == (0, b"")
    for right in ("read", "write", "read back", "list", "delete"):
        assert re.search(rf"^  {right} +yes ", tested.stdout.decode(), re.MULTILINE), right


def test_one_that_fails_costs_only_itself(new_machine, tmp_path):
    (tmp_path / "team.db").mkdir()
    machine = new_machine("one", URL)
    assert compile_like_plain(machine).outcome == "miss"
    assert machine.outages() == ["unreachable"]

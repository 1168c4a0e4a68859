"""A setting more is one row: the row of the page that explains it, in a copy of the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "development" / "adding-a-setting.md"
TABLE_END = "\n    origins: dict[str, str]"
VARIABLE = "NVCCACHE_GREETING_TIMEOUT"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a package with one setting more."""
    folder = tmp_path_factory.mktemp("one-more")
    shutil.copytree(ROOT / "src/nvccache", folder / "nvccache", ignore=shutil.ignore_patterns("__pycache__"))
    (row,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    table = folder / "nvccache/config.py"
    before, end, after = table.read_text().partition(TABLE_END)
    assert end
    table.write_text(before + row + end + after)
    return folder


@pytest.fixture
def run(package: Path, tmp_path: Path):
    def run(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("NVCCACHE_", "XDG_"))}
        environ = {**kept, "HOME": str(tmp_path), "PYTHONPATH": str(package), **environ}
        return subprocess.run(
            [sys.executable, *argv], env=environ, capture_output=True, text=True, check=True
        )

    return run


@pytest.fixture
def shown(run):
    """What `nvccache config` shows of it."""

    def shown(**environ: str) -> tuple[dict[str, object], str]:
        document = json.loads(run("-m", "nvccache", "config", "--json", **environ).stdout)
        lines = run("-m", "nvccache", "config", **environ).stdout.splitlines()
        (line,) = [line for line in lines if line.startswith("greeting_timeout")]
        return document["settings"]["greeting_timeout"], " ".join(line.split()[1:])

    return shown


def test_it_has_a_default_a_variable_and_a_line_in_the_file(run, shown):
    setting = {"value": 1.5, "origin": "default", "variable": VARIABLE}
    assert shown() == (setting, "1.5 s default")
    run("-m", "nvccache", "config", "set", "greeting_timeout", "3")
    assert shown() == ({**setting, "value": 3.0, "origin": "file"}, "3 s file")
    assert shown(**{VARIABLE: "7"}) == ({**setting, "value": 7.0, "origin": VARIABLE}, f"7 s {VARIABLE}")
    run("-m", "nvccache", "config", "unset", "greeting_timeout")
    assert shown() == (setting, "1.5 s default")


def test_code_reads_it_by_its_name(run):
    printed = run(
        "-c", "import os; from nvccache import config; print(config.load(os.environ).greeting_timeout)"
    )
    assert printed.stdout == "1.5\n"


def test_a_wrong_value_costs_only_itself(run):
    done = run("-m", "nvccache", "config", "--json", **{VARIABLE: "long"})
    assert json.loads(done.stdout)["problems"][0]["setting"] == "greeting_timeout"
    assert done.stderr.startswith(f"nvccache: `{VARIABLE}`: `long` is not a number of seconds")


def test_a_misspelt_one_is_recognized(run):
    done = run("-m", "nvccache", "config", NVCCACHE_GREETING_TIMEOUTS="1")
    assert f"did you mean `{VARIABLE}`?" in done.stderr


def test_the_reference_and_the_manual_page_have_it(run):
    code = "import manual, reference; print(reference.setting_page()); print(manual.page())"
    folder = ROOT / "docs/generate"
    done = run("-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}")
    text = "How long a call waits for a greeting, before it goes on without one."
    facts = "Value: seconds. Default: `1.5`. Name in the file: `greeting_timeout`."
    assert f"\n## {VARIABLE}\n\n{facts}\n\n{text}\n" in done.stdout
    assert f".B {VARIABLE}\n" in done.stdout


def test_the_page_names_each_parser(package):
    table = (package / "nvccache/config.py").read_text()
    assert set(re.findall(r"`(as_\w+)`", PAGE.read_text())) == set(re.findall(r"^def (as_\w+)", table, re.M))

"""A command more is a file and a line: those of the page that says how, in a copy of the package."""

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
PAGE = ROOT / "docs" / "development" / "adding-a-command.md"
LAST_LINE = '        "clean": '


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a package with one command more."""
    folder = tmp_path_factory.mktemp("one-more")
    shutil.copytree(ROOT / "src/nvccache", folder / "nvccache", ignore=shutil.ignore_patterns("__pycache__"))
    module, line = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "nvccache/cli/hello.py").write_text(module)
    names = folder / "nvccache/cli/names.py"
    before, found, after = names.read_text().partition(LAST_LINE)
    assert found
    names.write_text(before + line + found + after)
    return folder


@pytest.fixture
def run(package: Path, tmp_path: Path):
    def run(*argv: str, status: int = 0) -> str:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("NVCCACHE_", "XDG_"))}
        environ = {**kept, "HOME": str(tmp_path), "PYTHONPATH": str(package)}
        done = subprocess.run(
            [sys.executable, *argv], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return run


def test_it_says_what_it_has_to_say(run, tmp_path):
    place = f"{tmp_path}/.cache/nvccache"
    assert run("-m", "nvccache", "hello") == f"the cache is `{place}`\n"
    assert json.loads(run("-m", "nvccache", "hello", "--json")) == {"cache": place}


def test_it_is_listed_and_a_misspelt_one_is_recognized(run):
    assert re.search("^  hello +Say which cache is in use.$", run("-m", "nvccache", "--help"), re.MULTILINE)
    assert "did you mean `hello`?" in run("-m", "nvccache", "helo", status=2)
    assert "no such option `--jsn`; did you mean `--json`?" in run(
        "-m", "nvccache", "hello", "--jsn", status=2
    )


def test_the_reference_and_the_manual_page_have_it(run):
    code = "import manual, reference; print(reference.command_page()); print(manual.page())"
    text = run("-c", f"import sys; sys.path.insert(0, {str(ROOT / 'docs/generate')!r}); {code}")
    assert "\n## nvccache hello\n\n    nvccache hello [OPTIONS]\n\nSay which cache is in use.\n" in text
    assert '\n.SS "nvccache hello ' in text


def test_each_place_that_the_page_names_is_there():
    text = PAGE.read_text()
    for path in re.findall(r"`((?:docs|tests)/[\w/.-]+\.(?:md|py))`", text):
        assert (ROOT / path).exists(), path
    assert "COMMAND_LINES = {" in (ROOT / "tests/unit/cli/test_cli_hostile_text.py").read_text()

"""The manual page: fresh, without faults of form, and installed where `man` looks for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nvccache import config
from nvccache.cli.names import COMMANDS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "man" / "nvccache.1"


def test_the_page_is_fresh():
    script = ROOT / "docs" / "generate" / "manual.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_page_names_every_command_and_setting():
    text = PAGE.read_text()
    assert all(f'.SS "nvccache {name} ' in text for name in COMMANDS)
    assert all(f".B {variable}\n" in text for variable in [row.variable for row in config.SETTINGS.values()])


def test_the_page_has_no_links_of_markdown():
    assert "](" not in PAGE.read_text()


@pytest.mark.parametrize(
    "argv", [["mandoc", "-Tlint", "-Wwarning"], ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]]
)
def test_the_page_has_no_faults_of_form(argv):
    if not shutil.which(argv[0]) or (argv[0] == "man" and not shutil.which("groff")):
        pytest.skip(f"{argv[0]} is not installed")
    done = subprocess.run([*argv, PAGE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert argv[0] == "man" or done.stdout == ""


def test_the_wheel_installs_the_page(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("/nvccache.1")]
        assert name.endswith(".data/data/share/man/man1/nvccache.1")
        assert archive.read(name) == PAGE.read_bytes()

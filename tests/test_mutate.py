"""scripts/mutate, on a package of one module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE = "src/shop/till/prices.py"
TEST = "tests/unit/till/test_prices.py"
BEFORE = """\
def price(count):
    return count * 2


def unchanged(count):
    return count > 7
"""
AFTER = """\
def price(count: int = 1) -> int:
    '''What it costs.'''
    if not count:
        count = 7
    return count * 2


def unchanged(count):
    return count > 7
"""
CHECK = """\
from shop.till.prices import price


def test_price():
    assert price(3) == 6
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    def git(*argv: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@n", *argv], cwd=tmp_path, check=True)

    write(tmp_path / MODULE, BEFORE)
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    write(tmp_path / MODULE, AFTER)
    write(tmp_path / TEST, CHECK)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def mutate(tree: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "scripts/mutate"), "--since", "HEAD", *argv]
    return subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)


def test_survivors_in_changed_functions_are_named(tree):
    done = mutate(tree)
    assert done.stdout.splitlines() == [
        f"{MODULE}:1: constant changed: `1` -> `2`",
        f"{MODULE}:4: constant changed: `7` -> `8`",
        f"{MODULE}:4: statement dropped: `count = 7` -> `pass`",
        "3 of 6 mutations survived (of 6; seed 0)",
    ]
    assert (done.returncode, done.stderr) == (1, "")
    assert (tree / MODULE).read_text() == AFTER


def test_further_tests_kill_them(tree):
    write(tree / "tests/more/test_all.py", CHECK + "    assert (price(), price(0)) == (2, 14)\n")
    done = mutate(tree, MODULE, "--tests", "tests/more")
    assert (done.returncode, done.stdout) == (0, "0 of 6 mutations survived (of 6; seed 0)\n")


def test_a_mutation_that_makes_tests_hang_is_killed(tree):
    write(tree / TEST, CHECK + "    while (price(), price(0)) != (2, 14): __import__('time').sleep(1)\n")
    done = mutate(tree, "--count", "1", "--limit", "1")
    assert (done.returncode, done.stdout) == (0, "0 of 1 mutations survived (of 6; seed 0)\n")


def test_where_tests_fail_anyway_nothing_survives(tree):
    write(tree / TEST, "def test_price(): assert False\n")
    done = mutate(tree)
    assert (done.returncode, done.stdout) == (1, "")
    assert "they fail as it is" in done.stderr

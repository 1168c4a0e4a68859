"""The documentation: generated pages are fresh, and whatever a user can name is described."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re

import pytest

from nvccache import config, outcomes
from nvccache.cli.names import COMMANDS
from nvccache.plan import stages

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as stream:
        return stream.read()


@pytest.fixture(scope="module")
def generator():
    path = os.path.join(ROOT, "docs", "generate", "reference.py")
    specification = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh(generator):
    assert generator.stale_pages() == [], "run `python docs/generate/reference.py`"


def test_texts_of_the_generator_fit_the_code(generator):
    assert set(generator.setting_texts()) == set(config.SETTINGS)
    assert set(generator.STAGE_TEXTS) == set(stages.counted())
    assert {row.parse for row in config.SETTINGS.values()} == set(generator.KIND_TEXTS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section(name):
    assert f"\n## nvccache {name}\n" in read("docs", "reference", "commands.md")


@pytest.mark.parametrize("variable", [row.variable for row in config.SETTINGS.values()])
def test_every_setting_is_described(variable):
    assert f"\n## {variable}\n" in read("docs", "reference", "settings.md")


@pytest.mark.parametrize("word", [*outcomes.OUTCOMES, *outcomes.REASONS, *stages.counted(),
                                  *outcomes.STORE_FAULTS, *outcomes.WRONG_SETTINGS])  # fmt: skip
def test_every_outcome_reason_and_stage_is_described(word):
    assert f"\n- `{word}`: " in read("docs", "reference", "outcomes.md")


def test_every_reason_that_is_given_is_one_of_the_list():
    given = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            if name.endswith(".py"):
                given |= set(re.findall(r'\bBypass\(\s*"(\w+)"', read(os.path.join(folder, name))))
    assert len(given) > 10
    assert given <= outcomes.REASONS.keys()


@pytest.mark.parametrize("command", ["demo", "test"])
def test_commands_of_the_readme_are_one_line_each_and_exist(command):
    assert f"\n    sh scripts/{command}\n" in read("README.md")
    assert os.access(os.path.join(ROOT, "scripts", command), os.X_OK)


def modules_of_the_package():
    source = pathlib.Path(ROOT, "src", "nvccache")
    for path in sorted(source.rglob("*.py")):
        folder = path.parent.relative_to(source)
        if path.name[:2] != "__" and folder.parts[:1] != ("cli",) and folder.parts[1:2] != ("stages",):
            yield str(folder), path.stem


@pytest.mark.parametrize(("folder", "name"), list(modules_of_the_package()))
def test_every_module_is_on_the_map(folder, name):
    rows = read("docs", "development", "architecture.md").splitlines()
    where = f"| `{folder}/` |" if folder != "." else "| `"
    assert any(row.startswith(where) and f"`{name}`" in row for row in rows)


def test_every_file_that_the_map_names_is_there():
    text = read("docs", "development", "architecture.md")
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|c|h|md))`", text))
    assert len(named) > 40
    below = ("", "src/nvccache", "src/native", "src/native/launcher")
    assert [
        path for path in named if not any(os.path.exists(os.path.join(ROOT, place, path)) for place in below)
    ] == []


def test_files_that_the_page_on_extending_names_are_there():
    text = re.sub(r"```.*?```", "", read("docs", "development", "extending.md"), flags=re.DOTALL)
    below = ("", "src/nvccache", "src/nvccache/plan/stages")
    named = set(re.findall(r"`(?:python )?([\w/]+\.(?:py|c|md))`", text)) - {"database.py", "hello.py"}
    assert len(named) > 15
    for path in named:
        assert any(os.path.exists(os.path.join(ROOT, place, path)) for place in below), path

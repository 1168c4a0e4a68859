"""No module names a tool in a literal but those of plan/stages: the others ask what is known of it there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import nvccache
from nvccache.plan import stages

SOURCE = Path(nvccache.__file__).parent
OWN = "plan/stages/"
# Words that only a kind of stage is made of: a check for `_preprocess` names two of them.
PARTS = ("_preprocess", "_compile", "_link", "host_", "device_")
NAMES = {*stages.TOOLS, *(tool.program for tool in stages.ALL if tool.program)}


def literals(text: str) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, those within f-strings, too."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(value, str):
                yield node.lineno, value


def named(text: str) -> list[tuple[int, str]]:
    return [(line, value) for line, value in literals(text) if value in NAMES or value in PARTS]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_files_of_the_tools_name_them(path):
    module = path.relative_to(SOURCE).as_posix()
    if module.startswith(OWN):
        return
    assert not named(path.read_text()), f"{module}: ask the stage's tool (plan/stages/tool.py) instead"


def test_each_file_of_a_tool_is_looked_for():
    """The list of names is that of the tools: each is found where it is described."""
    text = "\n".join(path.read_text() for path in sorted((SOURCE / OWN).glob("*.py")))
    assert {value for _, value in named(text)} >= NAMES


@pytest.mark.parametrize(
    "code",
    [
        'if stage.kind == "cicc": pass',
        'KINDS = ("ptxas", "fatbinary")',
        'kind.endswith("_preprocess")',
        'name = f"host_{what}"',
        '{"cudafe++": 1}',
        'def f(kind="nvlink"): pass',
        "TOOL = b'ptxas'",
    ],
)
def test_a_name_is_found(code):
    assert named(code)


@pytest.mark.parametrize("code", ['"""cicc"""', "# ptxas\n", 'print("an option of ptxas names a file")'])
def test_names_of_tools_in_text_do_not_count(code):
    assert not named(code)

"""No module names a tool in a literal but those of plan/stages: the others ask what is known of it there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nvccache
from nvccache.plan import stages

SOURCE = Path(nvccache.__file__).parent
# Words that only a kind of stage is made of: a check for `_preprocess` names two of them.
PARTS = {"_preprocess", "_compile", "_link", "host_", "device_"}
NAMES = {*stages.TOOLS, *(tool.program for tool in stages.ALL if tool.program)}


def named(text: str) -> Iterator[str]:
    """The names of tools among the strings of a module, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if value in NAMES | PARTS:
                yield f"{node.lineno}: {value}"


def test_only_the_modules_of_cuda_tools_contain_their_names():
    found = {str(path.relative_to(SOURCE)): list(named(path.read_text())) for path in SOURCE.rglob("*.py")}
    own = {path: names for path, names in found.items() if path.startswith("plan/stages/")}
    assert {path: names for path, names in found.items() if names and path not in own} == {}
    assert {name.partition(": ")[2] for names in own.values() for name in names} >= NAMES

"""Where in the source a guarded check is: a definition by its qualified name, and an expression in it.

The expression is compared token by token, without comments, line ends and indentation, so that neither
formatting nor a move of the definition to another module breaks a row. Part of a string is found as text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_STRING = r"""[A-Za-z]{0,2}(?:\"\"\".*?\"\"\"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_OTHER = r"\w+|[^\w\s]"
_TOKENS = {
    ".py": re.compile(rf"(?P<comment>#[^\n]*|\\\n)|{_STRING}|{_OTHER}", re.DOTALL),
    ".c": re.compile(rf"(?P<comment>//[^\n]*|/\*.*?\*/|\\\n)|{_STRING}|{_OTHER}", re.DOTALL),
}
# In C: a function or a table with its body, or a macro with its continued lines.
_DEFINITIONS = re.compile(
    r"^(?:#define (?P<macro>\w+)(?:\\\n|[^\n])*"
    r"|(?!#)[^\n;{}]*?\b(?!__attribute__)(?P<name>\w+)(?:\[\w*\] =|\([^;{}]*\))\s*\{.*?^\}[^\n]*)$",
    re.MULTILINE | re.DOTALL,
)


class Place(NamedTuple):
    """A definition: its dotted name from the package on, and from where to where in which file it is."""

    name: str
    path: Path
    start: int
    end: int


def places_in(root: Path) -> list[Place]:
    """Every definition below a folder of sources: functions, classes, and what modules assign."""
    return [
        Place(f"{_dotted(path.relative_to(root))}{name}", path, start, end)
        for path in sorted(root.rglob("*"))
        if path.suffix in (".py", ".c", ".h", ".sh") or path.name == "nvccache-python"
        for name, start, end in _definitions(path)
    ]


def _dotted(path: Path) -> str:
    return ".".join((path if path.suffix == ".sh" else path.with_suffix("")).parts)


def spans(places: list[Place], name: str, expression: str) -> list[tuple[Path, int, int]]:
    """The file and the ends of an expression, wherever definitions of this name have it."""
    return [
        (place.path, place.start + start, place.start + end)
        for place in places
        if f".{place.name}".endswith(f".{name}")
        for start, end in _occurrences(place, expression)
    ]


def _occurrences(place: Place, expression: str) -> list[tuple[int, int]]:
    text = place.path.read_text()[place.start : place.end]
    as_text = [found.span() for found in re.finditer(re.escape(expression), text)]
    return list(_as_tokens(text, expression, place.path)) or as_text


def _as_tokens(text: str, expression: str, path: Path) -> Iterator[tuple[int, int]]:
    tokens, wanted = _tokens(text, path), [word for word, _, _ in _tokens(expression, path)]
    words = [word for word, _, _ in tokens]
    for index in range(len(words) - len(wanted) + 1):
        if words[index : index + len(wanted)] == wanted:
            yield tokens[index][1], tokens[index + len(wanted) - 1][2]


def _tokens(text: str, path: Path) -> list[tuple[str, int, int]]:
    language = _TOKENS[".c" if path.suffix in (".c", ".h") else ".py"]
    return [(found[0], *found.span()) for found in language.finditer(text) if not found["comment"]]


def _definitions(path: Path) -> Iterator[tuple[str, int, int]]:
    text = path.read_text()
    yield "", 0, len(text)
    if path.suffix in (".c", ".h"):
        for found in _DEFINITIONS.finditer(text):
            yield f".{found['macro'] or found['name']}", *found.span()
    if path.suffix in (".c", ".h", ".sh"):
        return
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line.decode()))
    for name, node in _defined(ast.parse(text).body):
        yield name, lines[node.lineno - 1], lines[node.end_lineno or node.lineno]


def _defined(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield f"{prefix}.{node.name}", node
            yield from _defined(node.body, f"{prefix}.{node.name}")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield f"{prefix}.{target.id}", node

"""Print the modules of each package, imports between packages, import cycles, and long files and functions.

python scripts/structure.py [FOLDER]     FOLDER contains the package, by default src
python scripts/structure.py --long       only the warnings, as scripts/lint prints them

Warnings fail nothing: 450 lines on one subject read better in one file than split in two.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

MOST_LINES, MOST_OF_FUNCTION, MOST_METHODS = 400, 40, 15
SOURCES = Path(__file__).parents[1] / "src"
SUFFIXES = (".py", ".c", ".js", ".css", ".html")


def package_of(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else parts[0]


def main() -> None:
    if "--long" in sys.argv[1:]:
        warn(SOURCES)
        return
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCES
    show(folder)
    warn(folder)


def show(folder: Path) -> None:
    import grimp

    sys.path.insert(0, str(folder))
    graph = grimp.build_graph("nvccache", exclude_type_checking_imports=False, cache_dir=None)
    arrows = {(one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)}
    between = {(package_of(one), package_of(other)) for one, other in arrows}
    between = {(one, other) for one, other in between if one != other}
    for package, count in sorted(Counter(map(package_of, graph.modules)).items()):
        print(f"{package:28} {count:3} modules")
    print(f"{len(graph.modules)} modules, {len(arrows)} imports, {len(between)} arrows between packages")
    print(f"{cycles(arrows)} modules are part of import cycles")


def warn(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES:
            for what in excesses(path):
                print(f"warning: {path.relative_to(folder)}: {what}")


def cycles(arrows: set[tuple[str, str]]) -> int:
    """The number of modules that import themselves, directly or not."""
    following: dict[str, set[str]] = {}
    for one, other in arrows:
        following.setdefault(one, set()).add(other)

    def reaches(start: str) -> bool:
        visited: set[str] = set()
        pending = [start]
        while pending:
            for module in following.get(pending.pop(), ()):
                if module == start:
                    return True
                if module not in visited:
                    visited.add(module)
                    pending.append(module)
        return False

    return sum(map(reaches, following))


def excesses(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    found = [f"{text.count(chr(10))} lines"] if text.count("\n") > MOST_LINES else []
    if path.suffix == ".c":
        found += long_functions_of_c(text)
    if path.suffix != ".py":
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            found += [f"`{node.name}` has {length} lines"] if length > MOST_OF_FUNCTION else []
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found += [f"`{node.name}` has {len(methods)} methods"] if len(methods) > MOST_METHODS else []
    return found


def long_functions_of_c(text: str) -> list[str]:
    """Functions whose braces, each alone at the start of a line, are too far apart."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines, 1) if line == "{"]
    ends = [number for number, line in enumerate(lines, 1) if line == "}"]
    lengths = {start: end - start - 1 for start, end in zip(starts, ends, strict=False)}
    return [f"line {at}: a function of {n} lines" for at, n in lengths.items() if n > MOST_OF_FUNCTION]


if __name__ == "__main__":
    main()

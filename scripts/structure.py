"""Figures of the structure: modules of each package, imports between them, circles, and what is too long.

python scripts/structure.py [FOLDER]     FOLDER holds the package, by default src
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import grimp

MOST_LINES, MOST_OF_FUNCTION, MOST_METHODS = 400, 40, 15


def package_of(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else parts[0]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "src")
    sys.path.insert(0, str(folder))
    graph = grimp.build_graph("nvccache", exclude_type_checking_imports=False, cache_dir=None)
    arrows = {(one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)}
    between = {(package_of(one), package_of(other)) for one, other in arrows}
    between = {(one, other) for one, other in between if one != other}
    for package, count in sorted(Counter(map(package_of, graph.modules)).items()):
        print(f"{package:28} {count:3} modules")
    print(f"{len(graph.modules)} modules, {len(arrows)} imports, {len(between)} arrows between packages")
    print(f"{cycles(arrows)} modules import each other in circles")
    for path in sorted(folder.rglob("*.py")):
        for what in excesses(path):
            print(f"{path.relative_to(folder)}: {what}")


def cycles(arrows: set[tuple[str, str]]) -> int:
    """How many modules can be reached from themselves."""
    following: dict[str, set[str]] = {}
    for one, other in arrows:
        following.setdefault(one, set()).add(other)

    def reaches(start: str) -> bool:
        seen: set[str] = set()
        left = [start]
        while left:
            for module in following.get(left.pop(), ()):
                if module == start:
                    return True
                if module not in seen:
                    seen.add(module)
                    left.append(module)
        return False

    return sum(map(reaches, following))


def excesses(path: Path) -> list[str]:
    text = path.read_text()
    found = [f"{text.count(chr(10))} lines"] if text.count("\n") > MOST_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            found += [f"`{node.name}` has {length} lines"] if length > MOST_OF_FUNCTION else []
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found += [f"`{node.name}` has {len(methods)} methods"] if len(methods) > MOST_METHODS else []
    return found


if __name__ == "__main__":
    main()

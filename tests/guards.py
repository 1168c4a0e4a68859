"""Remove one check after the other, in a copy of the tree, and see its test fail.

    python tests/guards.py [WORD...]      all of them, or those whose names contain one of the words

A suite that passes without a check does not test it. Each row of the tables in `guarded` names a
function, an expression in it, its replacement, and a test that must then fail (guarded/rows.py has
the form). Exits with 1 if a test still passes or an expression is no longer there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from guarded.places import Place, places_in, spans
from guarded.rows import TABLES, Guard, read

ROOT = Path(__file__).parents[1]
GUARDS = [guard for table in TABLES for guard in read(table)]


def main() -> int:
    argv = sys.argv[1:]
    chosen = [guard for guard in GUARDS if not argv or any(word in guard.name for word in argv)]
    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        for guard in chosen:
            verdict = try_without(guard, Path(folder) / "tree")
            unseen += verdict != "seen to fail"
            print(f"{verdict:14}  {guard.name}", flush=True)
    print(f"{len(chosen) - unseen} of {len(chosen)} checks were seen to fail when taken out")
    return 1 if unseen else 0


def try_without(guard: Guard, tree: Path) -> str:
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for name in ("src", "tests", "docs/man"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    try:
        module, mutated = without(guard, places_in(tree / "src"))
    except LookupError as error:
        return str(error)
    if run_test(guard, tree) != 0:
        return "FAILS ANYWAY"
    module.write_text(mutated)
    if module.parent.name == "observer":
        build_observer(tree)
    return {0: "STILL PASSES", 1: "seen to fail"}.get(run_test(guard, tree), "BROKEN")


def without(guard: Guard, places: list[Place]) -> tuple[Path, str]:
    """The file of a check, and its text with the check taken out; LookupError where that is not one file."""
    found = set(spans(places, guard.definition, guard.expression))
    files = {path for path, _, _ in found}
    if len(files) != 1:
        raise LookupError("IN TWO FILES" if files else "IS GONE")
    (path,) = files
    text = path.read_text()
    for _, start, end in sorted(found, reverse=True):
        text = text[:start] + guard.instead + text[end:]
    return path, text


def build_observer(tree: Path) -> None:
    """Compile the library of the copy, as an editable installation would."""
    program = (
        "import sys, tempfile\n"
        "sys.path.insert(0, 'src/native')\n"
        "import hatch_build as build\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    built = build.compiled_observer('src/native/observer', folder, build.Trial())\n"
        "    build.put(built, 'src/nvccache/native/observer.so')\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tree, check=True)


def file_of_test(name: str, tree: Path) -> Path:
    """The only file of tests of this base name."""
    (path,) = (tree / "tests").rglob(name)
    return path


def run_test(guard: Guard, tree: Path) -> int:
    """pytest's status: 0 if all passed, 1 if one failed, 5 if there is no such test."""
    argv = [str(file_of_test(word, tree)) if word.endswith(".py") else word for word in guard.tests]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", *argv]
    environ = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=tree, env=environ, capture_output=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

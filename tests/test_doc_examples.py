"""The commands in the README, the tutorial and the how-tos, run as written.

    pytest --every-case tests/test_doc_examples.py        every page
    NVCCACHE_TEST_REGENERATE=1 ...                        and what commands print is written into the pages

A page that needs a missing program is skipped, with the program's name. The pages show what nvccache
prints with CUDA 13.0: with other releases it is not compared.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import doc_pages
from nvccache.toolkit.discovery import release_of
from scenarios.support.toolkits import with_real_headers
from workspaces import HIDDEN_PREFIXES, Workspace

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/reference/json.md"]
for _kind in ("tutorial", "how-to"):
    PAGES += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"docs/{_kind}/*.md"))
# The programs without which a page cannot run.
NEEDED = {
    "docs/tutorial/real-project.md": ("cmake", "ninja"),
    "docs/how-to/build.md": ("make", "meson", "ninja", "setuptools"),
    "docs/how-to/cmake.md": ("cmake", "make"),
    "docs/how-to/from-other-caches.md": ("ccache", "cmake"),
    "docs/reference/json.md": ("jq",),
}
WITH_ALL_HEADERS = ("docs/tutorial/real-project.md", "docs/how-to/build.md")  # of CUDA
WITHOUT_COMPILES = (
    "pytorch", "docker", "shared-cache", "install", "remote-servers", "remote-execution", "report", "tuning",
    "json",
)  # fmt: skip


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.fixture
def environ(
    workspace: Workspace, real_nvcc: str, launcher: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> dict[str, str]:
    """That of a user who has just installed nvccache: a home without settings, and nvccache on PATH."""
    if request.node.callspec.params["page"] in WITH_ALL_HEADERS:
        workspace = with_real_headers(workspace, real_nvcc)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvccache").symlink_to(launcher)
    for name in ("cmake", "ctest", "ninja", "meson"):
        beside = Path(sys.executable).with_name(name)
        if beside.exists():
            (folder / name).symlink_to(beside)
    (folder / "python3").symlink_to(sys.executable)
    found = {name: value for name, value in workspace.environ.items() if not name.startswith(HIDDEN_PREFIXES)}
    return found | {"PATH": f"{folder}:{workspace.environ['PATH']}", "NVCCACHE_STRICT": "1"}


def counted(environ: dict[str, str]) -> Counter[str]:
    """What became of the calls, in whichever caches the page made."""
    calls: Counter[str] = Counter()
    for folder in Path(environ["HOME"]).rglob("journal"):
        argv, cache = ["nvccache", "stats", "--json"], {"NVCCACHE_DIR": str(folder.parent)}
        calls.update(json.loads(subprocess.check_output(argv, env=environ | cache))["calls"])
    return calls


@pytest.mark.by_default("README.md", "docs/how-to/environments.md", "docs/reference/json.md")
@pytest.mark.parametrize("page", PAGES)
def test_documented_commands_print_the_documented_output(
    page: str, nvcc: str, environ: dict[str, str]
) -> None:
    for program in NEEDED.get(page, ()):
        if not shutil.which(program, path=environ["PATH"]) and not importlib.util.find_spec(program):
            pytest.skip(f"needs {program}")
    text = read(page)
    outputs = doc_pages.run(text, Path(environ["HOME"]), environ)
    if os.environ.get("NVCCACHE_TEST_REGENERATE"):
        (ROOT / page).write_text(doc_pages.with_outputs(text, outputs), encoding="utf-8")
        return
    for command, printed in outputs if release_of(nvcc).startswith("13.0") else ():
        shown = "\n".join(command.shown)
        assert doc_pages.is_shown(command.shown, printed), (
            f"line {command.line}: `{command.typed}` printed\n"
            + "\n".join(printed)
            + f"\nand the page shows\n{shown}"
        )
    if Path(page).stem not in WITHOUT_COMPILES:
        calls = counted(environ)
        assert calls["direct_hit"] and not calls["failed"] and not calls["fault"], calls

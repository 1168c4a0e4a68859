"""The documentation: generated pages are fresh, what a user can name is described, links lead somewhere.

`sh scripts/docs` builds the site, and fails on any warning. Commands of pages run in test_doc_examples.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import doc_pages
import test_doc_examples
from nvccache import config, outcomes
from nvccache.cli.names import COMMANDS
from nvccache.plan import stages
from workspaces import make_workspace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
VARIABLES = [row.variable for row in config.SETTINGS.values()]
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def read(*path: str) -> str:
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def loaded(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return loaded(DOCS / "conf.py")


# The reference and the manual page.


def test_generated_pages_are_fresh():
    generator = loaded(DOCS / "generate" / "reference.py")
    assert generator.stale_pages() == [], "run `python docs/generate/reference.py`"
    assert set(generator.setting_texts()) == set(config.SETTINGS)
    assert set(generator.STAGE_TEXTS) == set(stages.counted())
    assert {row.parse for row in config.SETTINGS.values()} == set(generator.KIND_TEXTS)
    argv = [sys.executable, DOCS / "generate" / "manual.py", "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_reference_describes_what_a_user_can_name():
    commands, settings = read("docs/reference/commands.md"), read("docs/reference/settings.md")
    manual, words = read("docs/man/nvccache.1"), read("docs/reference/outcomes.md")
    assert [name for name in COMMANDS if f"\n## nvccache {name}\n" not in commands] == []
    assert [name for name in COMMANDS if f'.SS "nvccache {name} ' not in manual] == []
    assert [name for name in VARIABLES if f"\n## {name}\n" not in settings] == []
    assert [name for name in VARIABLES if f".B {name}\n" not in manual] == []
    named = [*outcomes.OUTCOMES, *outcomes.REASONS, *stages.counted()]
    named += [*outcomes.STORE_FAULTS, *outcomes.WRONG_SETTINGS]
    assert [word for word in named if f"\n- `{word}`: " not in words] == []
    assert "](" not in manual


def test_every_reason_that_is_given_is_one_of_the_list():
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    given = {word for text in texts for word in re.findall(r'\bBypass\(\s*"(\w+)"', text)}
    assert len(given) > 10 and given <= outcomes.REASONS.keys()


def test_the_wheel_installs_the_manual_page(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("/nvccache.1")]
        assert name.endswith(".data/data/share/man/man1/nvccache.1")
        assert archive.read(name) == (DOCS / "man" / "nvccache.1").read_bytes()


# What commands print with --json: the fields that docs/reference/json.md describes.
JSON_LINES = [
    *("clean --all --dry-run", "config", "config jobs", "config jobs 2", "config --unset jobs"),
    *("explain a.o", "install shims", "doctor", "remote status", "remote push"),
    *("stats", "stats --by source", "--version", "--version --verbose"),
]
BY_NAME = ("settings", "calls", "bypass_reasons", "stages", "kinds")  # objects whose fields are words


def names_in(document: object, name: str = "") -> set[str]:
    """All names of fields, but for those that are words or names of settings, stages or the like."""
    if isinstance(document, list):
        return {found for element in document for found in names_in(element)}
    if not isinstance(document, dict):
        return set()
    below = {found for key, value in document.items() for found in names_in(value, key)}
    return below if name in BY_NAME else below | document.keys()


def test_every_field_of_json_is_described(tmp_path, nvcc):
    workspace = make_workspace(tmp_path, nvcc)
    workspace.write("a.cu", "__global__ void k() {}\n")
    assert workspace.cached("-arch=sm_80", "-c", "a.cu", "-o", "a.o").status == 0
    (workspace.directory / "remote").mkdir()
    remote = {"NVCCACHE_NVCC": nvcc, "NVCCACHE_REMOTE": f"file://{workspace.directory}/remote,rw"}
    for line in JSON_LINES:
        title = line.split()[0]
        section = re.search(
            rf"^## nvccache {title}\n(.*?)(?=^## |\Z)", read("docs/reference/json.md"), re.M | re.S
        )
        shown = workspace.run([sys.executable, "-m", "nvccache", *line.split(), "--json"], **remote).stdout
        assert section and names_in(json.loads(shown)) <= set(re.findall(r"`(\w+)`", section[1])), line


# Pages and links.


def pages() -> Iterator[Path]:
    yield from sorted(DOCS.rglob("*.md"))
    yield from (ROOT / "CHANGELOG.md", ROOT / "README.md")
    yield from sorted((ROOT / ".github").glob("*.md"))


def is_left_out(site: ModuleType, path: Path) -> bool:
    return any(path.is_relative_to(pattern) for pattern in site.exclude_patterns)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and myst make them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.MULTILINE)
    bare = (re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in bare}


def test_links_lead_to_a_page_and_a_heading():
    wrong = []
    for path in pages():
        for link in LINK.findall(FENCED.sub("", path.read_text())):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not link.startswith(("http:", "https:", "mailto:")) and (
                not target.exists() or (anchor and anchor not in anchors(target))
            ):
                wrong.append((str(path), link))
    assert wrong == []


def test_every_page_is_in_the_navigation_once(site):
    listed = [page for part in site.NAVIGATION.values() for page in part]
    paths = [path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")]
    present = {str(path) for path in paths if not is_left_out(site, path)}
    assert len(listed) == len(set(listed)) and {"index", *listed} == present | set(site.BESIDE_DOCS)
    for part, own in site.NAVIGATION.items():
        assert {page.partition("/")[0] for page in own if "/" in page} == {part.lower()}


def test_links_of_the_site_stay_in_it(site):
    wrong = []
    for path in pages():
        is_below = path.is_relative_to(DOCS)
        if path.name == "README.md" or (is_below and is_left_out(site, path.relative_to(DOCS))):
            continue  # not part of the site
        page = str(path.relative_to(DOCS).with_suffix("")) if is_below else path.stem
        for link in LINK.findall(FENCED.sub("", site.for_site(page, path.read_text()))):
            name = link.partition("#")[0]
            if name and not name.startswith(("http:", "https:")):
                target = (DOCS / name[1:] if name[0] == "/" else (DOCS / page).parent / name).resolve()
                is_beside = target.stem in site.BESIDE_DOCS and target.parent == DOCS
                is_page = target.exists() and target.is_relative_to(DOCS)
                if not is_beside and (not is_page or is_left_out(site, target.relative_to(DOCS))):
                    wrong.append((page, link))
    assert wrong == []


def test_every_page_with_commands_is_run_or_says_how_it_was_checked():
    runnable = {
        str(path.relative_to(ROOT)) for kind in ("tutorial", "how-to") for path in (DOCS / kind).glob("*.md")
    }
    assert runnable | {"README.md"} == test_doc_examples.NEEDED.keys()
    not_run = {Path(page).stem for page in test_doc_examples.NEEDED if doc_pages.NOT_RUN in read(page)}
    rows = (
        read("docs/development/testing.md")
        .partition("| pages | checked |\n|---|---|\n")[2]
        .partition("\n\n")[0]
    )
    checked = [row.split(" | ")[0].strip("| ").split(", ") for row in rows.splitlines()]
    assert not_run == {page for row in checked for page in row}


def test_a_file_is_named_before_it_is_shown():
    """The title of a fence is not shown everywhere."""
    for page in test_doc_examples.NEEDED:
        text = read(page)
        for found in re.finditer(r'^```[\w+-]+ title="([^"]+)"$', text, re.MULTILINE):
            assert f"`{found[1]}`" in text[: found.start()].rstrip().split("\n\n")[-1], (page, found[1])


def test_drawings_show_the_recorded_figures_and_need_nothing_from_elsewhere(tmp_path):
    for path in DOCS.glob("images/*.svg"):
        text = path.read_text()
        space = "{http://www.w3.org/2000/svg}"
        assert ElementTree.fromstring(text).findtext(f"{space}title"), path
        assert set(re.findall(r"https?://[^\"' )]+", text)) <= {"http://www.w3.org/2000/svg"}, path
    for name in ("peers", "projects"):
        drawn, benchmarks = tmp_path / f"{name}.svg", ROOT / "benchmarks"
        argv = [benchmarks / f"{name}.py", "--draw", benchmarks / "recorded" / f"{name}.json", "--svg", drawn]
        subprocess.run([sys.executable, *argv], check=True, capture_output=True)
        assert drawn.read_text() == read("docs", "images", f"{name}.svg")


# The map of the code, decisions, and changes.


def test_every_module_is_on_the_map_and_every_file_on_it_exists():
    text = read("docs/development/architecture.md")
    source = ROOT / "src" / "nvccache"
    for path in sorted(source.rglob("*.py")):
        folder = path.parent.relative_to(source)
        if path.name[:2] != "__" and folder.parts[:1] != ("cli",) and folder.parts[1:2] != ("stages",):
            row = f"| `{folder}/` |" if folder.parts else "| `"
            assert any(f"`{path.stem}`" in line for line in text.splitlines() if line.startswith(row)), path
    for page, least in (("architecture", 40), ("extending", 15)):
        prose = FENCED.sub("", read("docs", "development", f"{page}.md"))
        named = set(re.findall(r"`(?:python )?((?:\w+/)*\w+\.(?:py|c|h|md))`", prose)) - {
            "database.py",
            "hello.py",
        }
        below = ("", "src/nvccache", "src/nvccache/plan/stages", "src/native", "src/native/launcher")
        missing = [name for name in named if not any((ROOT / place / name).exists() for place in below)]
        assert len(named) > least and missing == []


def test_pages_of_decisions_are_short_and_those_that_code_names_exist():
    decisions = {path.name: path.read_text() for path in (DOCS / "development" / "decisions").iterdir()}
    assert [name for name, text in decisions.items() if len(text.split()) > 400] == []
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"development/decisions/([\w.-]+\.md)", text)}
    assert named and named <= decisions.keys()


def test_every_fragment_has_a_known_kind_and_a_line_for_each_change():
    settings = tomllib.loads(read("pyproject.toml"))["tool"]["towncrier"]
    kinds = "|".join(kind["name"] for kind in settings["type"])
    head, marker, _ = read(settings["filename"]).partition(settings["start_string"])
    assert marker and "|".join(re.findall(r"^\| (\w+) \|", head, re.MULTILINE)) == f"kind|{kinds}"
    wrong = []
    for path in (ROOT / settings["directory"]).iterdir():
        if path.name in ("README.md", *settings["ignore"]):
            continue
        lines = path.read_text().splitlines()
        wrong += (
            [path.name] if not re.fullmatch(rf"[a-z0-9-]+\.({kinds})\.md", path.name) or not lines else []
        )
        # towncrier puts the bullet and the kind before a line.
        prefixed = re.compile(rf"\s|$|[-*#]\s|({kinds}):")
        wrong += [line for line in lines if prefixed.match(line) or line.endswith(".") or line.count("`") % 2]
    assert wrong == []


@pytest.mark.parametrize("command", ["demo", "test"])
def test_commands_of_the_readme_are_one_line_each_and_exist(command):
    assert f"\n    sh scripts/{command}\n" in read("README.md")
    assert os.access(ROOT / "scripts" / command, os.X_OK)


# The reading and running of pages, on a small one.
PAGE = """\
```cuda title="a/b.txt"
one
```

```console
$ cat a/b.txt; echo took 3.5 s
one
took 1.25 s
$ export X=2; echo "$X
> three"
...
three
```

## Elsewhere

<!-- not-run -->

```sh
frob
```
"""


def test_files_and_commands_are_run_in_order_and_amounts_are_not_compared(tmp_path):
    environ = {**os.environ, "HOME": str(tmp_path)}
    outputs = doc_pages.run(PAGE, tmp_path, environ)
    assert [command.typed.split()[0] for command, _ in outputs] == ["cat", "export"]
    assert all(doc_pages.is_shown(command.shown, printed) for command, printed in outputs)
    stale = PAGE.replace("\nthree\n```", "\nold\n```")
    outputs = doc_pages.run(stale, tmp_path, environ)
    assert [doc_pages.is_shown(command.shown, printed) for command, printed in outputs] == [True, False]
    assert "2\nthree\n```" in doc_pages.with_outputs(stale, outputs)
    with pytest.raises(doc_pages.CommandError, match=r"line 6: `cat a/c\.txt; .*` failed"):
        doc_pages.run(PAGE.replace("$ cat a/b.txt", "$ cat a/c.txt"), tmp_path, environ)

"""The site, without building it: every page is in the navigation and every internal link leads somewhere.

`sh scripts/docs` builds it, and fails on any warning; CI does so.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import doc_pages
import test_doc_examples

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def site() -> ModuleType:
    specification = importlib.util.spec_from_file_location("conf", DOCS / "conf.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def pages() -> Iterator[Path]:
    yield from sorted(DOCS.rglob("*.md"))
    yield from (ROOT / name for name in ("CHANGELOG.md", "README.md"))
    yield from sorted((ROOT / ".github").glob("*.md"))


def is_left_out(site: ModuleType, path: Path) -> bool:
    return any(path.is_relative_to(pattern) for pattern in site.exclude_patterns)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and myst make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.MULTILINE):
        bare = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", bare).strip().replace(" ", "-")
        found.add(slug)
    return found


def test_every_page_is_in_the_navigation_once(site: ModuleType) -> None:
    listed = [page for part in site.NAVIGATION.values() for page in part]
    paths = [path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")]
    present = {str(path) for path in paths if not is_left_out(site, path)}
    assert len(listed) == len(set(listed))
    assert {"index", *listed} == present | set(site.BESIDE_DOCS)


def test_kinds_of_pages_are_kept_apart(site: ModuleType) -> None:
    for part, listed in site.NAVIGATION.items():
        folders = {page.partition("/")[0] for page in listed if "/" in page}
        assert folders == {part.lower()}


@pytest.mark.parametrize("path", list(pages()), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_a_page_and_a_heading(path: Path) -> None:
    for link in LINK.findall(FENCED.sub("", path.read_text())):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_links_of_the_site_stay_in_it(site: ModuleType) -> None:
    for path in pages():
        is_below = path.is_relative_to(DOCS)
        if path.name == "README.md" or (is_below and is_left_out(site, path.relative_to(DOCS))):
            continue  # not part of the site
        page = str(path.relative_to(DOCS).with_suffix("")) if is_below else path.stem
        text = FENCED.sub("", site.for_site(page, path.read_text()))
        folder = DOCS / page
        for link in LINK.findall(text):
            name = link.partition("#")[0]
            if not name or name.startswith(("http:", "https:")):
                continue
            inside = (DOCS / name[1:] if name[0] == "/" else folder.parent / name).resolve()
            is_beside = inside.stem in site.BESIDE_DOCS and inside.parent == DOCS
            is_page = inside.exists() and inside.is_relative_to(DOCS)
            is_page = is_page and not is_left_out(site, inside.relative_to(DOCS))
            assert is_beside or is_page, (page, link)


def test_every_page_with_commands_is_run() -> None:
    expected = {"README.md"}
    for kind in ("tutorial", "how-to"):
        expected |= {str(path.relative_to(ROOT)) for path in (DOCS / kind).glob("*.md")}
    assert expected == test_doc_examples.NEEDED.keys()


def test_of_pages_that_are_not_run_the_one_on_testing_says_how_they_were_checked() -> None:
    pages = {
        Path(page).stem for page in test_doc_examples.NEEDED if doc_pages.NOT_RUN in (ROOT / page).read_text()
    }
    section = (
        (DOCS / "development" / "testing.md").read_text().partition("| pages | checked |\n|---|---|\n")[2]
    )
    rows = section.partition("\n\n")[0].splitlines()
    assert pages == {page for row in rows for page in row.split(" | ")[0].strip("| ").split(", ")}


@pytest.mark.parametrize("page", test_doc_examples.NEEDED)
def test_a_file_is_named_before_it_is_shown(page: str) -> None:
    """The title of a fence is not shown everywhere."""
    text = (ROOT / page).read_text()
    for found in re.finditer(r'^```[\w+-]+ title="([^"]+)"$', text, re.MULTILINE):
        assert f"`{found[1]}`" in text[: found.start()].rstrip().split("\n\n")[-1], found[1]


def test_yaml_in_the_pages_can_be_read() -> None:
    yaml = pytest.importorskip("yaml")
    found = []
    for page in test_doc_examples.NEEDED:
        for block in doc_pages.blocks((ROOT / page).read_text()):
            if block.language == "yaml":
                found.append(yaml.safe_load(block.text))
    assert len(found) >= 2 and all(isinstance(one, dict) for one in found)


@pytest.mark.parametrize("path", sorted(DOCS.glob("images/*.svg")), ids=lambda path: path.name)
def test_drawings_are_small_named_and_need_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg" and root.findtext(f"{space}title")
    assert path.stat().st_size < 64 * 1024
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {"http://www.w3.org/2000/svg"}

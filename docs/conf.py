"""The documentation site: Sphinx reads the pages as they are; `sh scripts/docs` builds and checks it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# scripts/docs copies this file below build/.
ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
project = "nvccache"
version = re.findall('__version__ = "(.*)"', (ROOT / "src/nvccache/__init__.py").read_text("utf-8"))[0]
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"nvccache {version}"
html_logo = "_static/logo.svg"
html_show_sphinx = False
html_show_copyright = False  # Furo would print a sign without a holder
html_static_path = ["_static"]
html_css_files = ["site.css"]
_SOURCE = re.findall('^Source = "(.*)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[0]
html_theme_options = {
    "top_of_page_buttons": [],
    "footer_icons": [{"name": "Source code", "url": _SOURCE, "html": "Source code", "class": ""}],
}
myst_heading_anchors = 3
nitpicky = True
# Fragments of the changelog are no pages yet; reasons are for those who read the code.
exclude_patterns = ["changes", "development/decisions"]
# So that a copied block can be typed: without prompts, and without what the commands printed.
copybutton_prompt_text = r"\$ |> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
linkcheck_timeout = 20
linkcheck_retries = 2

# Every page has its place here, which tests check. Those in capitals lie outside of docs/ in the repository.
NAVIGATION = {
    "Tutorial": ["tutorial/first-build", "tutorial/real-project"],
    "Builds": [
        "how-to/install",
        "how-to/build",
        "how-to/cmake",
        "how-to/pytorch",
        "how-to/from-other-caches",
        "how-to/report",
        "how-to/troubleshooting",
        "how-to/tuning",
    ],
    "CI, containers, clusters": ["how-to/ci", "how-to/docker", "how-to/environments"],
    "Sharing": [
        "how-to/shared-cache",
        "how-to/remote",
        "how-to/remote-servers",
        "how-to/remote-execution",
    ],
    "Examples": ["examples/cuda-graph", "examples/sweep"],
    "Reference": [
        "reference/commands",
        "reference/settings",
        "reference/outcomes",
        "reference/json",
        "reference/cache-layout",
        "CHANGELOG",
    ],
    "Explanation": [
        "explanation/is-it-for-me",
        "explanation/how-it-works",
        "explanation/misses",
        "explanation/soundness",
        "explanation/comparison",
        "SECURITY",
    ],
    "Development": ["CONTRIBUTING"],
}
# Below CONTRIBUTING, folded in the navigation.
DEVELOPMENT = [
    f"development/{page}" for page in ("architecture", "extending", "testing", "glossary", "style")
]
# On the home page: a title, what it is about, and the page.
CARDS = (
    ("Start", "Install it, and compile something twice.", "tutorial/first-build"),
    ("Use it in your build", "make, CMake, PyTorch, Bazel and others.", "how-to/build"),
    ("Share it", "Fetch what CI has compiled, down to single stages.", "how-to/remote"),
)
# What Furo's pages lack for those who use a keyboard or a screen reader.
ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': "<td></td>",
}
BESIDE_DOCS = ("CHANGELOG", "CONTRIBUTING", "SECURITY")


def _toctree(pages: list[str], *options: str) -> str:
    lines = ["", "```{toctree}", ":hidden:", *options, "", *pages, "```", ""]
    return "\n".join(lines)


def for_site(page: str, text: str) -> str:
    """A page's text with its links as they are where scripts/docs has put all pages into one tree."""
    if page == "index":
        head, blank, rest = text.partition("\n| to |")
        cards = "".join(
            f"\n```{{container}}\n**[{title}]({target}.md)**\n\n{about}\n```\n"
            for title, about, target in CARDS
        )
        text = f"{head}\n````{{container}} cards\n{cards}````\n{blank}{rest}"
        for part, pages in NAVIGATION.items():
            text += _toctree(pages, f":caption: {part}")
    if page == "CONTRIBUTING":
        text += _toctree(DEVELOPMENT)
    text = re.sub(
        r'^```([\w+-]+) title="([^"]+)"$', r"```{code-block} \1\n:caption: \2\n", text, flags=re.MULTILINE
    )
    names = "|".join(BESIDE_DOCS)
    text = re.sub(rf"\]\((?:\.\./)*(?:\.github/)?({names})\.md", r"](/\1.md", text)
    if page in BESIDE_DOCS:
        text = re.sub(rf"\]\((?:\.\./)?docs/(?!{'|'.join(exclude_patterns)})", "](/", text)
        # Files of the repository that are no pages.
        text = re.sub(rf"\[([^]]+)\]\((?!/|https?:|#|(?:{names})\.md)[^)]+\)", r"\1", text)
    return text


def _on_read(_: Any, page: str, content: list[str]) -> None:
    content[0] = for_site(page, content[0])


def _on_finish(app: Any, fault: Exception | None) -> None:
    from sphinx.errors import ExtensionError  # tests read this file without Sphinx

    if fault or app.builder.name != "html":
        return
    missing = set(ACCESSIBLE)
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for found, better in ACCESSIBLE.items():
            if found in text:
                missing.discard(found)
                text = text.replace(found, better)
        path.write_text(text, encoding="utf-8")
    if missing:
        raise ExtensionError(f"Furo writes other HTML now: ACCESSIBLE finds none of {sorted(missing)}")


def setup(app: Any) -> None:
    app.connect("source-read", _on_read)
    app.connect("build-finished", _on_finish)

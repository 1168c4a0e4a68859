"""Ten pages of the built site in a browser: nothing scrolls sideways, and axe-core finds no fault.

    sh scripts/docs && python -m pytest --every-case tests/test_doc_site_pages.py

Skipped without a built site, the extra `browser` or Chromium. NVCCACHE_TEST_PICTURES names a directory
for pictures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the extra `browser` (pip install -e '.[browser]')")
pytest.importorskip("axe_playwright_python", reason="needs the extra `browser`")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

import browsers

SITE = Path(__file__).parents[1] / "build" / "site"
PAGES = (
    "index", "SECURITY", "tutorial/first-build", "how-to/cmake", "how-to/remote", "how-to/report",
    "reference/settings", "reference/commands", "explanation/comparison", "development/architecture",
)  # fmt: skip
WIDTHS = (400, 800, 1400)
# By how much the page is too wide. With Furo it may be `.content` that scrolls, and not the window.
OVERFLOW = """Math.max(...["html", ".content"].map(name => document.querySelector(name))
    .map(one => one.scrollWidth - one.clientWidth))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = browsers.find()
    if not path:
        pytest.skip("no Chromium or Chrome here; NVCCACHE_TEST_BROWSER can name one")
    if not SITE.is_dir():
        pytest.skip("no site here: run `sh scripts/docs`")
    with browsers.started(path) as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_at_every_width(browser: Browser, page: str, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)
    tab = context.new_page()
    tab.goto(f"file://{SITE / page}.html")
    faults = []
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        if pictures := os.environ.get("NVCCACHE_TEST_PICTURES"):
            tab.screenshot(path=f"{pictures}/{page.replace('/', '-')}-{width}-{scheme}.png")
        if (over := tab.evaluate(OVERFLOW)) > 0:
            faults.append(f"{over} pixels too wide at {width}")
        found = Axe().run(tab, options={"resultTypes": ["violations"]})
        faults += [
            f"{width}: {one['id']}: {node['html'][:160]}"
            for one in found.response["violations"]
            for node in one["nodes"]
        ]
    context.close()
    assert not faults, "\n".join(faults)

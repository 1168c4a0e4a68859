"""A real browser without a window, for the tests of pages and their pictures."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """The Chromium or Chrome of this machine, or the one that NVCCACHE_TEST_BROWSER names."""
    named = os.environ.get("NVCCACHE_TEST_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def started(path: str) -> Iterator[Browser]:
    # Fonts are hinted and smoothed the same way everywhere, so that pictures differ as little as may be.
    options = ["--font-render-hinting=none", "--disable-lcd-text"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser: Browser, path: str, scheme: str = "light", width: int = 1280) -> Iterator[Page]:
    """A page that is a file, when its scripts have run; what they report as an error is raised in the end."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type != "log" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{path}")
    page.wait_for_selector("html[data-ready]")
    yield page
    context.close()
    assert not faults, faults
    assert set(asked) == {f"file://{path}"}, asked

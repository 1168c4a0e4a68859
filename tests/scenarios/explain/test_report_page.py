"""The page of `nvccache report` in a real browser: seen, read aloud, and used by pointer and by keyboard."""

from __future__ import annotations

import itertools
import time

import pytest

import made_builds
from nvccache import outcomes
from nvccache.report import page

pytest.importorskip("playwright", reason="needs the extra `browser` (pip install -e '.[browser]')")
pytest.importorskip("axe_playwright_python", reason="needs the extra `browser`")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import browsers

NONE = "no Chromium or Chrome here; NVCCACHE_TEST_BROWSER can name one"
FAILED = [made_builds.call(made_builds.stage(result="failed"), outcome="failed", cause="`a.cu` changed")]
BUILDS = {
    "usual": made_builds.build(300),
    "none": [],
    "one": [made_builds.call(made_builds.stage())],
    "failed": FAILED,
    "hostile": made_builds.hostile(),
    "outcomes": [made_builds.call(outcome=outcome) for outcome in outcomes.OUTCOMES],
}


@pytest.fixture(scope="module")
def browser():
    path = browsers.find()
    if not path:
        pytest.skip(NONE)
    with browsers.started(path) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The path of the page of each build, made on first use."""
    folder = tmp_path_factory.mktemp("pages")

    def path_of(name):
        path = folder / f"{name}.html"
        if not path.exists():
            calls = made_builds.calls_of(BUILDS[name])
            path.write_text(page.render(calls, [], time.time()), encoding="utf-8")
        return str(path)

    return path_of


def unfold(opened):
    """Open the list of all calls."""
    opened.evaluate("document.getElementById('all').open = true")


def text(opened, selector):
    return opened.locator(selector).inner_text()


def picture(opened, selector):
    """The content of a canvas after the next frame."""
    frame = "requestAnimationFrame(() => requestAnimationFrame(() => done(canvas.toDataURL())))"
    return opened.locator(selector).evaluate(f"canvas => new Promise(done => {frame})")


def violations(opened):
    found = Axe().run(opened).response["violations"]
    return [
        (rule["id"], node["html"][:200], node["failureSummary"]) for rule in found for node in rule["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["usual", "none", "one", "failed", "hostile"])
def test_the_report_page_has_no_accessibility_violations(browser, pages, name, scheme):
    with browsers.opened(browser, pages(name), scheme) as opened:
        unfold(opened)
        assert violations(opened) == []


@pytest.mark.parametrize("width", [400, 1280, 2560])
@pytest.mark.parametrize("name", ["usual", "hostile"])
def test_the_page_is_never_wider_than_the_window(browser, pages, name, width):
    with browsers.opened(browser, pages(name), width=width) as opened:
        assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_texts_harm_nothing_and_are_shown(browser, pages):
    with browsers.opened(browser, pages("hostile")) as opened:
        opened.focus("#lanes")
        for _ in range(12):
            opened.keyboard.press("ArrowRight")
            opened.keyboard.press("ArrowDown")
        unfold(opened)
        for button in opened.locator("#list button").all():
            button.click()
        opened.fill("#filter", "</SCRIPT>")
        expect(opened.locator("#range")).to_have_text("1 to 3 of 3")
        assert "</script><script>window.harmed=1</script>" in text(opened, "#list")
        assert "\\xff\\u202e\\x1b[2J" in text(opened, "#list")
        assert opened.evaluate("window.harmed") is None
        assert opened.locator("img").count() == 0


def test_the_keyboard_reaches_everything_in_the_order_of_the_page(browser, pages):
    wanted = [
        "theme",
        "in",
        "out",
        "earlier",
        "later",
        "whole",
        "filter",
        "lanes",
        "SUMMARY",
        "outcome",
        "order",
    ]
    with browsers.opened(browser, pages("usual")) as opened:
        unfold(opened)
        reached = [""]
        while reached[-1] != "BODY":
            opened.keyboard.press("Tab")
            reached.append(opened.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert [name for name in reached if name in wanted] == wanted
        assert opened.locator(".skip").get_attribute("href") == "#main"


def test_keys_select_stages_zoom_and_open_the_call_in_the_list(browser, pages):
    with browsers.opened(browser, pages("usual")) as opened:
        opened.focus("#lanes")
        announced = []
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End", "ArrowLeft", "Home", "ArrowUp"):
            opened.keyboard.press(key)
            announced.append(text(opened, "#announced"))
            assert text(opened, "#tip").split("\n")[0] == announced[-1].split("; ")[0]
        assert len(set(announced)) >= 6
        assert "job 1" in announced[0] and "job 2" in announced[2]
        seen = [picture(opened, "#lanes")]
        for key in ("+", "+", "PageDown", "PageUp", "-", "0"):
            opened.keyboard.press(key)
            seen.append(picture(opened, "#lanes"))
        assert all(before != after for before, after in itertools.pairwise(seen))
        assert seen[-1] == seen[0]
        source = text(opened, "#announced").split("; ")[2]
        opened.keyboard.press("Enter")
        assert source in opened.locator("#list tr.chosen").inner_text()
        assert opened.locator("#list tr.more table").count() == 1


def test_report_colours_are_also_distinguished_by_pattern(browser, pages):
    """The swatches of the legend, reduced to where something is drawn."""
    script = """list => [...list.querySelectorAll('canvas')].map(canvas =>
        canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
            .filter((_, index) => index % 4 === 3).join())"""
    with browsers.opened(browser, pages("outcomes")) as opened:
        part = "#legend > li:last-child"
        shapes = opened.locator(part).evaluate(script)
        signs = opened.locator(f"{part} .sign").all_inner_texts()
        assert len(shapes) == len(set(shapes)) == len(outcomes.OUTCOMES)
        assert len(signs) == len(set(signs)) == len(shapes)


def test_the_call_list_is_filtered_sorted_and_paged(browser, pages):
    with browsers.opened(browser, pages("usual")) as opened:
        unfold(opened)
        assert text(opened, "#range") == "1 to 50 of 300"
        opened.click("#next")
        assert text(opened, "#range") == "51 to 100 of 300"
        opened.fill("#filter", "kernel_0007.cu")
        expect(opened.locator("#range")).to_have_text("1 to 1 of 1")
        opened.fill("#filter", "")
        expect(opened.locator("#range")).to_have_text("1 to 50 of 300")
        opened.select_option("#outcome", "bypass")
        rows = opened.locator("#list tbody tr").all_inner_texts()
        assert rows and all("bypass" in row for row in rows)
        opened.select_option("#outcome", "")
        opened.select_option("#order", "seconds")
        longest = max(BUILDS["usual"], key=lambda event: event.seconds)
        assert longest.sources[0] in opened.locator("#list tbody tr").first.inner_text()


def test_the_tables_are_there_without_scripts(browser, pages):
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(f"file://{pages('usual')}")
    assert opened.locator("section table").count() >= 4
    assert "need JavaScript" in opened.locator("noscript").inner_text()
    context.close()

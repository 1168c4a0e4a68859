"""How soon the page of `nvccache report` is there, and how smoothly its timeline moves, in a browser.

    python tests/benchmarks/report_page.py
    python tests/benchmarks/report_page.py --calls 5000 --calls 20000 --runs 5

Each call has eight stages, but for bypasses. Medians of several runs, each in a new window.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import browsers
import made_builds
from nvccache.report import calls, page
from nvccache.store.events import builds

# Milliseconds since navigation until something was painted, and until the timeline could be used.
_PAINTS = """() => {
  const entries = performance.getEntriesByType('paint').map(entry => [entry.name, entry.startTime]);
  return Object.fromEntries(entries);
}"""
# Milliseconds that each frame took while the timeline was zoomed and moved by keys.
_FRAMES = """async () => {
  const canvas = document.getElementById('lanes');
  const times = [];
  const keys = ['+', '+', '+', 'PageDown', 'PageDown', 'PageUp', '-', '-', 'PageDown', '-', '0', 'End'];
  for (const key of [...keys, ...keys, ...keys, ...keys]) {
    const start = performance.now();
    canvas.dispatchEvent(new KeyboardEvent('keydown', { key }));
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    times.push((performance.now() - start) / 2);
  }
  return times.sort((a, b) => a - b);
}"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, action="append", help="calls in the page; default 300 and 5000")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    path = browsers.find()
    if not path:
        print("no Chromium or Chrome here; NVCCACHE_TEST_BROWSER can name one", file=sys.stderr)
        return 1
    print(f"{'calls':>7}{'stages':>8}{'page':>10}{'made in':>9}", end="")
    print(f"{'first paint':>13}{'with content':>14}{'usable':>9}{'frame':>8}{'slowest':>9}")
    with browsers.started(path) as browser, tempfile.TemporaryDirectory() as folder:
        for count in options.calls or [300, 5000]:
            _measure(browser, Path(folder, "page.html"), count, options.runs)
    return 0


def _measure(browser: browsers.Browser, path: Path, count: int, runs: int) -> None:
    events = made_builds.build(count)
    started = time.perf_counter()
    text = page.of(builds(map(calls.from_json, events)), None, time.time())
    seconds = time.perf_counter() - started
    path.write_text(text, encoding="utf-8")
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        with browsers.opened(browser, str(path)) as opened:
            paints = opened.evaluate(_PAINTS)
            frames = opened.evaluate(_FRAMES)
            ready = opened.evaluate("Number(document.documentElement.dataset.ready)")
        for name, value in (*paints.items(), ("usable", ready)):
            found.setdefault(name, []).append(value)
        found.setdefault("frame", []).append(statistics.median(frames))
        found.setdefault("slowest", []).append(frames[-1])
    medians = {name: statistics.median(values) for name, values in found.items()}
    stages = sum(len(event["stages"]) for event in events)  # type: ignore[arg-type]
    print(f"{count:>7}{stages:>8}{len(text) / 1e6:>7.2f} MB{seconds:>7.2f} s", end="")
    print(f"{medians['first-paint']:>10.0f} ms{medians['first-contentful-paint']:>11.0f} ms", end="")
    print(f"{medians['usable']:>6.0f} ms{medians['frame']:>5.0f} ms{medians['slowest']:>6.0f} ms")


if __name__ == "__main__":
    sys.exit(main())

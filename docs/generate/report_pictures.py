"""Makes the pictures of the report in docs/images again, in light and dark.

    python docs/generate/report_pictures.py
    python docs/generate/report_pictures.py --page build.html --name other

Runs the commands of docs/tutorial/real-project.md, and takes pictures of the report that they write; with
--page, takes pictures of an existing report. Needs an nvcc, CMake, Ninja, and Chromium or Chrome. Colours are
reduced to a palette, which keeps the files small.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import browsers  # noqa: E402
import doc_pages  # noqa: E402

IMAGES = ROOT / "docs" / "images"
TUTORIAL = ROOT / "docs" / "tutorial" / "real-project.md"
PROJECT = Path("/tmp/gemms")  # pictures show this path, so it is not a random name
_WIDTH, _HEIGHT = 1280, 1150


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, help="an existing report")
    parser.add_argument("--name", default="report", help="the name of the pictures, before `-light.png`")
    options = parser.parse_args()
    path = browsers.find()
    if not path:
        print("needs Chromium or Chrome", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        page = options.page or PROJECT / "nvccache-report.html"
        if not options.page:
            PROJECT.mkdir()  # fails if it exists: the directory is removed at the end
            environ = {name: value for name, value in os.environ.items() if not name.startswith("NVCCACHE_")}
            programs = f"{Path(sys.executable).parent}:{environ['PATH']}"
            environ |= {"NVCCACHE_DIR": f"{folder}/cache", "PATH": programs}
            doc_pages.run(TUTORIAL.read_text(encoding="utf-8"), PROJECT, environ)
        with browsers.started(path) as browser:
            for scheme in ("light", "dark"):
                _take(browser, page, scheme, IMAGES / f"{options.name}-{scheme}.png")
        if not options.page:
            shutil.rmtree(PROJECT)
    return 0


def _take(browser: browsers.Browser, page: Path, scheme: str, picture: Path) -> None:
    with browsers.opened(browser, str(page), scheme, _WIDTH) as opened:
        opened.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
        opened.evaluate("scrollTo(0, 0)")
        opened.wait_for_timeout(300)
        opened.screenshot(path=picture)
    with Image.open(picture) as image:
        image.convert("RGB").quantize(256).save(picture, optimize=True)
    print(f"wrote {picture}, {picture.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    sys.exit(main())

"""Makes the pictures of docs/how-to/report.md again: the report of a small build, in light and dark.

    python tests/report_pictures.py
    python tests/report_pictures.py --page build.html --name cutlass

Needs an nvcc, and Chromium or Chrome. A project of a dozen sources is built, edited and built once more; what
is shown is the second build. With --page, pictures are taken of a report that is there. Colours are reduced
to a palette, which keeps the files small.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from PIL import Image

import browsers
from nvccache.toolkit.discovery import find_nvcc

PROJECT = Path("/tmp/project")  # a name that is the same in each picture
IMAGES = Path(__file__).parents[1] / "docs" / "images"
_JOBS = 4
_SETTLED = 1.5  # seconds, after which what was written is old enough to be recorded
_ARCHITECTURES = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")
_WIDTH, _HEIGHT = 1280, 1090
_SOURCES = ("attention", "convolution", "embedding", "gather", "layernorm", "matmul",
            "optimizer", "pooling", "reduce", "scan", "softmax", "transpose")  # fmt: skip
_HEADER = """\
#pragma once
template <int N> __device__ float {name}(float x) {{ return {name}<N - 1>(x) * 1.5f + {factor}; }}
template <> __device__ inline float {name}<0>(float x) {{ return x; }}
"""
_SOURCE = """\
#include <cmath>
#include <vector>
#include "numeric.h"
{include}
__global__ void {name}(float *data, int size) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) data[i] = {call}(data[i]);
}}
void run_{name}(float *data, int size) {{ {name}<<<(size + 255) / 256, 256>>>(data, size); }}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, help="a report that is there")
    parser.add_argument("--name", default="report", help="what the pictures are called")
    options = parser.parse_args()
    path, nvcc = browsers.find(), find_nvcc(dict(os.environ))
    if not path or not (nvcc or options.page):
        print("needs an nvcc, and Chromium or Chrome", file=sys.stderr)
        return 1
    if options.page:
        _take_both(path, options.page, options.name)
    else:
        assert nvcc
        _take_of_project(path, nvcc, options.name)
    return 0


def _take_of_project(path: str, nvcc: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache, page = Path(folder, "cache"), Path(folder, "build.html")
        PROJECT.mkdir()  # fails if it is there: it is removed in the end
        try:
            started = _built_twice(PROJECT, nvcc, cache)
            _nvccache(PROJECT, cache, "report", "--since", started, "-o", str(page))
        finally:
            shutil.rmtree(PROJECT)
        _take_both(path, page, name)


def _take_both(path: str, page: Path, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    with browsers.started(path) as browser:
        for scheme in ("light", "dark"):
            _take(browser, page, scheme, IMAGES / f"{name}-{scheme}.png")


def _built_twice(project: Path, nvcc: str, cache: Path) -> str:
    """Build, edit a header and three sources, and build again; when the second build began."""
    (project / "src").mkdir(parents=True)
    _write_headers(project, 2)
    for number, name in enumerate(_SOURCES):
        _write_source(project, name, "tile" if number % 4 == 0 else "numeric", 20 + 30 * (number % 5))
    _build(project, nvcc, cache)
    (project / "src" / "tile.h").write_text(_HEADER.format(name="tile", factor="0.25f"))
    _write_source(project, "softmax", "numeric", 160)
    for name, text in (("matmul", "// A comment."), ("gather", "int gather_version() { return 2; }")):
        path = project / "src" / f"{name}.cu"
        path.write_text(f"{path.read_text()}{text}\n")
    time.sleep(_SETTLED)
    started = datetime.now().isoformat()
    _build(project, nvcc, cache)
    return started


def _write_headers(project: Path, factor: int) -> None:
    for name in ("numeric", "tile"):
        (project / "src" / f"{name}.h").write_text(_HEADER.format(name=name, factor=f"{factor}.0f"))


def _write_source(project: Path, name: str, header: str, depth: int) -> None:
    include = '#include "tile.h"' if header == "tile" else ""
    text = _SOURCE.format(name=name, include=include, call=f"{header}<{depth}>")
    (project / "src" / f"{name}.cu").write_text(text)


def _build(project: Path, nvcc: str, cache: Path) -> None:
    def compile_one(name: str) -> None:
        build.mkdir(exist_ok=True)
        product = ("-c", f"../src/{name}.cu", "-o", f"{name}.o")
        _nvccache(build, cache, nvcc, *_ARCHITECTURES, *product)

    build = project / "build"
    time.sleep(_SETTLED)
    with ThreadPoolExecutor(_JOBS) as pool:
        list(pool.map(compile_one, _SOURCES))
        # What asks for dependencies alone is a bypass.
        _nvccache(build, cache, nvcc, "-M", "../src/scan.cu")


def _nvccache(folder: Path, cache: Path, *arguments: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NVCCACHE_")}
    environ |= {"NVCCACHE_DIR": str(cache), "NVCCACHE_JOBS": str(_JOBS)}
    command = [sys.executable, "-m", "nvccache", *arguments]
    subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)


def _take(browser: browsers.Browser, page: Path, scheme: str, picture: Path) -> None:
    with browsers.opened(browser, str(page), scheme, _WIDTH) as opened:
        opened.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
        opened.focus("#lanes")
        opened.keyboard.press("ArrowRight")
        opened.evaluate("scrollTo(0, 0)")
        opened.wait_for_timeout(300)
        opened.screenshot(path=picture)
    with Image.open(picture) as image:
        image.convert("RGB").quantize(256).save(picture, optimize=True)
    print(f"wrote {picture}, {picture.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    sys.exit(main())

"""What nvccache costs when nothing is cached, and what is left when everything is.

    python tests/benchmarks/cold_cost.py [--runs 5] [--source FILE] [nvcc arguments ...]

Compiles one file with plain nvcc, through nvccache with an empty cache, and again with a full one, in
turn, and prints medians and the ratios to plain nvcc pair by pair. The default source includes Thrust
(some 1600 headers) and takes several seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nvccache import nvcc_search, store

THRUST = """\
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

int main() {
  thrust::device_vector<int> values(1000, 1);
  thrust::sort(values.begin(), values.end());
  return thrust::reduce(values.begin(), values.end());
}
"""


def seconds_of(command: list[str], environ: dict[str, str], directory: Path) -> float:
    started = time.monotonic()
    subprocess.run(command, env=environ, cwd=directory, check=True)
    return time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--source", type=Path, help="a .cu file instead of the one that includes Thrust")
    options, arguments = parser.parse_known_args()
    nvcc = nvcc_search.find_nvcc(os.environ)
    if not nvcc:
        parser.error("no nvcc found")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        source = options.source.resolve() if options.source else directory / "thrust.cu"
        if not options.source:
            source.write_text(THRUST)
        cache = directory / "cache"
        environ = {**os.environ, "NVCCACHE_DIR": str(cache), "NVCCACHE_STRICT": "1"}
        plain = [nvcc, *(arguments or ["-arch=sm_80"]), "-c", str(source), "-o", "object.o"]
        cached = [sys.executable, "-m", "nvccache", *plain]
        seconds_of(cached, environ, directory)  # warm the file cache and the digests of the tools
        times: dict[str, list[float]] = {"plain": [], "cold": [], "warm": []}
        for _ in range(options.runs):
            for bucket in (store.BLOB, store.STAGE, store.MANIFEST):
                store.remove_tree(str(cache / bucket))
            times["plain"].append(seconds_of(plain, environ, directory))
            times["cold"].append(seconds_of(cached, environ, directory))
            times["warm"].append(seconds_of(cached, environ, directory))
    print(f"{options.runs} runs each, in turn, {os.cpu_count()} cores: {' '.join(plain[1:-4])}")
    for name, values in times.items():
        ratios = [value / base for value, base in zip(values, times["plain"], strict=True)]
        median, ratio = statistics.median(values), statistics.median(ratios)
        print(
            f"  {name:6} {median:7.3f} s   ratio to plain {ratio:5.3f}  ({min(ratios):.3f}-{max(ratios):.3f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

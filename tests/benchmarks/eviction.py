"""What it costs a call to keep a large cache within its limit: the slowest call, and the others.

    python tests/benchmarks/eviction.py [--files N] [--calls N] [--at-once N]

Fills a cache with small files up to its limit and deletes the running count, as after an update from an older
version. Then several processes at a time store as much as a small compile. Prints the seconds that each took
to publish and to enforce the limit, first while the cache is counted, then while it is above its limit.
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

from nvccache.files import keys
from nvccache.store import eviction
from nvccache.store.directory import Directory
from nvccache.store.store import BLOB, RECORD, REPLAY, Store

BUCKETS = (BLOB, RECORD, REPLAY)
SIZE = 2000
STORED = 20  # files of one call
# Prints the seconds of publishing, and those of count and limit.
CALL = """
import os, sys, time
from nvccache.files import keys
from nvccache.store import eviction, store
root, limit, count, size = sys.argv[1], *map(int, sys.argv[2:])
cache = store.Store(root)
contents = [os.urandom(size) for _ in range(count)]
began = time.monotonic()
for content in contents:
    cache.add_blob(keys.digest_bytes(content), content, compress=False)
published = time.monotonic()
fault = eviction.count_and_limit(cache.directory, cache.added, limit)
print(published - began, time.monotonic() - published, cache.fault or fault)
"""


def fill(root: Path, files: int) -> None:
    Store(str(root)).add_memo(keys.digest_bytes(b"a memo"), "makes the directory a cache")
    for bucket in BUCKETS:
        for number in range(256):
            (root / bucket / f"{number:02x}").mkdir(parents=True, exist_ok=True)
    content = bytes(SIZE)
    week = 7 * 24 * 3600
    for number in range(files):
        name = keys.digest_bytes(b"%d" % number)
        path = f"{root}/{BUCKETS[number % len(BUCKETS)]}/{name[:2]}/{name}"
        with open(path, "wb") as stream:
            stream.write(content)
        used = time.time() - number * week / files
        os.utime(path, (used, used))


def calls(root: Path, limit: int, count: int, at_once: int) -> list[tuple[float, float, str]]:
    """For each call the seconds of publishing, those of upkeep, and a fault."""
    argv = [sys.executable, "-c", CALL, str(root), str(limit), str(STORED), str(SIZE)]
    done: list[tuple[float, float, str]] = []
    for _ in range(0, count, at_once):
        started = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(at_once)]
        for process in started:
            published, upkeep, *fault = process.communicate()[0].split()
            done.append((float(published), float(upkeep), "".join(fault)))
    return done


def report(what: str, paid: list[tuple[float, float, str]]) -> None:
    faults = [fault for _, _, fault in paid if fault]
    print(f"{what}: {len(paid)} calls, {len(faults)} faults{' such as ' + faults[0] if faults else ''}")
    for name, seconds in (
        ("publishing", [published for published, _, _ in paid]),
        ("upkeep", [upkeep for _, upkeep, _ in paid]),
    ):
        print(f"  {name:12} slowest {max(seconds):7.3f} s   median {statistics.median(seconds):7.3f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=300_000)
    parser.add_argument("--calls", type=int, default=60, help="of each kind")
    parser.add_argument("--at-once", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "cache"
        fill(root, options.files)
        held = eviction.usage(Directory(str(root)))
        print(f"{held.entries} files, {held.bytes / 1e6:.0f} MB")
        limit = held.bytes
        report("within the limit", calls(root, 2 * limit, options.calls, options.at_once))
        report("above the limit", calls(root, limit, options.calls, options.at_once))
        left = eviction.usage(Directory(str(root)))
        print(f"{left.entries} files, {left.bytes / limit:.3f} of the limit")
    return 0


if __name__ == "__main__":
    sys.exit(main())

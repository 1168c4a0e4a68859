"""How the cost of a hit grows, for direct_hits.py: with the headers read, and with the object's size.

The headers are tiny and the objects hold noise, so that nothing but their number and their size grows.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from contenders import Contender
from hit_rounds import Lane, Unit, measure

_HEADERS = (100, 400, 1600)
_OBJECT_KILOBYTES = (10, 1000, 10_000)
_ARGUMENTS = ("-gencode=arch=compute_80,code=sm_80",)
_KERNEL = "__global__ void kernel(int *p) { *p = 1; }\n"
# Not an array of zeros, which would compress to nothing, and not an initializer, which would be a source
# as large as the object: the assembler makes the noise.
_NOISE = """\
#ifndef __CUDA_ARCH__
asm(".section .rodata\\n.globl noise\\nnoise:\\n.set x, 1\\n.rept {words}\\n"
    ".set x, x * 6364136223846793005 + 1442695040888963407\\n.quad x\\n.endr\\n.text\\n");
#endif
"""


def report(contenders: list[Contender], rounds: int, work: Path) -> bool:
    """Measure both, print the medians and the slopes; whether all calls were hits."""
    sources = work / "sources"
    sources.mkdir(parents=True)
    by_headers = {_with_headers(count, sources): float(count) for count in _HEADERS}
    by_size = {_with_noise(size, sources): float(size) for size in _OBJECT_KILOBYTES}
    lanes = measure(contenders, [*by_headers, *by_size], rounds, work)
    print(f"growth, {rounds} rounds: medians in ms, least squares line")
    _print_series(lanes, by_headers, "generated headers", 1000, "ms per 1000 headers")
    _print_series(lanes, by_size, "KB of object", 1000, "us per KB")
    faults = [f"{lane.contender.name}: {fault}" for lane in lanes for fault in lane.faults]
    print("".join(f"  WRONG: {fault}\n" for fault in dict.fromkeys(faults)))
    return not faults


def _print_series(
    lanes: list[Lane], values: dict[Unit, float], axis: str, factor: float, slope_unit: str
) -> None:
    print(f"  {axis:28}" + "".join(f"{value:>9.0f}" for value in values.values()))
    for contender in dict.fromkeys(lane.contender.name for lane in lanes):
        own = {lane.unit: lane.median for lane in lanes if lane.contender.name == contender}
        medians = [own[unit] for unit in values]
        slope, intercept = statistics.linear_regression(list(values.values()), medians)
        shown = "".join(f"{median:9.2f}" for median in medians)
        print(f"  {contender:28}{shown}   {slope * factor:7.2f} {slope_unit}, {intercept:.2f} ms at 0")


def _with_headers(count: int, sources: Path) -> Unit:
    folder = sources / f"headers{count}"
    folder.mkdir()
    for number in range(count):
        text = f"#pragma once\ninline int value_{number}() {{ return {number}; }}\n"
        (folder / f"h{number}.h").write_text(text)
    source = folder / f"headers{count}.cu"
    source.write_text("".join(f'#include "h{number}.h"\n' for number in range(count)) + _KERNEL)
    return Unit(source.stem, source, _ARGUMENTS)


def _with_noise(kilobytes: int, sources: Path) -> Unit:
    source = sources / f"object{kilobytes}.cu"
    source.write_text(_NOISE.format(argv=kilobytes * 1000 // 8) + _KERNEL)
    return Unit(source.stem, source, _ARGUMENTS)

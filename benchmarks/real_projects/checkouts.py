"""The sources of a project: unpacked from its archive, copied, edited and restored.

WORK/NAME/first/       a checkout: source/, build/ and another-build/
WORK/NAME/second/      the same elsewhere; third/ as well
"""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .catalogue import Project
from .downloads import UnavailableError

FIRST, SECOND, THIRD = "first", "second", "third"
REWORD, INSERT, HOST, DEVICE, TOUCH, BREAK = "reword", "insert", "host", "device", "touch", "break"

_LISTS = """\
cmake_minimum_required(VERSION 3.18)
project(small LANGUAGES CUDA)
file(GLOB units *.cu)
add_library(small OBJECT ${units})
"""
_SHARED = """\
// All units include this.
inline int host(int number) {
int answer = number;
return answer + 1;
}
static __device__ int times(int number) {
int factor = 3;
return number * factor;
}
"""
_UNIT = """\
#include "shared.cuh"
__global__ void kernel_%d(int *out) { *out = times(%d); }
int start_%d(int *out) { kernel_%d<<<1, 1>>>(out); return host(%d); }
"""


@dataclass(frozen=True)
class Checkout:
    """Sources, and a directory to build in."""

    source: Path
    build: Path


def unpack(archive: Path, root: str, to: Path) -> None:
    """Unpack the directory `root` of a source distribution or a wheel to `to`."""
    unpacked = to.with_name(f"{to.name}.unpacked")
    shutil.rmtree(unpacked, ignore_errors=True)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(unpacked, [name for name in wheel.namelist() if name.startswith(f"{root}/")])
    else:
        with tarfile.open(archive) as tar:
            members = [member for member in tar if member.name.startswith(f"{root}/")]
            tar.extractall(unpacked, members, filter="data")
    shutil.rmtree(to, ignore_errors=True)
    (unpacked / root).rename(to)
    shutil.rmtree(unpacked)


def write_small(project: Project, to: Path) -> None:
    """Write the project of small units."""
    to.mkdir(parents=True)
    (to / "CMakeLists.txt").write_text(_LISTS)
    (to / "shared.cuh").write_text(_SHARED)
    for number, name in enumerate(project.units):
        (to / name).write_text(_UNIT % ((number,) * 5))


def unpack_headers(wheel: Path, to: Path) -> None:
    """Unpack the `include` directories of a wheel to `to`."""
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            _, _, path = name.partition("/include/")
            if path and not path.endswith(("/", ".py")):
                (to / path).parent.mkdir(parents=True, exist_ok=True)
                (to / path).write_bytes(opened.read(name))


@contextmanager
def edited(project: Project, checkout: Checkout, edit: str, number: int) -> Iterator[None]:
    """The checkout with an edit, for as long as the context lasts; `number` makes edits differ."""
    if not edit:
        yield
        return
    place = {HOST: project.host, BREAK: project.host, DEVICE: project.device}.get(edit, project.comment)
    path = checkout.source / place.file
    before, times = path.read_text(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    if edit == TOUCH:  # as Git leaves a file when a branch is switched and back
        path.write_text(before)
        yield
        os.utime(path, ns=times)
        return
    lines = before.split("\n")
    found = [index for index, line in enumerate(lines) if line.strip() == place.line]
    if len(found) != 1:
        raise UnavailableError(f"`{place.line}` is {len(found)} times in `{place.file}` of {project.name}")
    if edit == REWORD:
        lines[found[0]] = f"// A comment in other words, {number}."
    elif edit == INSERT:
        lines.insert(found[0], f"// A comment more, {number}.")
    elif edit == BREAK:
        lines[found[0]] += f" undeclared_{number}();"
    else:  # in the same line, so that no line moves
        lines[found[0]] += f" volatile int edited_{edit} = {number}; (void) edited_{edit};"
    path.write_text("\n".join(lines))
    try:
        yield
    finally:
        path.write_text(before)
        os.utime(path, ns=times)  # line tables contain the time

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

from .catalogue import Place, Project
from .faults import UnavailableError

FIRST, SECOND, THIRD = "first", "second", "third"
REWORD, INSERT, HOST, DEVICE = "reword", "insert", "host", "device"
_HOST_STATEMENT = " volatile int edited_host = {number}; (void) edited_host;"
_DEVICE_STATEMENT = " volatile int edited_kernel = {number}; (void) edited_kernel;"


@dataclass(frozen=True)
class Checkout:
    """Sources, and a directory to build in."""

    source: Path
    build: Path


def unpack(archive: Path, root: str, to: Path) -> None:
    """Unpack the directory `root` of a source distribution or a wheel to `to`."""
    unpacked = to.with_name(f"{to.name}.unpacked")
    shutil.rmtree(unpacked, ignore_errors=True)
    prefix = f"{root}/"
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(unpacked, [name for name in wheel.namelist() if name.startswith(prefix)])
    else:
        with tarfile.open(archive) as tar:
            members = [member for member in tar if member.name.startswith(prefix)]
            tar.extractall(unpacked, members, filter="data")
    if not (unpacked / root).is_dir():
        raise UnavailableError(f"`{archive.name}` has no directory `{root}`")
    shutil.rmtree(to, ignore_errors=True)
    (unpacked / root).rename(to)
    shutil.rmtree(unpacked)


def unpack_headers(wheel: Path, to: Path) -> None:
    """Unpack the `include` directories of a wheel to `to`."""
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            _, _, path = name.partition("/include/")
            if path and not path.endswith("/") and not path.endswith(".py"):
                (to / path).parent.mkdir(parents=True, exist_ok=True)
                (to / path).write_bytes(opened.read(name))


def edited(text: str, project: Project, kind: str, number: int) -> str:
    """The text of a file after an edit; raises UnavailableError unless the line to edit occurs once."""
    place = place_of(project, kind)
    lines = text.split("\n")
    found = [index for index, line in enumerate(lines) if line.strip() == place.line]
    if len(found) != 1:
        raise UnavailableError(f"`{place.line}` is {len(found)} times in `{place.file}` of {project.name}")
    index = found[0]
    if kind == REWORD:
        lines[index] = f"// A comment in other words, {number}."
    elif kind == INSERT:
        lines.insert(index, f"// A comment more, {number}.")
    else:  # in the same line, so that no line moves
        lines[index] += {HOST: _HOST_STATEMENT, DEVICE: _DEVICE_STATEMENT}[kind].format(number=number)
    return "\n".join(lines)


def place_of(project: Project, kind: str) -> Place:
    return {HOST: project.host, DEVICE: project.device}.get(kind, project.comment)


class Edits:
    """The edit of a checkout, which can be undone and redone."""

    def __init__(self, project: Project, checkout: Checkout, kind: str, number: int) -> None:
        self._path = checkout.source / place_of(project, kind).file if kind else None
        if self._path:
            self._before = self._path.read_text()
            self._times = self._path.stat().st_atime_ns, self._path.stat().st_mtime_ns
            self._after = edited(self._before, project, kind, number)

    def __enter__(self) -> Edits:
        if self._path:
            self._path.write_text(self._after)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._path:
            self._path.write_text(self._before)
            os.utime(self._path, ns=self._times)  # line tables contain the time

    @contextmanager
    def out(self) -> Iterator[None]:
        """Without the edit, for as long as the context lasts."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

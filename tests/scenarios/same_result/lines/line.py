"""One command line of the list, and what it needs."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path

from scenarios.support.sources import HEADERS, SOURCES

Release = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Line:
    """One command line, in a directory with the sources that it names.

    It is written as typed, without the compiler. `{work}` is the directory it runs in,
    `{ccbin}` a host compiler, `{ccbin_directory}` its directory, and `{toolkit}` the
    directory above nvcc's `bin`.

    `warm` is what becomes of it when the cache is warm: `direct_hit`, `stage_hit` where the call cannot be
    recorded, `failed`, or `bypass:` and the reason. It is `miss` where older toolkits name the process in
    a product of some units, unknown which. `warm_before` says it for the releases before one.
    `files` are further files with their text, or with the name of a source that they copy; `prepare` is run
    by a shell, with the real compiler in $NVCC, before anything else.
    """

    name: str
    command: str
    warm: str = "direct_hit"
    _: dataclasses.KW_ONLY
    warm_before: Mapping[Release, str] = dataclasses.field(default_factory=dict)
    since: Release = (11, 0)  # the first release that knows its options
    until: Release = (99, 0)  # the first one that knows them no more
    needs: str = ""  # a path in the toolkit that not every installation has
    sources: tuple[str, ...] = ()  # besides those that the command names
    files: Mapping[str, str | bytes] = dataclasses.field(default_factory=dict)
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prepare: str = ""
    stdin: bytes = b""
    cwd: str = "."
    is_shim: bool = False  # called as `nvcc` through a symbolic link
    timings: tuple[str, ...] = ()  # files of times, which differ on every run
    names_keep_directory: bool = False  # its objects hold debug information
    needs_cuda_headers: bool = False  # it compiles more than kernels and their launches

    @property
    def all_files(self) -> dict[str, str | bytes]:
        """The files there are before anything runs, with their text."""
        texts = {
            name: SOURCES.get(text, text) if isinstance(text, str) else text
            for name, text in self.files.items()
        }
        headers = [header for name in self._named for header in HEADERS.get(name, ())]
        return {name: SOURCES[name] for name in (*self._named, *headers)} | texts

    @property
    def edited_file(self) -> str:
        """The file that is edited: the first source, or one of its headers; empty without either."""
        sources = [name for name in (*self._named, *self.files) if Path(name).suffix not in (".h", ".txt")]
        return HEADERS.get(sources[0], sources)[0] if sources else ""

    @property
    def _named(self) -> list[str]:
        argv = shlex.split(f"{self.command} {self.prepare}".replace("{work}/", "").replace(";", " "))
        return list(dict.fromkeys([*self.sources, *(word for word in argv if word in SOURCES)]))

    def warm_in(self, release: Release) -> str:
        later = [bound for bound in self.warm_before if release < bound]
        return self.warm_before[min(later)] if later else self.warm

    def missing_in(self, release: Release, toolkit: Path) -> str:
        """Why this toolkit cannot be compared, or nothing."""
        if not self.since <= release < self.until:
            return "not in this release"
        return (
            f"no {self.needs} in this toolkit" if self.needs and not (toolkit / self.needs).exists() else ""
        )

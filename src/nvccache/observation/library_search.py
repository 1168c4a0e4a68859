"""Where the loader, which is not observed, looks for libraries, and what they depend on."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping

from nvccache import environment
from nvccache.observation.observed_process import Process
from nvccache.records import facts
from nvccache.toolkit import loader


def paths_instead(process: Process, environ: Mapping[str, str], is_in_key: bool) -> set[str]:
    """Where the loader might find the libraries of a process instead; its key may show the first places."""
    libraries = libraries_of(process)
    directories = [*map(os.path.dirname, libraries)]
    if not is_in_key:
        directories += loader.first_directories(process.program, environ)
    names = [loader.VARIANTS, *map(os.path.basename, libraries)]
    return {loader.PRELOAD_LIST, *_paths(directories, names)}.difference(libraries)


def first_paths(program: str, environ: Mapping[str, str]) -> list[str]:
    """Where libraries of one of NVIDIA's tools would be found first."""
    return _paths(loader.first_directories(program, environ), loader.OF_NVIDIAS_TOOLS)


def _paths(directories: Iterable[str], names: Collection[str]) -> list[str]:
    """The working directory is `.` or empty, and its files have plain names."""
    return [
        name if directory in ("", ".") else os.path.join(directory, name)
        for directory in dict.fromkeys(directories)
        for name in names
    ]


def libraries_of(process: Process) -> list[str]:
    return [path for path in process.loaded if path != process.program]


def variables(is_known_by_content: bool, folds_mathematics: bool) -> set[str]:
    """The variables by which the loader may choose other libraries, or these other functions.

    What LD_LIBRARY_PATH means for a tool that is known by content is in its key.
    """
    names = {*environment.OF_LOADER}
    if is_known_by_content:
        names -= {environment.LIBRARY_PATH, *(() if folds_mathematics else {environment.TUNABLES})}
    return names


def facts_needed(libraries: Iterable[str], folds_mathematics: bool) -> Iterator[tuple[str, str]]:
    """The facts about the machine that loaded libraries depend on: topic and argument."""
    names = sorted({*map(os.path.basename, libraries)})
    if os.path.exists(facts.CACHE_OF_LOADER):
        yield from ((facts.LIBRARIES, f"{facts.CACHE_OF_LOADER}:{name}") for name in names)
    if folds_mathematics:
        has_libm = any(name.startswith(("libm.", "libm-")) for name in names)
        yield facts.FEATURES if has_libm else facts.NATIVE, ""

"""Paths in the report: relative to the project instead of each call's directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nvccache.report.calls import Call

_QUOTED = re.compile(r"`([^`]+)`")
_A_FILE = re.compile(r"\.(cuh?|h|hh|hpp|hxx|c|cc|cpp|cxx|inc|inl|ipp|tpp)$")


def directory_of(calls: Iterable[Call]) -> str:
    """The innermost directory that contains the calls' sources and working directories; empty if that is `/`.

    Sources that share only `/` with their call's directory, such as CMake's own, do not count.
    """
    shared = {
        common
        for call in calls
        if call.directory.startswith("/")
        for read in [os.path.dirname(path) for path in call.sources] or [""]
        if (common := _common((call.directory, _absolute(call, read)))) != "/"
    }
    found = _common(shared) if shared else "/"
    return "" if found == "/" else found


def relative(builds: Sequence[Sequence[Call]], project: str) -> list[list[Call]]:
    """The builds with paths relative to the project; those outside it become absolute."""
    return [[_relative(call, project) for call in build] for build in builds]


def _relative(call: Call, project: str) -> Call:
    if not project or not call.directory:
        return call

    def shown(path: str) -> str:
        absolute = _absolute(call, path)
        return absolute.removeprefix(f"{project}/")

    def rewritten(match: re.Match[str]) -> str:
        name = match[1]
        is_path = not name.startswith("-") and ("/" in name or _A_FILE.search(name))
        return f"`{shown(name)}`" if is_path else match[0]

    return replace(
        call,
        sources=tuple(map(shown, call.sources)),
        product=shown(call.product) if call.product else "",
        cause=_QUOTED.sub(rewritten, call.cause),
        stages=tuple(replace(stage, why=_QUOTED.sub(rewritten, stage.why)) for stage in call.stages),
    )


def _absolute(call: Call, path: str) -> str:
    return os.path.normpath(os.path.join(call.directory, path))


def _common(paths: Iterable[str]) -> str:
    return os.path.commonpath([os.path.normpath(path) for path in paths])

"""Manifests: what a command was seen to read, so that the same command can be answered without running it.

A manifest belongs to everything known before the run (the front key) and holds one reading for each
distinct set of files seen: their paths and digests, the places searched before each of them and found
empty, and the key of the result. Today it serves the host compile, which reads toolkit headers again.
"""

from __future__ import annotations

import os
import re

from nvccache import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvccache.store import Store

_MOST_READINGS = 8
_CLOCK_TICK = 0.05  # seconds; file systems stamp with a clock that lags behind
_DIRECTORY_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter")
_DIRECTORY_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")
# A blank after an odd number of backslashes belongs to the name; elsewhere a backslash is itself.
_PREREQUISITE = re.compile(r"(?:(?<!\\)(?:\\\\)*\\[ \t]|[^ \t\n])+")
_ESCAPED_BLANK = re.compile(r"\\+[ \t]")
_LOCAL_DIRECTORY = "/usr/local/include"  # compilers search it before the system's own headers


def find_key(front_key: str, store: Store) -> str:
    """The key of the result for the files as they are now, or empty when no reading matches."""
    digests: dict[str, str] = {}
    for reading in store.find_manifest(front_key):
        files, absent = reading["files"], reading["absent"]
        assert isinstance(files, dict) and isinstance(absent, list)
        if any(os.path.lexists(path) for path in absent):
            continue
        if all(_digest(path, digests) == digest for path, digest in files.items()):
            return str(reading["key"])
    return ""


def add_reading(
    front_key: str, paths: Iterable[str], directories: Sequence[str], since: float, store: Store
) -> str | None:
    """Record what a run read; the key for its result.

    None if a file cannot be read any more, or may have changed after the run began, at `since`.
    """
    digests: dict[str, str] = {}
    files = {path: _digest(path, digests) for path in sorted(set(paths))}
    if "" in files.values() or any(_changed_at(path) > since - _CLOCK_TICK for path in files):
        return None
    absent = sorted(_places_searched_before(files, directories))
    builder = keys.KeyBuilder("reading")
    builder.add("front", front_key)
    for path, digest in files.items():
        builder.add("file", path, digest)
    builder.add("absent", *absent)
    key = builder.key()
    readings = [reading for reading in store.find_manifest(front_key) if reading["key"] != key]
    readings.insert(0, {"key": key, "files": files, "absent": absent})
    store.add_manifest(front_key, readings[:_MOST_READINGS])
    return key


def search_directories(words: Sequence[str], environ: dict[str, str]) -> list[str]:
    """The directories a compiler command searches for headers, roughly in order, as they are written."""
    directories = []
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word in _DIRECTORY_OPTIONS:
            directories.append(following)
        else:
            option = next((name for name in _DIRECTORY_OPTIONS if word.startswith(name)), "")
            if option:
                directories.append(word[len(option) :])
    for variable in _DIRECTORY_VARIABLES:
        if environ.get(variable):
            # An empty part means the working directory.
            directories += [part or "." for part in environ[variable].split(":")]
    return list(dict.fromkeys([*directories, _LOCAL_DIRECTORY]))


def read_make_rule(rule: bytes) -> list[str]:
    """The prerequisites of a make rule as gcc and clang write it."""
    text = os.fsdecode(rule).replace("\\\n", " ")
    _, _, prerequisites = text.partition(": ")
    return [_unescape(name) for name in _PREREQUISITE.findall(prerequisites)]


def _unescape(name: str) -> str:
    name = _ESCAPED_BLANK.sub(lambda match: match[0][: len(match[0]) // 2 - 1] + match[0][-1], name)
    return name.replace("$$", "$").replace("\\#", "#")


def _places_searched_before(files: Iterable[str], directories: Sequence[str]) -> set[str]:
    """Where a header of the same name would be found first, if there were one.

    Every other searched directory counts, whichever comes first: that is never too few. Where the
    directory itself lacks the header's folder, the folder's absence says it for all its files.
    """
    absent: set[str] = set()
    for path in files:
        for relative in _names_searched(path, directories):
            absent.update(_first_missing(directory, relative) for directory in directories)
    return absent - {""}


def _names_searched(path: str, directories: Sequence[str]) -> list[str]:
    """The names under which a header can have been included."""
    prefixes = [directory.rstrip("/") + "/" for directory in directories]
    names = [path[len(prefix) :] for prefix in prefixes if path.startswith(prefix)]
    if names:
        return names
    # It lies in a directory that the compiler searches by itself: any end of the path can be its name.
    parts = path.strip("/").split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _first_missing(directory: str, relative: str) -> str:
    path = directory.rstrip("/") or "/"
    for part in relative.split("/"):
        path = f"{path}/{part}"
        if not os.path.lexists(path):
            return path
    return ""


def _changed_at(path: str) -> float:
    try:
        status = os.stat(path)
    except OSError:
        return float("inf")
    return max(status.st_mtime, status.st_ctime)


def _digest(path: str, digests: dict[str, str]) -> str:
    if path not in digests:
        try:
            digests[path] = keys.digest_file(path)
        except OSError:
            digests[path] = ""
    return digests[path]

"""Where a compiler looks for headers, and which names must stay absent there for the same ones to be found.

A header that appears earlier on the search path changes a compile though no file that was read has
changed. Every place where a header of the same name would be found counts, whichever comes first: that
is never too few. Where a directory lacks the first folder of a name, that folder's absence says it all.
"""

from __future__ import annotations

import os

from nvccache import keys, process
from nvccache.reading import ABSENT, PRESENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nvccache.store import Store

_DIRECTORY_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter")
_DIRECTORY_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")
_WITH_A_WORD = ("-D", "-U", "-I", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-o", "-MF")
_WITH_A_ROOT = ("-isysroot", "--sysroot", "-target", "--target", "-imultilib", "-Xclang")
_IGNORED = b'ignoring nonexistent directory "'


class Places:
    """The names that must be absent from, or present in, directories: directory -> names."""

    def __init__(self, chain: Sequence[str]) -> None:
        self.chain = [directory.rstrip("/") or "/" for directory in chain]
        # gcc shortens the names of system headers by resolving links.
        self._real_chain = [os.path.realpath(directory) for directory in self.chain]
        self.names: dict[str, set[str]] = {}
        self._missing: dict[str, str] = {}

    def watch_header(self, path: str, includers: Iterable[str]) -> None:
        """A header that was read: no other directory may get one of a name it can have been included by."""
        nearby = list(dict.fromkeys(directory_of(includer) for includer in includers))
        names = [_below(directory, path) for directory in (*self.chain, *self._real_chain, *nearby)]
        if not any(names):
            # Found in a way that is not understood: any end of the path can be its name.
            parts = path.strip("/").split("/")
            names = ["/".join(parts[start:]) for start in range(len(parts))]
        for name in dict.fromkeys(names):
            if name:
                self.watch_name(name, nearby)

    def watch_name(self, name: str, nearby: Iterable[str]) -> None:
        """A name that is searched for: where nothing is found, nothing may appear."""
        for directory in self._candidates(name, nearby):
            self._watch_absence(directory, name)

    def ask(self, name: str, includer: str) -> None:
        """A name that `__has_include` asks for: what is there must stay, what is not must not come."""
        for directory in self._candidates(name, [directory_of(includer)]):
            path = os.path.join(directory, name)
            if os.path.exists(path):
                folder, _, base = path.rpartition("/")
                self._add(folder or ("/" if path.startswith("/") else "."), PRESENT + base)
            else:
                self._watch_absence(directory, name)

    def found(self, name: str, includer: str) -> list[str]:
        """Every file that an include of this name could mean."""
        candidates = [
            os.path.join(directory, name) for directory in self._candidates(name, [directory_of(includer)])
        ]
        return [path for path in candidates if os.path.isfile(path)]

    def _candidates(self, name: str, nearby: Iterable[str]) -> list[str]:
        return ["/"] if name.startswith("/") else list(dict.fromkeys([*nearby, *self.chain]))

    def _watch_absence(self, directory: str, name: str) -> None:
        path = os.path.join(directory, name)
        parts = name.strip("/").split("/")
        at = directory.rstrip("/") or "/"
        for part in parts:
            below = f"{at.rstrip('/')}/{part}" if at != "." else part
            if self._is_missing(below):
                self._add(*self._nearest(at, part))
                return
            at = below
        if not os.path.exists(path):  # a link that leads nowhere
            self._add(os.path.dirname(at) or ".", ABSENT + os.path.basename(at))

    def _nearest(self, directory: str, name: str) -> tuple[str, str]:
        """The nearest directory that exists, and the name that is missing from it."""
        while directory not in ("/", ".", "") and self._is_missing(directory):
            directory, name = os.path.dirname(directory) or ".", os.path.basename(directory)
        return directory or ".", ABSENT + name

    def _is_missing(self, path: str) -> bool:
        if path not in self._missing:
            self._missing[path] = "" if os.path.lexists(path) else path
        return bool(self._missing[path])

    def _add(self, directory: str, name: str) -> None:
        self.names.setdefault(directory, set()).add(name)


def _below(directory: str, path: str) -> str:
    """The rest of a path below a directory, or empty."""
    if directory == ".":
        return "" if path.startswith("/") else path
    prefix = directory.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else ""


def directory_of(includer: str) -> str:
    """Where a quoted include of a file looks first; for what the command line includes it is the cwd."""
    return "." if includer.startswith("<") else os.path.dirname(includer) or "."


def chain_of(
    words: Sequence[str], environ: Mapping[str, str], driver: str, identity: str, cache: Store
) -> list[str]:
    """Every directory a compiler command searches for headers, in no particular order; raises OSError.

    `driver` is the file that `words[0]` stands for, `identity` what tells it from other compilers.
    """
    built_in = _built_in(words, environ, driver, identity, cache)
    return list(dict.fromkeys([*_named(words, environ), *built_in]))


def _named(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
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
    return directories


def _built_in(
    words: Sequence[str], environ: Mapping[str, str], driver: str, identity: str, cache: Store
) -> list[str]:
    """The directories that a compiler searches by itself, those it would search if they existed included.

    gcc and clang print them for `-v`. Remembered for the compiler and the words that could matter.
    """
    options = _options(words)
    builder = keys.KeyBuilder("search directories")
    builder.add("compiler", identity)
    builder.add("options", *options)
    memo_key = builder.key()
    text = cache.find_memo(memo_key)
    if not text:
        asked = [words[0], *options, "-E", "-v", "-x", "c++", "/dev/null"]
        plain = {**environ, "LC_ALL": "C"}
        for variable in _DIRECTORY_VARIABLES:
            plain.pop(variable, None)
        answer = process.run(asked, plain, executable=driver)
        text = "\n".join(_read_answer(answer.stderr)) if answer.status == 0 else ""
        if not text:
            raise OSError(f"`{driver}` does not say where it looks for headers")
        cache.add_memo(memo_key, text)
    return text.split("\n")


def _options(words: Sequence[str]) -> list[str]:
    """The words that can move the built-in directories, and that an empty source can be read with."""
    options: list[str] = []
    is_value = is_kept = False
    for word in words[1:]:
        if is_value:
            options += [word] if is_kept else []
            is_value = is_kept = False
        elif word in _WITH_A_ROOT:
            is_value = is_kept = True
            options.append(word)
        elif not word.startswith("-"):
            continue
        elif word in _WITH_A_WORD:
            is_value = True
        elif not word.startswith((*_WITH_A_WORD, "-M", "-f", "-O", "-W", "-E", "-x", "-g")):
            options.append(word)
    return options


def _read_answer(stderr: bytes) -> list[str]:
    directories = []
    is_listing = False
    for line in stderr.split(b"\n"):
        if line.startswith(_IGNORED):
            directories.append(os.fsdecode(line[len(_IGNORED) :].rstrip(b'"')))
        elif line.startswith(b"#include ") and line.endswith(b"search starts here:"):
            is_listing = True
        elif line.startswith(b"End of search list"):
            is_listing = False
        elif is_listing and line.startswith(b" "):
            directories.append(os.fsdecode(line.strip()))
    return directories

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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nvccache.store import Store

COMMAND_LINE = "<command-line>"  # stands for the file that includes what -include names
Watch = tuple[str, str]
_DIRECTORY_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter")
_DIRECTORY_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")
# The options that can move the directories a compiler searches by itself.
_WITH_A_ROOT = ("-isysroot", "--sysroot", "-target", "--target", "-imultilib", "-iprefix")
_MOVING = (
    "-m",
    "-nostd",
    "-stdlib",
    "-nobuiltininc",
    "-iwithprefix",
    "--sysroot=",
    "--target=",
    "--gcc-toolchain",
)
_LISTING = b"End of search list"
_IGNORED = b'ignoring nonexistent directory "'


class Places:
    """Where headers are looked for along one search path; every answer is worked out once.

    Answers are watches: (directory, PRESENT or ABSENT and a name in it).
    """

    def __init__(self, chain: Iterable[str]) -> None:
        self._chain = list(dict.fromkeys(directory.rstrip("/") or "/" for directory in chain))
        # gcc shortens the names of system headers by resolving links.
        self._real_chain = [os.path.realpath(directory) for directory in self._chain]
        self.present: set[str] = set()  # files that were found where a name was looked for
        self._is_there: dict[str, bool] = {}
        self._listings: dict[str, frozenset[str] | None] = {}
        self._absences: dict[tuple[str, str], Watch | None] = {}
        self._names: dict[tuple[str, tuple[str, ...]], list[Watch]] = {}
        self._headers: dict[tuple[str, tuple[str, ...]], list[Watch]] = {}
        self._questions: dict[tuple[str, str], list[Watch]] = {}
        self._found: dict[str, list[str]] = {}

    def of_header(self, path: str, includers: Sequence[str]) -> list[Watch]:
        """For a header that was read: no other directory may get one of a name it can be included by."""
        nearby = tuple(dict.fromkeys(map(directory_of, includers)))
        if (path, nearby) not in self._headers:
            names = [_below(directory, path) for directory in (*self._chain, *self._real_chain, *nearby)]
            if not any(names):
                # Found in a way that is not understood: any end of the path can be its name.
                parts = path.strip("/").split("/")
                names = ["/".join(parts[start:]) for start in range(len(parts))]
            watches = [self.of_name(name, nearby) for name in dict.fromkeys(names) if name]
            self._headers[path, nearby] = [watch for found in watches for watch in found]
        return self._headers[path, nearby]

    def of_name(self, name: str, nearby: tuple[str, ...]) -> list[Watch]:
        """For a name that is searched for: where nothing is found, nothing may appear."""
        if (name, nearby) not in self._names:
            absences = [self._absence(directory, name) for directory in self._candidates(name, nearby)]
            self._names[name, nearby] = [watch for watch in absences if watch]
        return self._names[name, nearby]

    def of_question(self, name: str, includer: str) -> list[Watch]:
        """For what `__has_include` asks: what is there must stay, what is not must not come."""
        nearby = directory_of(includer)
        if (name, nearby) not in self._questions:
            watches = []
            for directory in self._candidates(name, (nearby,)):
                path = os.path.join(directory, name)
                folder, slash, base = path.rpartition("/")
                absence = self._absence(directory, name)
                watches.append(absence or (folder or slash or ".", PRESENT + base))
            self._questions[name, nearby] = watches
        return self._questions[name, nearby]

    def found(self, name: str, includer: str) -> list[str]:
        """Every file that an include of this name could mean."""
        if name not in self._found:
            places = [place for place in self._candidates(name, ()) if not self._absence(place, name)]
            self._found[name] = [path for path in map(_joiner(name), places) if os.path.isfile(path)]
        nearby = directory_of(includer)
        if self._absence(nearby, name):
            return self._found[name]
        path = name if nearby == "." else os.path.join(nearby, name)
        return [*self._found[name], *([path] if os.path.isfile(path) else [])]

    def _candidates(self, name: str, nearby: tuple[str, ...]) -> list[str]:
        return ["/"] if name.startswith("/") else list(dict.fromkeys([*nearby, *self._chain]))

    def _absence(self, directory: str, name: str) -> Watch | None:
        """What must stay missing for there to be no such file; None where there is one."""
        key = (directory, name)
        if key not in self._absences:
            self._absences[key] = self._find_absence(directory, name.lstrip("/"))
        return self._absences[key]

    def _find_absence(self, directory: str, name: str) -> Watch | None:
        if not self._is_directory(directory):
            return self._nearest(directory)
        head, _, rest = name.partition("/")
        if head not in ("", ".", "..") and not self._holds(directory, head):
            return directory, ABSENT + head
        path = f"{directory.rstrip('/')}/{head}" if directory != "." else head
        if rest:
            return self._absence(path or ".", rest)
        if os.path.isdir(path):
            return path, PRESENT + "."  # a compiler passes it over, as long as it is a directory
        if not os.path.exists(path):
            return directory, ABSENT + head  # a link that leads nowhere
        self.present.add(path)
        return None

    def _nearest(self, directory: str) -> Watch:
        """The nearest directory that exists, and the name that is missing from it."""
        while True:
            parent, name = os.path.split(directory)
            if self._is_directory(parent or ".") or parent in ("", "/"):
                return parent or ".", ABSENT + name
            directory = parent

    def _is_directory(self, path: str) -> bool:
        if path not in self._is_there:
            # What is below a file is missing like what is in an empty directory.
            self._is_there[path] = os.path.exists(path)
        return self._is_there[path]

    def _holds(self, directory: str, name: str) -> bool:
        if directory not in self._listings:
            try:
                self._listings[directory] = frozenset(os.listdir(directory))
            except NotADirectoryError:
                self._listings[directory] = frozenset()
            except OSError:  # it may be searched, but not listed
                self._listings[directory] = None
        listing = self._listings[directory]
        return os.path.lexists(os.path.join(directory, name)) if listing is None else name in listing


def _joiner(name: str) -> Callable[[str], str]:
    return lambda directory: os.path.join(directory, name)


def _below(directory: str, path: str) -> str:
    """The rest of a path below a directory, or empty."""
    if directory == ".":
        return "" if path.startswith("/") else path
    prefix = directory.rstrip("/") + "/"
    return path[len(prefix) :].lstrip("/") if path.startswith(prefix) else ""


def directory_of(includer: str) -> str:
    """Where a quoted include of a file looks first; for what the command line includes it is the cwd."""
    return "." if includer == COMMAND_LINE else os.path.dirname(includer) or "."


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
        asked = [words[0], "-E", "-v", "-x", "c++", "/dev/null", *options]
        plain = {**environ, "LC_ALL": "C"}
        for variable in _DIRECTORY_VARIABLES:
            plain.pop(variable, None)
        answer = process.run(asked, plain, executable=driver)
        if answer.status != 0 or _LISTING not in answer.stderr:
            raise OSError(f"`{driver}` does not say where it looks for headers")
        text = "\n".join(["these:", *_read_answer(answer.stderr)])
        cache.add_memo(memo_key, text)
    return text.split("\n")[1:]


def _options(words: Sequence[str]) -> list[str]:
    """The words that can move the built-in directories, and that an empty source can be read with."""
    options: list[str] = []
    for word, following in zip(words[1:], [*words[2:], ""][: len(words) - 1], strict=True):
        if word in _WITH_A_ROOT:
            options += [word, following]
        elif word.startswith(_MOVING):
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
        elif line.startswith(_LISTING):
            is_listing = False
        elif is_listing and line.startswith(b" "):
            directories.append(os.fsdecode(line.strip()))
    return directories

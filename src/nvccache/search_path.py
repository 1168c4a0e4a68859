"""The directories that a compiler searches for headers: those named on its command line, and its own.

What is looked for in them is told in searches.py.
"""

from __future__ import annotations

import os

from nvccache import keys, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.store import Store

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

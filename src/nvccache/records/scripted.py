"""A call of an nvcc that is a script, and the call of the compiled nvcc that it becomes.

Part of the hot path where nvcc is a script. A record of what it becomes is only good for looking up: whoever
can write into the cache must not be able to have commands run. What is run shows a rehearsal of this very
call (compile/scripted_nvcc.py).
"""

from __future__ import annotations

import os

from nvccache import environment
from nvccache.files import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.records.input_records import InputRecord
    from nvccache.records.rehearsed import Becoming
    from nvccache.store.store import Store

_PROGRAM = b"\x7fELF"
_DIGEST = "digest "  # in the place of a value that is too long (observer/process.c)


class Script:
    """A call as it was typed, `terminal` see streams.py; and what is known of it by a rehearsal.

    What that has depended on is None if no record can tell.
    """

    __slots__ = ("arguments", "environ", "input_record", "is_waiting", "nvcc", "terminal")

    def __init__(self, nvcc: str, arguments: list[str], environ: dict[str, str], terminal: str) -> None:
        self.nvcc, self.arguments, self.environ, self.terminal = nvcc, arguments, environ, terminal
        self.input_record: InputRecord | None = None
        self.is_waiting = False  # for nvcc to end, instead of having become it


class Behind:
    """The call that a script becomes: a path of a compiled nvcc, its arguments and its environment."""

    __slots__ = ("arguments", "environ", "nvcc")

    def __init__(self, nvcc: str, arguments: list[str], environ: dict[str, str]) -> None:
        self.nvcc, self.arguments, self.environ = nvcc, arguments, environ


def is_script(nvcc: str) -> bool:
    """Whether an nvcc is no compiled program; also not where it cannot be read."""
    try:
        with open(nvcc, "rb") as stream:
            return stream.read(len(_PROGRAM)) != _PROGRAM
    except OSError:
        return False


def front(script: Script) -> tuple[str, str]:
    """By what a rehearsal is known beside what it was observed to depend on."""
    place = (os.getcwd(), script.environ.get("PWD", ""))
    argv = (script.nvcc, *script.arguments)
    return keys.pair_of(
        "scripted nvcc", [("argv", argv), ("directory", place), ("terminal", (script.terminal,))]
    )


def known(script: Script, cache: Store) -> Behind | None:
    """What a script becomes by a rehearsal that still holds, which `script` is told the input record of."""
    from nvccache.records import record, rehearsed
    from nvccache.records.facts import Present

    now = Present(script.environ, cache)
    found = rehearsed.find(front(script), cache, now)
    if not found:
        return None
    record.take_signatures(found.input_record, now)
    script.input_record = found.input_record
    return behind(found.becomes, script.environ)


def behind(becomes: Becoming, environ: Mapping[str, str]) -> Behind | None:
    """The call of a becoming; None where nvcc cannot be given the same name and environment again.

    nvcc finds its toolkit by the name that it is called by.
    """
    given = dict(environ)
    for change in becomes.variables:
        name, equals, value = change.partition("=")
        if value.startswith(_DIGEST):
            return None
        if equals:
            given[name] = value
        else:
            given.pop(name, None)
    word = becomes.argv[0]
    nvcc = word if "/" in word else environment.found_on(given.get("PATH", os.defpath), word)
    if not nvcc or os.path.realpath(nvcc) != becomes.program:
        return None
    return Behind(nvcc, list(becomes.argv[1:]), given)

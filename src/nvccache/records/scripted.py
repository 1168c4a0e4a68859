"""The call of the compiled nvcc that a call of a script becomes.

Part of the hot path where nvcc is a script. A record of what it becomes is only good for looking up: being
able to write into the cache must not be enough to have commands run. Commands come from a rehearsal of this
call (compile/scripted_nvcc.py).
"""

from __future__ import annotations

import os

from nvccache import environment
from nvccache.files import keys
from nvccache.records import record, rehearsed
from nvccache.records.facts import Present
from nvccache.records.request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.records.rehearsed import Becoming
    from nvccache.store.store import Store

_DIGEST = "digest "  # in the place of a value that is too long (observer/process.c)


def front(script: Request) -> tuple[str, str]:
    """What identifies a rehearsal before it runs: its front key, and the key that hides what it has shown."""
    place = (os.getcwd(), script.environ.get("PWD", ""))
    argv = (script.nvcc, *script.arguments)
    return keys.pair_of(
        "scripted nvcc", [("argv", argv), ("directory", place), ("terminal", (script.terminal,))]
    )


def known(script: Request, cache: Store) -> Request | None:
    """What a script becomes, by a rehearsal that still holds.

    Sets `script.input_record` to that of the rehearsal.
    """
    now = Present(script.environ, cache)
    found = rehearsed.find(front(script), cache, now)
    if not found:
        return None
    record.take_signatures(found.input_record, now)
    script.input_record = found.input_record
    return behind(found.becomes, script)


def behind(becomes: Becoming, script: Request) -> Request | None:
    """The call of a becoming; None where nvcc cannot be given the same name and environment again.

    nvcc finds its toolkit by the name that it is called by.
    """
    given = dict(script.environ)
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
    return Request(nvcc, list(becomes.argv[1:]), given, script.config, script)

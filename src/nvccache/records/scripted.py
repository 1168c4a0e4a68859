"""The call of the real nvcc that an nvcc which is a script makes.

Part of the hot path if nvcc is a script. A stored call is only used for looking up results, never run: write
access to the cache must not be enough to run commands. Commands come from a rehearsal during this call
(compile/scripted_nvcc.py).
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
    from nvccache.records.rehearsed import CompilerCall
    from nvccache.store.store import Store


def front_key(script: Request) -> str:
    """The front key of a script's rehearsal."""
    directory = (os.getcwd(), script.environ.get("PWD", ""))
    argv = (script.nvcc, *script.arguments)
    return keys.key_of("scripted nvcc", [("argv", argv), ("directory", directory)])


def known(script: Request, cache: Store) -> Request | None:
    """The call that a script makes, from a valid rehearsal, whose inputs become `script.input_record`."""
    now = Present(script.environ, cache)
    found = rehearsed.find(front_key(script), cache, now)
    if not found:
        return None
    record.take_signatures(found.input_record, now)
    script.input_record = found.input_record
    return request_for(found.call, script)


def request_for(call: CompilerCall, script: Request) -> Request | None:
    """The request for a script's call; None if its argv[0] or environment cannot be reproduced.

    nvcc finds its toolkit by argv[0].
    """
    environ = dict(script.environ)
    for change in call.variables:
        name, equals, value = change.partition("=")
        if equals:
            environ[name] = value
        else:
            environ.pop(name, None)
    name = call.argv[0]
    nvcc = name if "/" in name else environment.found_on(environ.get("PATH", os.defpath), name)
    if not nvcc or os.path.realpath(nvcc) != call.program:
        return None
    return Request(nvcc, list(call.argv[1:]), environ, script.config, script)

"""Calls made from command lines, for tests of their records."""

from __future__ import annotations

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.records.base_dir import Relocation

NOWHERE = Relocation("", "/")


def parse(line: str) -> Invocation:
    call = invocation.parse(line.split(), {})
    assert isinstance(call, Invocation), call
    return call

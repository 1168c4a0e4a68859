"""Why a program cannot be observed: the loader gives it no library of ours, or there is no loader."""

from __future__ import annotations

import os
import stat
import struct

_PT_INTERP = 3
_CAPABILITIES = "security.capability"


def obstacle(path: str) -> str:
    """A clause; empty for a program that can be observed, and for what is no program of this machine's."""
    try:
        status = os.stat(path)
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and status.st_uid != os.getuid():
            return "is set-uid or set-gid, for which the loader ignores LD_PRELOAD"
        if _CAPABILITIES in os.listxattr(path):
            return "has file capabilities, for which the loader ignores LD_PRELOAD"
        with open(path, "rb") as stream:
            head = stream.read(64)
            if head[:4] != b"\x7fELF" or len(head) < 64 or head[4] != 2:
                return ""  # a script, whose interpreter is another program; or 32 bits
            order = "<" if head[5] == 1 else ">"
            start, size, count = (
                *struct.unpack_from(order + "Q", head, 32),
                *struct.unpack_from(order + "HH", head, 54),
            )
            stream.seek(start)
            table = stream.read(size * count)
    except OSError:
        return ""
    types = (
        [struct.unpack_from(order + "I", table, at)[0] for at in range(0, len(table) - 3, size)]
        if size
        else []
    )
    return "" if _PT_INTERP in types else "is statically linked, so that the loader takes no part in it"

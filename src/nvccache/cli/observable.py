"""Why a program cannot be observed: the loader gives it no library of ours, or there is no loader."""

from __future__ import annotations

import os
import stat

from nvccache.files import elf

_CAPABILITIES = "security.capability"


def obstacle(path: str) -> str:
    """A clause; empty for a program that can be observed, and for what is no program of this machine's."""
    try:
        status = os.stat(path)
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and status.st_uid != os.getuid():
            return "is set-uid or set-gid, for which the loader ignores LD_PRELOAD"
        if _CAPABILITIES in os.listxattr(path):
            return "has file capabilities, for which the loader ignores LD_PRELOAD"
        if elf.interpreter(path) == "":
            return "is statically linked, so that the loader takes no part in it"
    except OSError:
        return ""
    return ""  # also for scripts, whose interpreter is another program

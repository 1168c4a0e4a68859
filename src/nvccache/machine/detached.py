"""Starting a process that outlives its call, and that nobody waits for.

Make, Ninja, a CI job and `$(...)` wait for each process that holds their pipes, locks or jobserver, or is of
their process group: what is started here has none of these. Knows nothing of what it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import nvccache

# Isolated from the directory and the variables of the caller; modules are found where ours were found.
_PROGRAM = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); module = sys.argv.pop(1);"
    " runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
# What make passes to the programs that it starts: tokens of its jobserver are for them alone.
_OF_CALLER = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CARGO_MAKEFLAGS", "OLDPWD", "PWD")
_OWN_PREFIX = "_NVCCACHE_"


def start(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], handed_over: Sequence[int] = ()
) -> bool:
    """Have Python run a module of ours as a process of its own; whether it could be started.

    It is handed over these open descriptors, under the same numbers, and no others.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(nvccache.__file__)))
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _OF_CALLER and not name.startswith(_OWN_PREFIX)
    }
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, root, module, *arguments],
            env=kept,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=handed_over,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return False
    child.returncode = 0  # else Python warns, when this process ends, that the other has not
    return True

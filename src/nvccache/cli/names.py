"""The names of commands.

The launcher looks up every name here before it searches for a compiler of that name, so that nothing costly
is imported unless a name is ambiguous. To add a command: docs/development/extending.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nvccache import real_nvcc

# Command -> the module whose function of the same name is the command.
COMMANDS = {
    "stats": "nvccache.cli.stats",
    "explain": "nvccache.cli.explain",
    "report": "nvccache.report.command",
    "doctor": "nvccache.cli.doctor",
    "events": "nvccache.cli.events",
    "install": "nvccache.cli.install",
    "config": "nvccache.cli.config",
    "clean": "nvccache.cli.clean",
    "remote": "nvccache.cli.remotes",
}
# Parts of a name such as `x86_64-linux-gnu-g++-12`: a name with one of these is a compiler's.
_COMPILERS = """
c++ cc ccache cl clang clang++ g++ gcc hipcc icc icpc icpx icx mpic++ mpicc mpicxx nvc nvc++ nvcc sccache
"""


def is_command(name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether a name that could be a compiler's resembles a command, and no program is given arguments.

    A compiler needs arguments: `nvccache clear` is no compile, though there is a program `clear`.
    """
    import re

    from nvccache import log

    if not set(_COMPILERS.split()).isdisjoint(re.split(r"[^a-z+]+", name.lower())):
        return False
    return bool(log.nearest(name, COMMANDS)) and not (arguments and real_nvcc.find(name, "", environ))

"""The names of commands, and what replaces those of earlier versions.

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


_JQ = "`stats --json` and jq make it: see docs/reference/json.md"
_NO_PACKS = "a remote such as `file:///directory` in the CI's cache holds the same"

REMOVED = {
    "clean --stage": "`clean --matching GLOB` removes the results of some objects, `clean --all` everything",
    "clean --unused-toolchains": "`clean --older-than 30d` removes what is no longer used",
    "completion": "`_NVCCACHE_COMPLETE=bash_source nvccache` prints the script, for zsh and fish likewise",
    "config get": "`nvccache config NAME` shows a setting",
    "config path": "`nvccache config` shows the path of the file",
    "config set": "`nvccache config NAME VALUE` changes a setting",
    "config unset": "`nvccache config --unset NAME` restores the default",
    "demo": "`sh scripts/demo` in the source tree does it",
    "explain --diff": "`nvccache report` shows a whole build, `nvccache explain` one object",
    "explain --verbose": "`nvccache explain --json` has every difference of each stage",
    "pack": _NO_PACKS,
    "remote prune": "servers remove old objects by themselves: see docs/how-to/remote-servers.md",
    "remote pull": "a compile fetches what it needs; a copy of a remote's directory is a remote, too",
    "remote test": "`nvccache remote status` tries what a compile needs",
    "stats --format": _JQ,
    "stats --output": "redirect standard output",
    "stats --reset": "`nvccache stats --zero` sets the counts to zero",
    "stats --sizes": "`du -sh` in the cache directory shows the size of each kind of entry",
    "stats --watch": "`watch nvccache stats` prints it again and again",
    "unpack": _NO_PACKS,
    "verify": "`nvccache doctor --check-files` checks the files of the cache",
}


def instead_of(words: str) -> str:
    """What replaces a command or an option, to follow a sentence; empty if there was none of that name."""
    return f" any more: {REMOVED[words]}" if words in REMOVED else ""

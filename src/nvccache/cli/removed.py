"""Commands and options of earlier versions: for each, what to use instead, a clause.

They are wrong command lines like any other, but the sentence names the substitute. Settings are in log.py.
"""

from __future__ import annotations

_JQ = "`stats --json` and jq make it: see docs/how-to/summaries.md"
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
    "remote prune": "servers remove old objects by themselves: see docs/how-to/remote.md",
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

"""Commands and options of earlier versions: for each, what to use instead, a clause.

What went is a wrong command line like any other, with status 2, but its sentence names the substitute.
Settings that went are in settings_file.py.
"""

from __future__ import annotations

_NO_PACKS = "a remote such as `file:///directory` in the CI's cache holds the same"
_QUEUED = "compiles queue all that they make for the writable remotes"
_JQ = "`stats --json` and jq make it: see docs/how-to/summaries.md"

COMMANDS = {
    "config get": "`nvccache config NAME` shows a setting",
    "config path": "`nvccache config` shows the path of the file",
    "config set": "`nvccache config NAME VALUE` changes a setting",
    "config unset": "`nvccache config --unset NAME` restores the default",
    "completion": "`_NVCCACHE_COMPLETE=bash_source nvccache` prints the script, for zsh and fish likewise",
    "demo": "`sh scripts/demo` in the source tree does it",
    "pack": _NO_PACKS,
    "remote prune": "servers remove old objects by themselves: see docs/how-to/remote.md",
    "remote pull": "a compile fetches what it needs; a copy of a remote's directory is a remote, too",
    "remote test": "`nvccache remote status` tries what a compile needs",
    "unpack": _NO_PACKS,
    "verify": "`nvccache doctor --check-files` checks the files of the cache",
}
# By the command and the option. Some options went together with a command, which is named here alone.
OPTIONS = {
    "clean --stage": "`clean --matching GLOB` removes the results of some objects, `clean --all` everything",
    "clean --unused-toolchains": "`clean --older-than 30d` removes what is no longer used",
    "events --follow": "run `nvccache events` again",
    "events --since": "`nvccache events --json` and jq select calls, such as by `started`",
    "explain --diff": "`nvccache report` shows a whole build, `nvccache explain` one object",
    "remote push --all": _QUEUED,
    "remote push --dry-run": "`nvccache remote status` counts what is queued, and tries to write",
    "remote push --pending": "`nvccache remote push` sends what is queued",
    "remote push --since": _QUEUED,
    "remote status --list": "the server's own tools count its objects",
    "report --from": "run it where the build ran, and keep the page",
    "report --json": "`stats --json` and `events --json` have the figures",
    "report --since": "it shows the last build",
    "stats --format": _JQ,
    "stats --output": "redirect standard output",
    "stats --sizes": "`du -sh` in the cache directory shows the size of each kind of entry",
    "stats --verbose": "`stats --json` has every count",
    "stats --watch": "`watch nvccache stats` prints it again and again",
}
OPTIONS |= {
    "events -f": OPTIONS["events --follow"],
    "stats -o": OPTIONS["stats --output"],
    "stats -v": OPTIONS["stats --verbose"],
}


def instead_of(words: str, clauses: dict[str, str]) -> str:
    """What replaces a command or an option, to follow a sentence; empty if there was none of that name."""
    return f" any more: {clauses[words]}" if words in clauses else ""

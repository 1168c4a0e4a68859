"""The log (`NVCCACHE_LOG`), sentences about invalid settings, and escaping for output.

Nothing is written to a compile's own streams. The log contains command lines, so that it is created readable
for its owner only; an existing file keeps its mode.

File names, messages in records and values of settings are untrusted: control characters, line ends,
bidirectional overrides and invalid UTF-8 could forge a message or control a terminal.
"""

from __future__ import annotations

import os

from nvccache.config import PREFIX, SETTINGS, as_remotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.settings_file import Problem

# ccache's names for settings of ours, where the most similar name is another setting or none.
_OF_CCACHE = {
    "cache_dir": "dir",
    "compiler": "nvcc",
    "log_file": "log",
    "logfile": "log",
    "max_files": "max_size",
    "remote_storage": "remote",
    "stats_log": "stats_dir",
}
# ccache's settings that have no counterpart, and why.
_ONLY_OF_CCACHE = {
    **dict.fromkeys(
        ("sloppiness", "hash_dir", "nohashdir", "ignore_headers", "ignore_options"),
        "no input is ignored that the result depends on",
    ),
    **dict.fromkeys(("compiler_check", "extra_files"), "all that the tools read is identified by content"),
    **dict.fromkeys(
        ("direct", "depend", "stats", "compression", "hard_link", "file_clone"), "there is nothing to choose"
    ),
}
_ALIKE = 0.7


def write(log_path: str, *lines: str) -> None:
    """Append a message of one or more lines to the log, if `log_path` is not empty; errors are ignored."""
    if not log_path:
        return
    text = "".join([f"[{os.getpid()}] {printable(line)}\n" for line in lines])
    # A FIFO without a reader must not block a compile.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(log_path, flags, 0o600)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass


def printable(text: str) -> str:
    """The text on one line, with characters that are not printable escaped as in a Python string."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is no UTF-8: see os.fsdecode
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def sentences(config: Config) -> list[str]:
    """For each problem with a setting: what is wrong, and what is in force instead."""
    return [_sentence(problem, config) for problem in config.problems]


def _sentence(problem: Problem, config: Config) -> str:
    from nvccache.settings_file import FILE, UNKNOWN

    wrong = f"{problem.where}: {problem.text}"
    if problem.setting == UNKNOWN:
        return f"{wrong}{hint(problem.word)}"
    if problem.setting == FILE:
        return wrong
    return f"{wrong}; {_instead(config, problem.setting)}"


def _instead(config: Config, name: str) -> str:
    value = getattr(config, name)
    if config.origins[name] != "default":
        return "the other value is in force"
    if isinstance(value, bool):
        return "it counts as on" if value else "it counts as off"
    return "no remote is used" if SETTINGS[name].parse is as_remotes else "the default is in force"


def hint(unknown: str) -> str:
    """What to use instead of a setting that does not exist, to follow a sentence; empty if nothing is known.

    A variable is suggested for a variable, else a name.
    """
    import difflib

    name = unknown.removeprefix(PREFIX).lower()
    if name in _ONLY_OF_CCACHE:
        return f"; ccache's needs no counterpart: {_ONLY_OF_CCACHE[name]}"
    is_negated = name[:2] == "no" and name[2:] in SETTINGS  # as CCACHE_NODISABLE
    near = _OF_CCACHE.get(name) or next(iter(difflib.get_close_matches(name, SETTINGS, 1, _ALIKE)), "")
    near = name[2:] if is_negated else near
    if not near:
        return ""
    shown = SETTINGS[near].variable if unknown.startswith(PREFIX) else near
    return f"; did you mean `{shown}{'=0' if is_negated else ''}`?"

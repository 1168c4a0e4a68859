"""The log (`NVCCACHE_LOG`), sentences about invalid settings, and escaping for output.

Nothing is written to a compile's own streams. The log contains command lines, so that it is created readable
for its owner only; an existing file keeps its mode.

File names, messages in records and values of settings are untrusted: control characters, line ends,
bidirectional overrides and invalid UTF-8 could forge a message or control a terminal.
"""

from __future__ import annotations

import os

from nvccache.config import SETTINGS, as_remotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.settings_file import Problem


def write(log_path: str, *lines: str) -> None:
    """Append a message of one or more lines to the log, if `log_path` is not empty; errors are ignored."""
    if not log_path:
        return
    text = "".join([f"[{os.getpid()}] {printable(line)}\n" for line in lines])
    try:
        descriptor = opened(log_path)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass


def opened(log_path: str) -> int:
    """A descriptor for appending; raises OSError. A FIFO without a reader must not block a compile."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    return os.open(log_path, flags, 0o600)


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
    from nvccache.settings_file import FILE, UNKNOWN, instead_of

    wrong = f"{problem.where}: {problem.text}"
    if problem.setting == UNKNOWN:
        from nvccache import hints

        return f"{wrong}{instead_of(problem.word) or hints.for_setting(problem.word)}"
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

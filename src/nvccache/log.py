"""The log that `NVCCACHE_LOG` names, what is wrong with settings, and what people may be shown.

Nothing of it goes to a compile's own streams. Only its owner can read the log, since it tells of command
lines: a file that is there already keeps its mode.

File names, messages in records and values of settings come from all who could write them. A control
character, a line end or an override of the direction of writing among them could forge a message, or have
a terminal do something; so could bytes that are no text.
"""

from __future__ import annotations

import os

from nvccache.config import PREFIX, SETTINGS, as_remotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config
    from nvccache.settings_file import Problem

_ALIKE = 0.7


def write(log_path: str, *lines: str) -> None:
    """Append one message of one or more lines to the log; a log that cannot be written is not worth a word.

    `log_path` is empty when no log is wanted.
    """
    if not log_path:
        return
    text = "".join([f"[{os.getpid()}] {printable(line)}\n" for line in lines])
    # A FIFO that nobody reads must not hold up a compile.
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
    """The same on one line: whatever is not printable is written as in a Python string."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is no text: see os.fsdecode
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def sentences(config: Config) -> list[str]:
    """What is wrong and what is in force instead, one for each problem."""
    return [_sentence(problem, config) for problem in config.problems]


def _sentence(problem: Problem, config: Config) -> str:
    from nvccache.settings_file import FILE, UNKNOWN

    wrong = f"{problem.where}: {problem.text}"
    if problem.setting == UNKNOWN:
        meant = nearest(problem.word)
        return f"{wrong}; did you mean `{meant}`?" if meant else wrong
    if problem.setting == FILE:
        return wrong
    return f"{wrong}; {_instead(config, problem.setting)}"


def _instead(config: Config, name: str) -> str:
    value = getattr(config, name)
    if config.origins[name] != "default":
        return "the other value is in force"
    if isinstance(value, bool):
        return "it counts as on" if value else "it counts as off"
    return "no remote is asked" if SETTINGS[name].parse is as_remotes else "the default is in force"


def nearest(word: str) -> str:
    """The name that was most likely meant, in the form in which it was written."""
    import difflib

    found = difflib.get_close_matches(word.removeprefix(PREFIX).lower(), SETTINGS, 1, _ALIKE)
    if not found:
        return ""
    return SETTINGS[found[0]].variable if word.startswith(PREFIX) else found[0]

"""Writes the log (`NVCCACHE_LOG`), describes wrong settings, escapes text for output, and hides secrets.

A compile's own output and messages never contain the log. It contains command lines, so only its owner can
read a new log; an existing file keeps its mode.

File names, messages in records and values of settings are untrusted: control characters, line ends,
bidirectional overrides and invalid UTF-8 could forge a message or control a terminal.

Builds pass API keys and passwords to compilers as macros (`-DAPI_KEY=...`), also within options for other
programs. Therefore command lines are stored, logged and shown without values of macros.
"""

from __future__ import annotations

import os

from nvccache.config import PREFIX, SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvccache.config import Config

_ALIKE = 0.75
HIDDEN = "…"
# A macro's name with its parameters; a blank or "=" separates it from its value.
_OPTIONS = ("-D", "--define-macro=")
_MACRO = r"""(?<![^\s,"'=])(?:-D|--define-macro=)[\s"']*[^\s"'=(]*(?:\([\w\s,.$]*\))?=?"""


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
    if "\udc80" <= character <= "\udcff":  # os.fsdecode has made this of a byte that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def sentences(config: Config) -> list[str]:
    """A sentence for each wrong setting: what is wrong, and what is used or was probably meant instead."""
    return [one.sentence + (instead_of(one.misspelled) if one.misspelled else "") for one in config.problems]


def instead_of(unknown: str) -> str:
    """A suggestion to append to a sentence about a setting that does not exist; may be empty."""
    name = unknown.removeprefix(PREFIX).lower()
    near = nearest(name, SETTINGS)
    return did_you_mean(SETTINGS[near].variable if near and unknown.startswith(PREFIX) else near)


def did_you_mean(name: str) -> str:
    return f"; did you mean `{name}`?" if name else ""


def nearest(name: str, names: Iterable[str]) -> str:
    """The most similar name; empty if none is similar."""
    import difflib  # slow

    return next(iter(difflib.get_close_matches(name.lower(), list(names), 1, _ALIKE)), "")


def hide(text: str) -> str:
    """The text up to the name of its first macro; the value and what follows are hidden."""
    if not any(option in text for option in _OPTIONS):
        return text
    import re

    macro = re.search(_MACRO, text)
    return text[: macro.end()] + HIDDEN if macro and macro.end() < len(text) else text


def hide_detail(detail: str) -> str:
    """The detail of a bypass without secrets: if it is an option, which may be unknown, only its name."""
    import re

    name = re.match(r"[^=\s]*=?", detail) if detail.startswith("-") else None
    return name[0] + HIDDEN if name and name.end() < len(detail) else hide(detail)

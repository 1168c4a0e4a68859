"""What people are shown, with nothing in it that a terminal would obey.

File names, messages in records and values of settings come from whoever could write them. A control
character, a line end or an override of the direction of writing among them could forge what a command says,
or tell the terminal to do something; so could bytes that are no text. Owns how those are shown.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The same on one line: whatever is not printable is written as in a Python string."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is no text: see os.fsdecode
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")

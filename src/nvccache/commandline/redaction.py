"""Hides values of macros in command lines that are stored, logged or shown.

Builds pass API keys and passwords to compilers as macros (`-DAPI_KEY=...`), also through options for other
programs. Unaware of where command lines are shown.
"""

from __future__ import annotations

import re

HIDDEN = "…"
# A macro's name with its parameters; a blank or "=" separates it from its value.
_OPTIONS = ("-D", "--define-macro=")
_MACRO = r"""(?<![^\s,"'=])(?:-D|--define-macro=)[\s"']*[^\s"'=(]*(?:\([\w\s,.$]*\))?=?"""


def hide(text: str) -> str:
    """A text up to the value of its first macro."""
    macro = re.search(_MACRO, text) if any(option in text for option in _OPTIONS) else None
    return text[: macro.end()] + HIDDEN if macro and macro.end() < len(text) else text


def hide_detail(detail: str) -> str:
    """What a bypass is due to; of an option that may be unknown, only the name."""
    name = re.match(r"[^=\s]*=?", detail) if detail.startswith("-") else None
    return name[0] + HIDDEN if name and name.end() < len(detail) else hide(detail)

"""Checks of `commandline`."""

from __future__ import annotations

from guarded.table import Guard

GUARDS = [
    Guard(
        "settings: values of macros are not shown",
        "redaction.py",
        "if argument.name not in _OPEN:",
        "if True:",
        "test_redaction.py",
        "are_hidden",
    ),
    Guard(
        "settings: macros of option files are not shown",
        "redaction.py",
        'return re.sub(_MACRO_IN_TEXT, rf"\\1{HIDDEN}", text)',
        "return text",
        "test_redaction.py",
        "macros_in_the_text",
    ),
]

"""Checks of what wrappers of host compilers become."""

from __future__ import annotations

from guarded.table import REHEARSED, Guard

EVERY = f"{REHEARSED} --every-case"

GUARDS = [
    Guard(
        "rehearsals: that a run becomes the same",
        "run_stage.py",
        "return not stage.becomes or all(",
        "return True or all(",
        REHEARSED,
        "mind and path",
    ),
    Guard(
        "rehearsals: the command in the key",
        "stage_key.py",
        "if stage.becomes:",
        "if False:",
        EVERY,
        "mind and adds",
    ),
    Guard(
        "leftovers of an attempt that was given up",
        "run_stage.py",
        "if rehearsals.is_of_host(stage):",
        "if False:",
        REHEARSED,
        "hand_on",
    ),
    Guard(
        "rehearsals: what a descriptor holds",
        "becoming.py",
        "or reads_descriptor or",
        "or",
        REHEARSED,
        "mind and descriptor",
    ),
    Guard(
        "rehearsals: variables that a wrapper sets",
        "becoming.py",
        "variables = tuple(sorted(_changes(compiler, environ)))",
        "variables = ()",
        EVERY,
        "mind and header and variable",
    ),
    Guard(
        "rehearsals: names of outputs in records of calls",
        "record_call.py",
        "self.known.is_bound or self.execution.rehearsed.may_choose",
        "self.known.is_bound",
        REHEARSED,
        "mind and path",
    ),
    Guard(
        "rehearsals: what they depended on in records of calls",
        "record_call.py",
        ", *execution.rehearsed.input_records]",
        "]",
        REHEARSED,
        "last_command",
    ),
    Guard(
        "rehearsals: words that may have lines show",
        "src/nvccache/plan/model.py",
        " or line_options.matter_if_added(self.added)",
        "",
        EVERY,
        "words_that_may",
    ),
    Guard(
        "rehearsals: that they write nothing",
        "src/native/observer/rehearsal.c",
        "if (observer_rehearses && is_changing",
        "if (0 && is_changing",
        REHEARSED,
        "changes_nothing",
    ),
]

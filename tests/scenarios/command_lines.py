"""The command lines that nvccache must carry out as nvcc does, as data, one module for each theme.

Every option of `nvcc --help` is in one of them at least: see test_command_line_options.py.
"""

from __future__ import annotations

from scenarios.lines import code, driver, files, keeping, languages, links, messages, options, phases
from scenarios.lines.line import Line

LINES: tuple[Line, ...] = (
    *phases.LINES,
    *files.LINES,
    *options.LINES,
    *messages.LINES,
    *links.LINES,
    *languages.LINES,
    *code.LINES,
    *driver.LINES,
    *keeping.LINES,
)

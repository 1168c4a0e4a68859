"""The rows of the tables in this folder: what is removed from the source, and which test must then fail.

name of the check
    definition: expression => replacement
    file of tests, with options, and a `-k` expression
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

TABLES = sorted(Path(__file__).parent.glob("*.txt"))
_ROW = re.compile(
    r"^(?P<name>\S.*)\n"
    r" {4}(?P<definition>[\w.-]+): (?P<expression>.+?)(?: |\n {8})=>(?: (?P<instead>.+))?\n"
    r" {4}(?P<tests>.+)\n",
    re.MULTILINE,
)


class Guard(NamedTuple):
    """A check, where it is made, and its test.

    `definition` is the qualified name of a function, with its module in front if the name is ambiguous;
    `tests` are arguments of pytest, in which files may be base names.
    """

    table: str
    name: str
    definition: str
    expression: str
    instead: str
    tests: tuple[str, ...]


def read(table: Path) -> list[Guard]:
    """The rows of a table; raises ValueError for what is neither a row nor a comment."""
    text = table.read_text()
    unread = [line for line in _ROW.sub("", text).splitlines() if line and not line.startswith("#")]
    if unread:
        raise ValueError(f"{table}: no row: {unread[0]}")
    return [
        Guard(
            table.stem,
            row["name"],
            row["definition"],
            row["expression"],
            row["instead"] or "",
            tuple(shlex.split(row["tests"])),
        )
        for row in _ROW.finditer(text)
    ]

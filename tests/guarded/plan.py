"""Checks of `plan`."""

from __future__ import annotations

from guarded.table import LINKS, Guard

GUARDS = [
    Guard(
        "dates in the line table of a link",
        "line_table.py",
        "    if not is_same:",
        "    if False:",
        "test_line_table.py",
        "changed_while or appeared",
    ),
    Guard(
        "where a source is, in what is read",
        "stage_key.py",
        'found.append(("sources", tuple(source_paths)))',
        "pass",
        "test_workspace.py",
        "source",
    ),
    Guard(
        "links: device code of objects",
        "stage_key.py",
        "device_code.digest_of(path) if is_linked else",
        '"" if is_linked else',
        LINKS,
        "changed_device_code",
    ),
    Guard(
        "links: libraries",
        "stage_key.py",
        'found.append(("libraries",',
        'list(("libraries",',
        LINKS,
        "by_its_members and library",
    ),
    Guard(
        "links: what nvlink adds to",
        "src/nvccache/plan/build.py",
        "if output.role in _ADDED_TO:",
        "if False:",
        LINKS,
        "device_link and object and two",
    ),
]

"""How two lists of components differ, as clauses."""

from __future__ import annotations

import pytest

from nvccache.explain import difference_text

FOR_80, FOR_90 = (f"-gencode=arch=compute_{each},code=sm_{each}" for each in (80, 90))
ADDED = "`-g` was added to the command line"


@pytest.mark.parametrize(
    ("now", "before", "clauses"),
    [
        ("-g -O2", "-O2 -g", ["the command line was reordered"]),
        ("-g -O2", "-O2", [ADDED]),
        ("-O2", "-O2 -g", ["`-g` was removed from the command line"]),
        ("-g -g", "-g", [ADDED]),
        ("-O3", "-O2", ["`-O3` replaced `-O2`"]),
        ("-g", "-DN=…", ["`-g` was added to the command line", "`-DN=…` was removed from the command line"]),
        (f"{FOR_80} {FOR_90} -g", FOR_80, ["`sm_90` was added", ADDED]),
    ],
)
def test_command_line_differences_are_described_in_clauses(now, before, clauses):
    now, before = ([("argument", [(text, "") for text in line.split()])] for line in (now, before))
    assert difference_text.key_clauses(now, before) == clauses


def test_components_that_two_keys_do_not_share_are_differences_in_order():
    now, before = [("nvcc", [("b", "")]), ("new", [("", "1")])], [("old", []), ("nvcc", [("a", "")])]
    clauses = ["nvcc is now `b` instead of `a`", "the new changed"]
    assert difference_text.key_clauses(now, before) == clauses
    assert difference_text.key_clauses(now, now) == []

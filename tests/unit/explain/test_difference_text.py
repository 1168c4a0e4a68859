"""How two lists of components differ: by tag, with the parts added and removed, and as clauses."""

from __future__ import annotations

import pytest

from nvccache.explain import difference_text

ARGV = ("arguments", [("-O2", ""), ("-DN=…", "1"), ("-g", "")])
FILES = ("files", [("a.h", "1")])


def found(now, before) -> list[tuple]:
    differences = difference_text.differences(now, before)
    return [(one.tag, one.added, one.removed) for one in differences]


def test_tags_that_are_new_or_gone_keep_their_order():
    more = ("sources", [("/a.cu", "")])
    assert found([ARGV, FILES], [ARGV, FILES]) == []
    assert found([ARGV, more], [FILES, ARGV]) == [("sources", more[1], []), ("files", [], FILES[1])]


@pytest.mark.parametrize(
    ("parts", "added", "removed"),
    [
        ([("a.h", "2")], [("a.h", "2")], [("a.h", "1")]),
        ([("b.h", "1")], [("b.h", "1")], [("a.h", "1")]),
        ([("a.h", "1"), ("a.h", "1")], [("a.h", "1")], []),
        ([], [], [("a.h", "1")]),
    ],
)
def test_added_and_removed_parts_are_under_their_tag(parts, added, removed):
    assert found([ARGV, ("files", parts)], [ARGV, FILES]) == [("files", added, removed)]


@pytest.mark.parametrize(
    ("now", "before", "clauses"),
    [
        ("-g -O2", "-O2 -g", ["it was reordered"]),
        ("-g -O2", "-O2", ["`-g` was added to it"]),
        ("-O2", "-O2 -g", ["`-g` was removed from it"]),
        ("-O3", "-O2", ["`-O3` replaced `-O2`"]),
        ("-O3 -g", "-O2", ["`-O3` was added to it", "`-g` was added to it", "`-O2` was removed from it"]),
        ("-DN=…", "-O2", ["`-DN=…` was added to it", "`-O2` was removed from it"]),
    ],
)
def test_command_line_differences_are_described_in_clauses(now, before, clauses):
    now, before = ([("arguments", [(text, "") for text in line.split()])] for line in (now, before))
    (difference,) = difference_text.differences(now, before)
    assert difference_text.clauses(difference, "it") == clauses

"""How two lists of components differ: by tag, with the parts added and removed."""

from __future__ import annotations

import pytest

from nvccache.explain import difference_text

ARGV = ("arguments", [("-O2", ""), ("-DN=…", "1"), ("-g", "")])
FILES = ("files", [("a.h", "1")])


def found(now, before) -> list[tuple]:
    differences = difference_text.differences(now, before)
    return [(one.tag, one.added, one.removed) for one in differences]


def test_equal_lists_differ_in_nothing():
    assert found([ARGV, FILES], [ARGV, FILES]) == []
    assert found([], []) == []


@pytest.mark.parametrize(
    ("parts", "added", "removed"),
    [
        ([("a.h", "2")], [("a.h", "2")], [("a.h", "1")]),
        ([("b.h", "1")], [("b.h", "1")], [("a.h", "1")]),
        ([("a.h", "1"), ("b.h", "1")], [("b.h", "1")], []),
        ([("a.h", "1"), ("a.h", "1")], [("a.h", "1")], []),
        ([], [], [("a.h", "1")]),
    ],
)
def test_added_and_removed_parts_are_under_their_tag(parts, added, removed):
    assert found([ARGV, ("files", parts)], [ARGV, FILES]) == [("files", added, removed)]


def test_another_order_is_a_difference_without_parts():
    (difference,) = difference_text.differences([("arguments", ARGV[1][::-1])], [ARGV])
    assert difference.is_reordered
    (difference,) = difference_text.differences([("arguments", ARGV[1][1:])], [ARGV])
    assert not difference.is_reordered


def test_another_order_is_a_difference_beside_an_added_part():
    clauses = {}
    for name, parts in (("kept", ["-g", "-O2", "-O3"]), ("swapped", ["-O3", "-g", "-O2"])):
        now = ("arguments", [(part, "") for part in parts])
        before = ("arguments", [("-g", ""), ("-O3", "")] if name == "swapped" else [("-g", ""), ("-O2", "")])
        (difference,) = difference_text.differences([now], [before])
        clauses[name] = difference_text.of_arguments(difference, "it")
    assert clauses == {
        "kept": ["`-O3` was added to it"],
        "swapped": ["`-O2` was added to it", "it was reordered"],
    }


def test_added_and_removed_tags_keep_their_order():
    more = ("sources", [("/a.cu", "")])
    assert found([ARGV, more], [FILES, ARGV]) == [
        ("sources", more[1], []),
        ("files", [], FILES[1]),
    ]


def test_components_of_one_tag_are_taken_together():
    parts = FILES[1]
    assert found([("files", parts), ("files", parts)], [("files", parts * 2)]) == []
    assert found([("files", parts), ("files", parts)], [FILES]) == [("files", parts, [])]

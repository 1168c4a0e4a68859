"""Facts about a preprocessor pass: which files it names."""

from __future__ import annotations

import pytest

from nvccache.passes import Pass, decoded, facts_of_text, without_directory
from nvccache.store import sections

MARKERS = b'# 1 "a.cu"\n# 1 "/base/one/x.h" 1\nint x;\n# 2 "a.cu" 2\n'


def test_files_that_a_preprocessed_text_entered_are_listed():
    assert facts_of_text(MARKERS).listed == ((b"a.cu", False), (b"/base/one/x.h", False))


def test_facts_about_a_preprocessed_text_survive_encoding():
    listed = ((b"a \xff\n.cu", False), (b"/usr/x.h", True), (b"/usr/x.h", False))
    known = Pass(listed, "what it says", is_absolute=True)
    assert decoded(known.encoded()) == known
    assert decoded(Pass(()).encoded()) == Pass(())


def test_files_that_only_a_line_directive_names_are_listed():
    known = facts_of_text(b'# 1 "a.cu"\n# 1 "/dev/stdin"\nint x;\n# 1 "b.h" 3\n')
    assert known.listed == ((b"a.cu", False), (b"/dev/stdin", False), (b"b.h", True))
    assert decoded(known.encoded()) == known


NO_FACTS = [b"", b"\xff", b"[]", b"nvccache", Pass(()).encoded()[:-1], Pass(()).encoded() + b"x"]
NO_FACTS += [sections.pack("pass-1", [b""]), sections.pack("result-2", [b"", b"1"])]
NO_FACTS += [sections.pack("pass-1", [b"\xff", b"1"])]


@pytest.mark.parametrize("facts", NO_FACTS, ids=repr)
def test_malformed_facts_about_a_preprocessed_text_are_refused(facts):
    with pytest.raises(ValueError):
        decoded(facts)


@pytest.mark.parametrize(
    ("line", "following", "is_removed"),
    [
        (b'# 1 "/here//"\n', b'# 1 "b.h"\n', True), (b'# 1 "/here//"\n', b"int x;\n", False),
        (b'# 1 "/here/"\n', b'# 1 "b.h"\n', False), (b"", b'# 1 "b.h"\n', False),
    ],
)  # fmt: skip
def test_only_the_marker_for_the_working_directory_is_left_out(line, following, is_removed):
    first = b'# 0 "a.cu"\n'
    assert without_directory(first + line + following) == first + line * (not is_removed) + following

"""What is in a directory."""

from __future__ import annotations

import os

import pytest

from nvccache.files import presence

MAKERS = {
    "nothing": lambda path: None,
    "a file": lambda path: path.write_text(""),
    "a directory": lambda path: path.mkdir(),
    "a link": lambda path: path.symlink_to("other"),
    "a FIFO": os.mkfifo,
}


@pytest.mark.parametrize("before", MAKERS)
@pytest.mark.parametrize("after", MAKERS)
def test_a_listing_tells_names_and_what_they_are(tmp_path, before, after):
    digests = []
    for number, what in enumerate((before, after)):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "other").write_text("")
        MAKERS[what](directory / "name")
        digests.append(presence.digest_of_listing(str(directory)))
    assert "" not in digests
    assert (digests[0] == digests[1]) == (before == after)


def test_where_a_link_leads_is_in_no_listing(tmp_path):
    digests = set()
    for number, target in enumerate((".", "/nowhere", "file")):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "file").write_text("")
        (directory / "link").symlink_to(target)
        digests.add(presence.digest_of_listing(str(directory)))
    assert len(digests) == 1

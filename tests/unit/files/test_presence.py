"""What is in a directory, and the limits and rights of the caller."""

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
def test_a_directory_digest_covers_names_and_types_but_not_link_targets(tmp_path, before, after):
    digests = []
    for number, what in enumerate((before, after)):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "other").symlink_to(__file__ if number else ".")
        MAKERS[what](directory / "name")
        digests.append(presence.digest_of_listing(str(directory)))
    assert "" not in digests
    assert (digests[0] == digests[1]) == (before == after)


def test_the_state_of_a_path_distinguishes_folder_file_link_and_absence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, mode in (("file", 0o644), ("tool", 0o755)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    for name, target in (("link", "file"), ("loop", "loop")):
        (tmp_path / name).symlink_to(target)
    assert {name: presence.state_of(name) for name in (".", "file", "tool", "link", "loop", "never")} == {
        ".": presence.FOLDER, "file": presence.PRESENT, "tool": presence.EXECUTABLE,
        "link": presence.PRESENT, "loop": presence.UNREACHABLE, "never": presence.ABSENT,
    }  # fmt: skip
    for name in ("nul\0", "x" * 5000):
        assert presence.state_of(name) == presence.UNREACHABLE
    assert presence.state_of("/dev/null") == presence.PRESENT
    assert presence.state_of("file/below") == presence.ABSENT


def test_dates_are_recorded_in_whole_seconds_with_the_file_size(tmp_path):
    (tmp_path / "x.h").write_text("int x;\n")
    os.utime(tmp_path / "x.h", (1234567890.75, 1234567890.75))
    assert presence.date_and_size(f"{tmp_path}/x.h") == f"{tmp_path}/x.h:1234567890:7"
    assert presence.date_and_size("missing") == presence.date_and_size("nul\0") == ""
    for path in ("never", f"{tmp_path}/x.h", "nul\0"):
        assert presence.digest_of_listing(path) == ""

"""The log: one line for each line of a message, whatever is in it; and never in the way of a call."""

from __future__ import annotations

import os
import stat

from nvccache import log


def test_a_message_cannot_pass_for_two(tmp_path):
    path = tmp_path / "log"
    log.write(str(path), "bypass \x1b[2J a\n[1] direct hit /x.o", "second\r\udcff")
    head = f"[{os.getpid()}] "
    assert path.read_text() == f"{head}bypass \\x1b[2J a\\n[1] direct hit /x.o\n{head}second\\r\\xff\n"


def test_only_its_owner_can_read_it_unless_the_file_is_there_already(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("")
    old.chmod(0o644)
    for path, mode in ((new, 0o600), (old, 0o644)):
        log.write(str(path), "message")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert "message" in path.read_text()


def test_what_cannot_be_written_is_not_worth_a_word(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in ("", str(tmp_path), str(tmp_path / "fifo"), str(tmp_path / "absent" / "log"), "/dev/full"):
        log.write(path, "message")

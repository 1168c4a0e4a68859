"""What is in a directory, and the limits and rights of the caller."""

from __future__ import annotations

import os
import subprocess
import sys

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


LIMITS = """Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file size             {file}           unlimited            bytes     
Max data size             unlimited            unlimited            bytes     
Max stack size            {stack}              unlimited            bytes     
Max open files            {files}                 524288               files     
Max pending signals       10                   10                   signals   
"""  # noqa: W291


@pytest.mark.parametrize(
    ("given", "tight"),
    [
        ({}, ()),
        ({"stack": "8388607"}, ("stack size 8388607",)),
        ({"stack": "1234567", "files": "99  "}, ("stack size 1234567", "open files 99")),
        ({"file": "9999999999"}, ()),
        ({"file": "99        "}, ("file size 99",)),
    ],
    ids=str,
)
def test_limits_count_that_are_less_than_enough(tmp_path, monkeypatch, given, tight):
    usual = {"file": "unlimited ", "stack": "8388608", "files": "1024"}
    (tmp_path / "limits").write_text(LIMITS.format(**{**usual, **given}))
    monkeypatch.setattr(presence, "_LIMITS", str(tmp_path / "limits"))
    assert presence.tight_limits() == tight


def test_unknown_limits_are_not_tight(monkeypatch):
    monkeypatch.setattr(presence, "_LIMITS", "/nowhere/limits")
    assert presence.tight_limits() == ()


@pytest.mark.parametrize("command", ["-s 1000", "-d 1000000", "-v 9000000", "-f 1000", "-n 100", "-t 900"])
def test_limits_of_this_kernel_are_understood(command):
    program = "from nvccache.files import presence; print(len(presence.tight_limits()))"
    script = f'before=$("$0" -c "$1"); ulimit {command}; echo $(($("$0" -c "$1") - before))'
    done = subprocess.run(["sh", "-c", script, sys.executable, program], capture_output=True, check=True)
    assert done.stdout == b"1\n"


def test_where_temporary_files_can_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o777)
    for directory, can in (
        (tmp_path, True),
        (tmp_path / "none", False),
        (tmp_path / "file", False),
        ("", False),
    ):
        assert presence.can_make_temporary_files({"TMPDIR": str(directory)}) is can
    assert presence.can_make_temporary_files({}) is os.access("/tmp", os.W_OK)

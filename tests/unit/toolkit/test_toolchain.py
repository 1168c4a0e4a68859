"""Which program a command starts, and when two of them are the same."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.toolkit import toolchain

LONG_AGO = time.time() - 1000


def _script(path: Path, body: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def settled(monkeypatch):
    """Wait until files written just now are old enough to be trusted."""
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 10 * 10**9)


def test_programs_are_searched_as_a_shell_does(tmp_path, monkeypatch):
    (tmp_path / "folder" / "tool").mkdir(parents=True)
    Path(_script(tmp_path / "plain" / "tool", "")).chmod(0o644)
    for name in ("a", "b", "."):
        _script(tmp_path / name / "tool", "")
    monkeypatch.chdir(tmp_path)
    for search_path, found in (
        (f"{tmp_path}/a:{tmp_path}/b", f"{tmp_path}/a/tool"),
        (f"{tmp_path}/b:{tmp_path}/a", f"{tmp_path}/b/tool"),
        (f"{tmp_path}/missing:{tmp_path}/folder:{tmp_path}/plain:b", "b/tool"),
        (":/nonexistent", "./tool"),
    ):
        assert toolchain.resolve("tool", search_path) == found
    assert toolchain.resolve("a/tool", "/usr/bin") == "a/tool"
    assert toolchain.resolve("a/other", f"{tmp_path}/a") == ""


def test_a_program_that_is_nowhere_raises(cache):
    with pytest.raises(FileNotFoundError):
        toolchain.identify("no-such-tool", {"PATH": "/usr/bin"}, cache)


def test_the_first_missing_program_is_named(tmp_path):
    _script(tmp_path / "there", "")
    environ = {"PATH": str(tmp_path)}
    assert toolchain.missing_program(["there"], environ) == ""
    assert toolchain.missing_program(["there", "gone", "lost"], environ) == "gone"


def test_a_program_is_its_content_wherever_it_lies(tmp_path, cache):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 1")
    assert toolchain.identify(first, {}, cache) == toolchain.identify(second, {}, cache)
    assert toolchain.identify(first, {}, cache) == keys.digest_file(first)


def test_a_link_is_what_it_points_to(tmp_path, cache, settled):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 2")
    link = tmp_path / "link"
    link.symlink_to(first)
    before = toolchain.identify(str(link), {}, cache)
    link.unlink()
    link.symlink_to(second)
    assert before == keys.digest_file(first)
    assert toolchain.identify(str(link), {}, cache) == keys.digest_file(second)


def test_a_digest_is_remembered_and_not_made_again(tmp_path, cache, settled, monkeypatch):
    path = _script(tmp_path / "tool", "")
    before = toolchain.identify(path, {}, cache)
    monkeypatch.setattr(keys, "digest_file", None)
    assert toolchain.identify(path, {}, cache) == before


def test_a_digest_of_what_has_just_changed_is_not_remembered(tmp_path, cache):
    path = Path(_script(tmp_path / "tool", "echo 1"))
    before = toolchain.identify(str(path), {}, cache)
    status = path.stat()
    path.write_text("#!/bin/sh\necho 2\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert toolchain.identify(str(path), {}, cache) != before
    assert not list((tmp_path / "cache").rglob("memo-*/*/*"))


@pytest.mark.parametrize("is_replaced", [False, True])
def test_other_content_of_the_same_size_and_date_is_noticed(tmp_path, cache, settled, is_replaced):
    path = Path(_script(tmp_path / "tool", "echo 1"))
    os.utime(path, (LONG_AGO, LONG_AGO))
    before = toolchain.identify(str(path), {}, cache)
    other = Path(_script(tmp_path / "other" if is_replaced else path, "echo 2"))
    os.utime(other, (LONG_AGO, LONG_AGO))
    other.rename(path)
    assert toolchain.identify(str(path), {}, cache) != before


def test_the_same_content_under_a_new_date_is_the_same_program(tmp_path, cache, settled):
    path = _script(tmp_path / "tool", "echo 1")
    before = toolchain.identify(path, {}, cache)
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert toolchain.identify(path, {}, cache) == before


def test_only_regular_files_are_regular_files(tmp_path):
    (tmp_path / "file").write_text("x")
    assert toolchain.is_regular_file(str(tmp_path / "file"))
    for path in (str(tmp_path), "/dev/null", str(tmp_path / "missing"), "", "a\0b"):
        assert not toolchain.is_regular_file(path)

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


def test_the_first_program_on_the_path_is_started(tmp_path):
    first, second = _script(tmp_path / "a" / "tool", ""), _script(tmp_path / "b" / "tool", "")
    assert toolchain.resolve("tool", f"{tmp_path}/a:{tmp_path}/b") == first
    assert toolchain.resolve("tool", f"{tmp_path}/b:{tmp_path}/a") == second
    assert toolchain.resolve("tool", f"{tmp_path}/missing:{tmp_path}/b") == second


def test_what_cannot_be_executed_is_passed_over(tmp_path):
    (tmp_path / "a" / "tool").mkdir(parents=True)
    plain = Path(_script(tmp_path / "b" / "tool", ""))
    plain.chmod(0o644)
    wanted = _script(tmp_path / "c" / "tool", "")
    assert toolchain.resolve("tool", f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c") == wanted


def test_an_empty_part_of_the_path_is_the_working_directory(tmp_path, monkeypatch):
    _script(tmp_path / "tool", "")
    monkeypatch.chdir(tmp_path)
    assert toolchain.resolve("tool", ":/nonexistent") == "./tool"


def test_a_word_with_a_slash_is_not_looked_for(tmp_path, monkeypatch):
    path = _script(tmp_path / "bin" / "tool", "")
    monkeypatch.chdir(tmp_path)
    assert toolchain.resolve(path, "") == path
    assert toolchain.resolve("bin/tool", "/usr/bin") == "bin/tool"
    assert toolchain.resolve("bin/other", f"{tmp_path}/bin") == ""


def test_a_program_that_is_nowhere_raises(cache):
    with pytest.raises(FileNotFoundError):
        toolchain.program_of("no-such-tool", {"PATH": "/usr/bin"})


def test_the_first_missing_program_is_named(tmp_path):
    _script(tmp_path / "there", "")
    environ = {"PATH": str(tmp_path)}
    assert toolchain.missing_program(["there"], environ) == ""
    assert toolchain.missing_program(["there", "gone", "lost"], environ) == "gone"


def test_a_program_is_its_content_wherever_it_lies(tmp_path, cache):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 1")
    assert toolchain.digest_of_program(first, cache) == toolchain.digest_of_program(second, cache)
    assert toolchain.digest_of_program(first, cache) == keys.digest_file(first)


def test_a_link_is_what_it_points_to(tmp_path, cache, settled):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 2")
    link = tmp_path / "link"
    link.symlink_to(first)
    before = toolchain.digest_of_program(str(link), cache)
    link.unlink()
    link.symlink_to(second)
    assert before == keys.digest_file(first)
    assert toolchain.digest_of_program(str(link), cache) == keys.digest_file(second)


def test_a_digest_is_remembered_and_not_made_again(tmp_path, cache, settled, monkeypatch):
    path = _script(tmp_path / "tool", "")
    before = toolchain.digest_of_program(path, cache)
    monkeypatch.setattr(keys, "digest_file", None)
    assert toolchain.digest_of_program(path, cache) == before


def test_a_digest_of_what_has_just_changed_is_not_remembered(tmp_path, cache):
    path = Path(_script(tmp_path / "tool", "echo 1"))
    before = toolchain.digest_of_program(str(path), cache)
    status = path.stat()
    path.write_text("#!/bin/sh\necho 2\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert toolchain.digest_of_program(str(path), cache) != before
    assert not list((tmp_path / "cache").rglob("memo-*/*/*"))


def test_other_content_of_the_same_size_and_date_is_noticed(tmp_path, cache, settled):
    path = Path(_script(tmp_path / "tool", "echo 1"))
    os.utime(path, (LONG_AGO, LONG_AGO))
    before = toolchain.digest_of_program(str(path), cache)
    path.write_text("#!/bin/sh\necho 2\n")
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert toolchain.digest_of_program(str(path), cache) != before


def test_a_program_replaced_by_one_of_the_same_size_and_date_is_noticed(tmp_path, cache, settled):
    path, other = Path(_script(tmp_path / "tool", "echo 1")), Path(_script(tmp_path / "other", "echo 2"))
    for file in (path, other):
        os.utime(file, (LONG_AGO, LONG_AGO))
    before = toolchain.digest_of_program(str(path), cache)
    other.rename(path)
    assert toolchain.digest_of_program(str(path), cache) != before


def test_the_same_content_under_a_new_date_is_the_same_program(tmp_path, cache, settled):
    path = _script(tmp_path / "tool", "echo 1")
    before = toolchain.digest_of_program(path, cache)
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert toolchain.digest_of_program(path, cache) == before


def test_only_regular_files_are_regular_files(tmp_path):
    (tmp_path / "file").write_text("x")
    assert toolchain.is_regular_file(str(tmp_path / "file"))
    for path in (str(tmp_path), "/dev/null", str(tmp_path / "missing"), "", "a\0b"):
        assert not toolchain.is_regular_file(path)

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


def test_a_program_named_with_a_slash_is_not_searched_on_path(tmp_path, monkeypatch):
    path = _script(tmp_path / "bin" / "tool", "")
    monkeypatch.chdir(tmp_path)
    assert toolchain.resolve(path, "") == path
    assert toolchain.resolve("bin/tool", "/usr/bin") == "bin/tool"
    assert toolchain.resolve("bin/other", f"{tmp_path}/bin") == ""
    assert toolchain.resolve("tool", f"{tmp_path}/bin") == path


def test_the_first_program_missing_from_path_is_named(tmp_path):
    _script(tmp_path / "there", "")
    environ = {"PATH": str(tmp_path)}
    with pytest.raises(FileNotFoundError):
        toolchain.program_of("gone", environ)
    assert toolchain.missing_program(["there"], environ) == ""
    assert toolchain.missing_program(["there", "gone", "lost"], environ) == "gone"


def test_the_digest_of_a_program_depends_on_content_not_location(tmp_path, cache):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 1")
    assert toolchain.digest_of_program(first, cache) == toolchain.digest_of_program(second, cache)
    assert toolchain.digest_of_program(first, cache) == keys.digest_file(first)


def test_the_digest_of_a_linked_program_is_that_of_its_target(tmp_path, cache, settled):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 2")
    link = tmp_path / "link"
    link.symlink_to(first)
    before = toolchain.digest_of_program(str(link), cache)
    link.unlink()
    link.symlink_to(second)
    assert before == keys.digest_file(first)
    assert toolchain.digest_of_program(str(link), cache) == keys.digest_file(second)


def test_a_digest_is_remembered_by_the_signature_of_the_file(tmp_path, cache, settled, monkeypatch):
    path, other = Path(_script(tmp_path / "tool", "echo 1")), Path(_script(tmp_path / "other", "echo 2"))
    for file in (path, other):
        os.utime(file, (LONG_AGO, LONG_AGO))
    before = toolchain.digest_of_program(str(path), cache)
    with monkeypatch.context() as patch:
        patch.setattr(keys, "digest_file", None)
        assert toolchain.digest_of_program(str(path), cache) == before
    os.utime(path)
    assert toolchain.digest_of_program(str(path), cache) == before
    other.rename(path)
    assert toolchain.digest_of_program(str(path), cache) != before


def test_the_digest_of_a_just_changed_program_is_not_remembered(tmp_path, cache):
    toolchain.digest_of_program(_script(tmp_path / "tool", "echo 1"), cache)
    assert not list((tmp_path / "cache").rglob("memo-*/*/*"))


def test_directories_devices_and_missing_paths_are_no_regular_files(tmp_path):
    (tmp_path / "file").write_text("x")
    assert toolchain.is_regular_file(str(tmp_path / "file"))
    for path in (str(tmp_path), "/dev/null", str(tmp_path / "missing"), "", "a\0b"):
        assert not toolchain.is_regular_file(path)

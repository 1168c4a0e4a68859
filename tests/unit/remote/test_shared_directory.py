"""A directory as a remote: entries appear whole; files left by others are not waited for."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from nvccache.remote.backend import BackendError
from nvccache.remote.shared_directory import SharedDirectory

NAME = "1/ab/" + "ab" * 32


@pytest.fixture
def top(tmp_path):
    made = tmp_path / "team"
    made.mkdir()
    return made


@pytest.fixture
def shared(top):
    return SharedDirectory(str(top))


def test_shared_content_is_read_back_unless_it_is_too_large(shared, top):
    assert shared.get(NAME, 10) is None
    assert list(top.iterdir()) == []
    for _ in ("written", "replaced"):
        shared.put(NAME, b"content")
    assert shared.get(NAME, 7) == b"content"
    assert shared.get(NAME, 6) is None


PLANTED = {
    "a FIFO": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a file of terabytes": lambda path: path.open("wb").truncate(1 << 42),
    "a folder": os.mkdir,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_special_files_in_place_of_a_shared_object_count_as_absent(shared, top, plant):
    (top / NAME).parent.mkdir(parents=True)
    plant(top / NAME)
    assert shared.get(NAME, 10) is None


def test_a_shared_directory_is_not_written_through_links(shared, top, tmp_path):
    (tmp_path / "other").mkdir()
    (top / "1").symlink_to(tmp_path / "other")
    with pytest.raises(BackendError):
        shared.put(NAME, b"x")
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("use", ["put", "get"])
@pytest.mark.parametrize(
    ("name", "text"), [("mnt", "No such file or directory"), ("file", "Not a directory")]
)
def test_a_missing_shared_directory_is_reported_and_not_created(tmp_path, use, name, text):
    (tmp_path / "file").write_text("")
    shared = SharedDirectory(str(tmp_path / name))
    with pytest.raises(BackendError) as raised:
        shared.put(NAME, b"content") if use == "put" else shared.get(NAME, 10)
    assert raised.value.word == "unusable_directory"
    assert str(raised.value) == f"the remote's directory cannot be used ({text})"
    assert not (tmp_path / "mnt").exists()


def test_a_folder_in_place_of_a_shared_object_is_a_fault_of_that_object_only(shared, top):
    """Other entries are still written, unlike in an unreachable directory."""
    (top / NAME / "x").mkdir(parents=True)
    with pytest.raises(BackendError) as caught:
        shared.put(NAME, b"x")
    assert caught.value.word == "broken"
    assert [entry.name for entry in top.glob("1/ab/.*")] == []


def test_shared_files_get_the_permissions_of_the_directory(shared, top):
    top.chmod(0o2775)
    shared.put(NAME, b"x")
    assert stat.S_IMODE((top / NAME).stat().st_mode) == 0o664
    assert stat.S_IMODE((top / "1" / "ab").stat().st_mode) & 0o777 == 0o775


def test_a_shared_file_becomes_visible_only_when_it_is_complete(shared, top, monkeypatch):
    renamed = []

    def rename(old, new):
        renamed.append((os.path.getsize(old), os.path.exists(new)))
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(BackendError, match="the remote is full"):
        shared.put(NAME, b"content")
    assert renamed == [(7, False)]
    assert [path for path in top.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_an_unreadable_file_of_a_shared_directory_is_reported_as_denied(shared, top):
    shared.put(NAME, b"x")
    (top / NAME).chmod(0)
    with pytest.raises(BackendError, match="denies access"):
        shared.get(NAME, 10)

"""A directory as a remote: entries appear whole; files left by others are not waited for."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from nvccache.remote.service import ServiceError
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


def plant(top):
    path = top / NAME
    path.parent.mkdir(parents=True)
    return path


def test_nothing_there(shared, top):
    assert shared.get(NAME, 10) is None
    assert list(top.iterdir()) == []


def test_round_trip(shared):
    shared.put(NAME, b"content")
    shared.put(NAME, b"content")
    assert shared.get(NAME, 7) == b"content"


@pytest.mark.parametrize(
    "use",
    [
        lambda shared: shared.put(NAME, b"content"),
        lambda shared: shared.get(NAME, 10),
    ],
)
def test_a_missing_directory_may_be_a_file_system_that_is_not_mounted_and_is_not_made(tmp_path, use):
    for name, text in (("mnt", "No such file or directory"), ("file", "Not a directory")):
        (tmp_path / "file").write_text("")
        with pytest.raises(ServiceError) as raised:
            use(SharedDirectory(str(tmp_path / name)))
        assert raised.value.word == "unusable_directory"
        assert str(raised.value) == f"the directory cannot be used ({text})"
    assert not (tmp_path / "mnt").exists()


def test_too_large(shared):
    shared.put(NAME, b"content")
    assert shared.get(NAME, 6) is None


def test_fifo(shared, top):
    os.mkfifo(plant(top))
    assert shared.get(NAME, 10) is None


def test_nothing_is_written_through_links(shared, top, tmp_path):
    (tmp_path / "other").mkdir()
    (top / "1").symlink_to(tmp_path / "other")
    with pytest.raises(ServiceError):
        shared.put(NAME, b"x")
    assert list((tmp_path / "other").iterdir()) == []


def test_folder(shared, top):
    plant(top).mkdir()
    assert shared.get(NAME, 10) is None
    with pytest.raises(ServiceError):
        shared.put(NAME, b"x")
    assert [entry.name for entry in top.glob("1/ab/.*")] == []


def test_permissions_are_those_of_the_directory(shared, top):
    top.chmod(0o2775)
    shared.put(NAME, b"x")
    assert stat.S_IMODE((top / NAME).stat().st_mode) == 0o664
    assert stat.S_IMODE((top / "1" / "ab").stat().st_mode) & 0o777 == 0o775


def test_partial_files_are_never_visible(shared):
    contents = [bytes([number]) * 300_000 for number in range(4)]
    stop = threading.Event()

    def write(content):
        while not stop.is_set():
            shared.put(NAME, content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    seen = [shared.get(NAME, 10**6) for _ in range(200)]
    stop.set()
    for thread in threads:
        thread.join()
    assert {content for content in seen if content is not None} <= set(contents)


def test_a_folder_in_the_place_of_a_file_is_no_fault_of_the_directory(shared, top):
    """Other entries are still written, unlike in an unreachable directory."""
    (top / NAME / "x").mkdir(parents=True)
    with pytest.raises(ServiceError) as caught:
        shared.put(NAME, b"x")
    assert caught.value.word == "broken"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_denied(shared, top):
    plant(top).write_bytes(b"x")
    (top / NAME).chmod(0)
    with pytest.raises(ServiceError, match="denies access"):
        shared.get(NAME, 10)

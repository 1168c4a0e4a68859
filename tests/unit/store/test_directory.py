"""The cache directory: who may use it, the files that are opened, and their permissions."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

import unprivileged
from nvccache.files import keys
from nvccache.store import directory, locks, store
from nvccache.store.directory import Directory, ForeignDirectoryError
from nvccache.store.store import RECORD, Store

KEY = keys.digest_bytes(b"a key")
NAME = f"{RECORD}/{KEY[:2]}/{KEY}"


@pytest.fixture
def cache(root) -> Directory:
    return Directory(str(root))


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_new_cache_directory_holds_its_tag(root, cache):
    cache.prepare()
    assert _files(root) == [directory.TAG_NAME]


@pytest.mark.parametrize(
    "there", ["", "lost+found", ".nvccache-tag-0123", "nvccache-1000", f"{RECORD}/ab", "tmp"]
)
def test_a_directory_that_holds_only_names_of_nvccache_becomes_a_cache(root, cache, there):
    """Such as what calls have written into a cache while it was removed."""
    (root / there).mkdir(parents=True)
    (root / there / "a.ii").write_text("") if there else None
    cache.prepare()
    assert (root / directory.TAG_NAME).is_file()


@pytest.mark.parametrize("there", ["thesis.tex", "src/tmp", directory.TAG_NAME, ".hidden"])
def test_another_users_directory_is_neither_read_nor_written(root, there):
    """A cache of another program has a tag, too."""
    (root / there).parent.mkdir(parents=True)
    (root / there).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n")
    before = _files(root)
    cache = Store(str(root))
    cache.add_record(RECORD, KEY, b"body")
    assert cache.fault == "foreign_directory"
    assert cache.find_record(RECORD, KEY) is None
    with pytest.raises(ForeignDirectoryError):
        Directory(str(root)).list()
    assert Directory(str(root)).problem() == "foreign_directory"
    assert _files(root) == before


def test_a_directory_whose_tag_is_a_link_is_not_used_as_a_cache(root, tmp_path):
    Directory(str(tmp_path / "other")).prepare()
    root.mkdir()
    (root / directory.TAG_NAME).symlink_to(tmp_path / "other" / directory.TAG_NAME)
    with pytest.raises(ForeignDirectoryError):
        Directory(str(root)).prepare()


def test_a_removed_cache_is_made_again_by_the_next_write(root, cache):
    cache.write(NAME, b"first")
    shutil.rmtree(root)
    with pytest.raises(FileNotFoundError):
        cache.read(NAME)
    cache.write(NAME, b"second")
    assert cache.read(NAME)[0] == (root / NAME).read_bytes() == b"second"


@pytest.mark.parametrize("target", ["outside", "missing"])
def test_a_link_in_place_of_a_cache_file_is_not_followed(root, cache, tmp_path, target):
    cache.prepare()
    (tmp_path / "outside").write_bytes(b"outside")
    for name in (NAME, "locks/0.lock"):
        (root / name).parent.mkdir(parents=True)
        (root / name).symlink_to(tmp_path / target)
    with pytest.raises(OSError):
        cache.read(NAME)
    with pytest.raises(OSError):
        cache.open("locks/0.lock", os.O_RDWR, make=True)
    cache.write(NAME, b"written")
    assert ((tmp_path / "outside").read_bytes(), (root / NAME).read_bytes()) == (b"outside", b"written")
    assert not (tmp_path / "missing").exists()


def test_a_fifo_in_place_of_a_cache_file_does_not_block(root, cache):
    cache.write(NAME, b"ours")
    (root / NAME).unlink()
    os.mkfifo(root / NAME)
    for flags in (os.O_RDONLY, os.O_RDWR):
        with pytest.raises(OSError, match="not a regular file"):
            cache.open(NAME, flags)
    cache.write(NAME, bytes(100))
    before = os.listdir("/proc/self/fd")
    assert cache.read(NAME)[0] == bytes(100)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(
    ("directory_mode", "of_folders", "of_files"),
    [
        (0o755, 0o750, 0o640),  # the directory's own, and the umask of the process
        (0o2775, 0o2775, 0o664),
        (0o1777, 0o777, 0o666),
    ],
)
def test_permissions_of_stored_files_follow_from_the_cache_directory(
    root, directory_mode, of_folders, of_files
):
    root.mkdir()
    root.chmod(directory_mode)
    if directory_mode & stat.S_ISGID:
        os.chown(root, -1, os.getgid())
        root.chmod(directory_mode)
    previous = os.umask(0o027)
    try:
        cache = Store(Directory(str(root)))
        cache.add_record(RECORD, KEY, b"body")
        with locks.hold(cache.directory, "a", 0.0):
            pass
    finally:
        os.umask(previous)
    assert not cache.fault_message
    for name in (RECORD, f"{RECORD}/{KEY[:2]}", "locks", "tmp"):
        assert oct((root / name).stat().st_mode & 0o7777) == oct(of_folders), name
    cache.add_record(store.OBJECT, KEY, b"body")
    assert stat.S_IMODE(os.stat(cache.path(store.OBJECT, KEY)).st_mode) == 0o600
    for name in (NAME, directory.TAG_NAME):
        assert oct((root / name).stat().st_mode & 0o7777) == oct(of_files), name


@pytest.mark.parametrize(
    ("mode", "is_private"), [(None, True), (0o755, True), (0o775, False), (0o2775, False)]
)
def test_a_new_cache_is_its_users_alone_whatever_the_umask(root, mode, is_private):
    """And one that others may write is not private, which the launcher asks for."""
    if mode:
        root.mkdir()
        root.chmod(mode)
    previous = os.umask(0o002)
    try:
        Store(str(root)).add_record(RECORD, KEY, b"body")
    finally:
        os.umask(previous)
    assert oct(stat.S_IMODE(root.stat().st_mode)) == oct(mode or 0o700)
    assert directory.is_private(str(root)) == is_private
    assert stat.S_IMODE((root / NAME).stat().st_mode) == 0o666 & (mode or 0o700)


def test_an_unreadable_cache_directory_is_reported_as_unusable(root, cache):
    cache.write(NAME, b"content")
    assert cache.problem() == ""
    with unprivileged.unreadable(root) as copy:
        assert Directory(copy).problem() == "unusable_cache"
    with unprivileged.read_only(root) as copy:
        assert Directory(copy).problem() == ""

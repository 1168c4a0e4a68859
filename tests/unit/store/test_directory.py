"""The cache directory: who may use it, the files that are opened, and their permissions."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from pathlib import Path

import pytest

import unprivileged
from nvccache import config
from nvccache.files import keys, untrusted
from nvccache.store import directory, locks, store
from nvccache.store.directory import Directory, ForeignDirectoryError
from nvccache.store.store import BUCKETS, RECORD, Store

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


@pytest.mark.parametrize("there", ["", "lost+found", ".nvccache-tag-0123", "a/b"])
@pytest.mark.parametrize("is_cache", [False, True])
def test_a_directory_that_holds_nothing_but_folders_and_caches_of_ours_is_claimed(
    root, cache, there, is_cache
):
    """Such as a cache below another; scratch directories may be there as well."""
    (root / there).mkdir(parents=True)
    if is_cache and there:
        Directory(str(root / there)).prepare()
    (root / "nvccache-1000").mkdir()
    (root / "nvccache-1000" / "a.ii").write_text("")
    cache.prepare()
    assert (root / directory.TAG_NAME).is_file()


@pytest.mark.parametrize("there", ["thesis.tex", "tmp", "record-v2", directory.TAG_NAME, ".hidden"])
def test_another_users_directory_is_neither_read_nor_written(root, there):
    """A cache of another program has a tag, too."""
    root.mkdir()
    (root / there).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n")
    before = _files(root)
    cache = Store(str(root))
    cache.add_record(RECORD, KEY, b"body")
    assert cache.fault == "foreign_directory"
    assert cache.find_record(RECORD, KEY) is None
    with pytest.raises(ForeignDirectoryError):
        Directory(str(root)).list()
    assert Directory(str(root)).problem(BUCKETS) == "foreign_directory"
    assert _files(root) == before


def test_a_tag_that_is_a_link_makes_no_cache(root, tmp_path):
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
def test_link_in_place_of_a_file_is_not_followed(root, cache, tmp_path, target):
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


def test_a_cache_removed_during_a_store_does_not_stay_foreign(root, cache, monkeypatch):
    """The tag is removed first; files that other calls then write must not make the directory foreign."""
    cache.write(NAME, b"first")
    (root / directory.TAG_NAME).unlink()
    with pytest.raises(ForeignDirectoryError):
        cache.write(NAME, b"second")
    (root / NAME).unlink()
    (root / "locks").mkdir()
    cache.write(NAME, b"third")
    assert Directory(str(root)).read(NAME)[0] == b"third"
    rename = os.rename

    def removed_meanwhile(*paths: str, **folders: int) -> None:
        rename(*paths, **folders)
        (root / directory.TAG_NAME).unlink(missing_ok=True)

    monkeypatch.setattr(os, "rename", removed_meanwhile)
    with pytest.raises(FileNotFoundError):
        cache.write(NAME, b"fourth")
    assert not (root / NAME).exists()


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
    # A user who may not write must not be able to lock either.
    of_locks = 0o600 | (of_files & 0o020 and 0o060) | (of_files & 0o002 and 0o006)
    assert oct((root / "locks" / "a.lock").stat().st_mode & 0o7777) == oct(of_locks)


@pytest.mark.parametrize(
    ("mode", "is_own", "variable", "expected"),
    [
        (None, True, "NVCCACHE_DIR", 0o700),
        (0o775, True, "XDG_CACHE_HOME", 0o700),
        (0o775, True, "NVCCACHE_DIR", 0o755),
        (0o775, False, "XDG_CACHE_HOME", 0o775),
        (0o2775, True, "NVCCACHE_DIR", 0o2775),
        (0o777, True, "NVCCACHE_DIR", 0o777),
    ],
)
def test_a_cache_is_not_shared_by_default_with_a_group_of_only_its_user(
    tmp_path, monkeypatch, mode, is_own, variable, expected
):
    """With the umask of distributions where each user has a group."""
    monkeypatch.setattr(untrusted, "_is_own_group", lambda status: is_own)
    root = tmp_path / "nvccache"
    if mode:
        root.mkdir()
        root.chmod(mode)
    value = str(tmp_path if variable == "XDG_CACHE_HOME" else root)
    previous = os.umask(0o002)
    try:
        cache = Store(directory.configured(config.load({variable: value, "HOME": str(tmp_path)})))
        cache.add_record(RECORD, KEY, b"body")
    finally:
        os.umask(previous)
    assert not cache.fault_message
    assert oct(stat.S_IMODE(root.stat().st_mode)) == oct(expected)
    assert directory.is_private(str(root)) == (not expected & 0o022)
    assert stat.S_IMODE((root / NAME).stat().st_mode) == 0o666 & expected


@pytest.mark.parametrize(
    ("name", "members", "is_own"),
    [("user", [], True), ("user", ["user"], True), ("user", ["user", "other"], False), ("staff", [], False)],
)
def test_own_group_has_users_name_and_no_other_member(tmp_path, monkeypatch, name, members, is_own):
    user = pwd.struct_passwd(("user", "x", os.geteuid(), os.getegid(), "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda number: user)
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((name, "x", number, members)))
    tmp_path.chmod(0o775)
    directory.configured(config.load({"NVCCACHE_DIR": str(tmp_path), "HOME": "/", "NVCCACHE_READONLY": "1"}))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o775
    directory.configured(config.load({"NVCCACHE_DIR": str(tmp_path), "HOME": "/"}))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == (0o755 if is_own else 0o775)


@pytest.mark.parametrize("is_of_group", [True, False])
def test_folders_are_for_the_group_where_their_bit_for_it_may_not_be_set(root, is_of_group, monkeypatch):
    """As in Nix's sandbox; a folder of a group that is not the caller's must not lose it."""
    root.mkdir()
    root.chmod(0o2770)
    os.chown(root, -1, os.getegid())
    root.chmod(0o2770)
    fchmod = os.fchmod

    def forbidden(descriptor: int, mode: int) -> None:
        if mode & stat.S_ISGID:
            raise PermissionError
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", forbidden)
    if not is_of_group:
        monkeypatch.setattr(os, "getegid", lambda: root.stat().st_gid + 1)
    cache = Store(str(root))
    cache.add_record(RECORD, KEY, b"body")
    assert bool(cache.fault) is not is_of_group
    if is_of_group:
        for name in (RECORD, f"{RECORD}/{KEY[:2]}"):
            assert oct((root / name).stat().st_mode & 0o7777) == oct(0o770)


def test_an_unreadable_cache_directory_is_reported_as_unusable(root, cache):
    cache.write(NAME, b"content")
    assert cache.problem(BUCKETS) == ""
    with unprivileged.unreadable(root) as copy:
        assert Directory(copy).problem(BUCKETS) == "unusable_cache"
    with unprivileged.read_only(root) as copy:
        assert Directory(copy).problem(BUCKETS) == ""
        os.seteuid(0) if os.getuid() == 0 else None
        os.chmod(f"{copy}/{RECORD}", 0o700)
        os.seteuid(unprivileged.NOBODY) if os.getuid() == 0 else None
        assert Directory(copy).problem(BUCKETS) == ("unusable_cache" if os.getuid() == 0 else "")

"""`nvccache doctor` on a cache directory: each part is tried, and the command it names fixes the problem."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from nvccache import config
from nvccache.cli import cache_checks
from nvccache.cli.output import BAD, GOOD, ODD
from nvccache.store import event_line, locks, store
from nvccache.store.directory import Directory
from nvccache.store.event_line import Event
from nvccache.store.store import Store
from unprivileged import NOBODY

KEY = "ab" * 32
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")


@pytest.fixture
def root():
    """A cache with files in each part, outside pytest's directories, which only their owner may enter."""
    outer = Path(tempfile.mkdtemp(prefix="nvccache-test-"))
    outer.chmod(0o755)
    path = outer / "a cache"
    cache = Store(str(path))
    for bucket in store.BUCKETS:
        cache.add_record(bucket, KEY, b"body")
    event_line.append(str(path), Event("miss"))
    (path / "locks" / "running").mkdir()
    yield path
    shutil.rmtree(outer)


def findings(root, **settings):
    environ = {"HOME": "/nowhere", "NVCCACHE_DIR": str(root), **settings}
    return list(cache_checks.of_cache(config.load(environ)))


def states(found):
    return {finding.state for finding in found}


def tree(root):
    return sorted(str(path) for path in root.rglob("*"))


@contextlib.contextmanager
def as_another_user():
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def open_to_all(root):
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


def test_a_sound_cache_has_every_part_tried_and_nothing_left_in_it(root):
    before = tree(root)
    found = findings(root)
    assert states(found) == {GOOD}
    assert {finding.topic for finding in found} == {"cache", "directories", "locks"}
    assert tree(root) == before


def test_a_cache_that_is_not_there_is_made_without_its_buckets(root):
    found = findings(root.parent / "new")
    assert states(found) == {GOOD}
    assert sorted(os.listdir(root.parent / "new")) == ["CACHEDIR.TAG"]


PARTS = [(name, 0o755) for name in ("tmp", "journal", "locks", "locks/running", *store.BUCKETS)]
PARTS += [(f"{bucket}/ab", 0o755) for bucket in store.BUCKETS]
PARTS += [("", 0o1755), ("locks/a.lock", 0o600), (f"journal/{event_line.LOG}", 0o644)]


@needs_root
@pytest.mark.parametrize(("part", "mode"), PARTS)
def test_a_file_of_another_user_is_named_with_the_command_that_fixes_it(root, part, mode):
    """A cache shared by all users, in which one has created a file with another umask."""
    open_to_all(root)
    path = root / part
    path.touch()
    path.chmod(mode)
    with as_another_user():
        bad = [finding for finding in findings(root) if finding.state == BAD]
    owner = f"`{path}`: owner root (0), group root (0), mode {mode:o}"
    assert any(owner in finding.details for finding in bad)
    if not part:
        return  # the owner of the directory decides
    mend(bad)
    with as_another_user():
        assert BAD not in states(findings(root))


def mend(bad):
    """Follow the advice, as the administrator."""
    for finding in bad:
        for command in re.findall(r"`sudo ([^`]*)`", finding.details[-1]):
            subprocess.run(["sh", "-c", command], check=True)


@needs_root
def test_a_shared_cache_names_the_mask_and_the_group_to_join(root):
    for path in (root, *root.rglob("*")):
        os.chown(path, 0, 4321)
        path.chmod(0o2775 if path.is_dir() else 0o664)
    with as_another_user():
        found = findings(root)
    assert ODD in states(found) and BAD in states(found)
    assert any("usermod -aG 4321" in line for finding in found for line in finding.details)
    (root / store.BLOB).chmod(0o755)
    os.setgroups([4321])
    try:
        with as_another_user():
            bad = [finding for finding in findings(root) if finding.state == BAD]
        assert "NVCCACHE_UMASK=002" in bad[0].details[-1]
        mend(bad)
        with as_another_user():
            assert BAD not in states(findings(root))
    finally:
        os.setgroups([])


@needs_root
def test_access_to_a_private_cache_is_not_requested(root):
    with as_another_user():
        (cache, *_) = [finding for finding in findings(root) if finding.state == BAD]
    assert "NVCCACHE_DIR" in cache.details[-1] and "sudo" not in cache.details[-1]


@needs_root
def test_parts_that_fail_for_the_same_reason_are_one_finding(root):
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with as_another_user():
        bad = [finding for finding in findings(root) if finding.state == BAD]
    assert [finding.topic for finding in bad] == ["tmp"]
    assert "other parts of the cache" in bad[0].text
    assert "1 other part of" in cache_checks._and_others(bad[0], bad[0]).text


def test_a_full_disk_is_not_taken_for_one_without_locks(root, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    bad = [finding for finding in findings(root) if finding.state == BAD]
    assert {finding.topic for finding in bad} == {"tmp"}
    assert "make room" in bad[0].details[-1]


def test_a_cache_that_cannot_be_created_is_not_given_other_modes():
    (bad,) = [finding for finding in findings("/proc/x/y") if finding.state == BAD]
    assert bad.details[-1] == "it cannot be created: set `NVCCACHE_DIR` to another directory"


def test_a_cache_that_does_not_exist_is_not_to_be_only_read(root):
    error = OSError(errno.EROFS, "Read-only file system")
    assert "READONLY" in cache_checks.fix_for(error, str(root / "tmp"), str(root))
    for name in ("other", ""):  # neither a missing directory nor an empty one is a cache
        (root / "empty").mkdir(exist_ok=True)
        path = str(root / "empty" / name)
        assert cache_checks.fix_for(error, path, path).endswith("set `NVCCACHE_DIR` to another directory")


@pytest.mark.parametrize(("free", "state"), [(28 << 10, BAD), (100 << 20, ODD)])
def test_a_disk_with_little_room_is_named_with_what_to_do(root, monkeypatch, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 0, free))
    (found,) = [finding for finding in findings(root) if "free on its file system" in finding.text]
    assert (found.state, found.details) == (state, (cache_checks._MAKE_ROOM,))


@pytest.mark.parametrize("readonly", ["0", "1"])
@pytest.mark.parametrize("place", ["/proc/x", "{root}/CACHEDIR.TAG", "{root}/journal"])
def test_a_directory_in_which_calls_cannot_be_counted_is_bad_and_the_command_fixes_it(root, place, readonly):
    place = place.format(root=root)
    (bad,) = [
        finding
        for finding in findings(root, NVCCACHE_STATS_DIR=place, NVCCACHE_READONLY=readonly)
        if finding.state == BAD
    ]
    assert f"calls cannot be counted in `{place}`: " in bad.text
    assert bad.mend == ("unset NVCCACHE_STATS_DIR",)


def test_a_directory_for_counts_is_checked_like_the_journal_of_a_cache(root, tmp_path):
    counted = tmp_path / "counts"
    assert states(findings(root, NVCCACHE_STATS_DIR=str(counted))) == {GOOD}
    (counted / "journal" / event_line.LOG).mkdir(parents=True)
    (bad,) = [each for each in findings(root, NVCCACHE_STATS_DIR=str(counted)) if each.state == BAD]
    advised(bad)
    assert states(findings(root, NVCCACHE_STATS_DIR=str(counted))) == {GOOD}


@needs_root
def test_files_that_cannot_be_read_are_counted(root):
    open_to_all(root)
    (root / store.BLOB / "ab" / KEY).chmod(0o600)
    with as_another_user():
        odd = [finding for finding in findings(root) if finding.topic == store.BLOB]
    assert [finding.text for finding in odd] == ["1 of 1 files that were looked at cannot be read"]


def test_those_who_are_trusted_are_named(root):
    for mode, word in ((0o777, "everyone"), (0o1777, "everyone"), (0o2775, "every member of")):
        root.chmod(mode)
        (trust,) = [finding for finding in findings(root) if finding.topic == "trust"]
        assert trust.state == ODD and trust.text.startswith(word)


@pytest.mark.parametrize("place", ["tmp", "journal", "locks", store.BLOB, store.RECORD, f"{store.BLOB}/ab"])
def test_a_link_in_place_of_a_directory_is_bad_and_not_followed(root, tmp_path, place):
    shutil.rmtree(root / place)
    (tmp_path / "elsewhere").mkdir()
    (root / place).symlink_to(tmp_path / "elsewhere")
    bad = [finding for finding in findings(root) if finding.state == BAD]
    assert f"`rm '{root / place}'`" in bad[0].details[-1]
    assert os.listdir(tmp_path / "elsewhere") == []


def test_no_probe_goes_through_a_link_above_a_directory(root, tmp_path):
    shutil.rmtree(root / "locks")
    (tmp_path / "elsewhere" / "running").mkdir(parents=True)
    (root / "locks").symlink_to(tmp_path / "elsewhere")
    before = os.stat(tmp_path / "elsewhere" / "running").st_mtime_ns
    assert "locks" in {finding.topic for finding in findings(root) if finding.state == BAD}
    assert os.stat(tmp_path / "elsewhere" / "running").st_mtime_ns == before


def advised(finding):
    """Follow the advice of a finding."""
    command = finding.details[-1].split("`")[1]
    subprocess.run(["sh", "-c", command], check=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "place",
    [
        "journal/" + event_line.LOG,
        "locks/a.lock",
        "journal",
        "tmp",
        f"{store.RECORD}/ab/{KEY}",
        f"{store.OBJECT}/ab/{KEY}",
    ],
)
@pytest.mark.parametrize("kind", ["directory", "link", "fifo", "file"])
def test_the_command_removes_what_stands_in_place_of_a_part(root, tmp_path, place, kind):
    path = root / place
    (root / "locks" / "a.lock").touch()
    is_folder = path.is_dir()
    if (kind == "file") != is_folder and (kind == "directory") == is_folder:
        pytest.skip("that is what belongs there")
    shutil.rmtree(path) if is_folder else path.unlink()
    if kind == "directory":
        path.mkdir()
        (path / "entry").touch()
    elif kind == "link":
        path.symlink_to(tmp_path)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.touch()
    found = findings(root)
    bad = [finding for finding in found if finding.state == BAD]
    assert bad
    assert all(good.topic != bad[0].topic for good in found if good.state == GOOD)
    advised(bad[0])
    assert not os.path.lexists(path) and tmp_path.is_dir()
    assert states(findings(root)) == {GOOD}


@pytest.mark.parametrize("below", ["", "/cache"])
def test_a_file_that_the_setting_names_is_never_to_be_removed(tmp_path, below):
    (tmp_path / "notes.txt").write_text("precious")
    (bad,) = [finding for finding in findings(f"{tmp_path}/notes.txt{below}") if finding.state == BAD]
    assert "`rm" not in "".join(bad.details) and "NVCCACHE_DIR" in bad.details[-1]


def test_a_lock_that_is_held_is_named_with_its_holder(root):
    with locks.held(Directory(str(root)), "locks/a.lock", 1.0):
        (odd,) = [finding for finding in findings(root) if finding.state == ODD]
    assert "`locks/a.lock` has been held" in odd.text
    assert f"process {os.getpid()} holds it" in odd.details[0] or "unknown here" in odd.details[0]


@pytest.mark.parametrize("tag", [None, "Signature: 8a477f597d28d172789f06886806bc55\n# ccache\n"])
def test_a_directory_of_others_is_left_as_it_is(tmp_path, tag):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "mine").write_text("")
    if tag:
        (tmp_path / "CACHEDIR.TAG").write_text(tag)
    before = tree(tmp_path)
    (bad,) = [finding for finding in findings(tmp_path) if finding.state == BAD]
    assert bad.text.startswith(f"`{tmp_path}` holds files but is not an nvccache cache")
    assert "NVCCACHE_DIR" in bad.details[-1]
    assert tree(tmp_path) == before


def test_a_cache_that_is_only_read_is_not_tried(root):
    before = tree(root)
    found = findings(root, NVCCACHE_READONLY="1")
    assert BAD not in states(found) and tree(root) == before
    assert any("calls are not counted" in finding.text for finding in found)
    findings(root.parent / "new", NVCCACHE_READONLY="1")
    assert not (root.parent / "new").exists()


def test_no_home_directory_is_bad(monkeypatch):
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    found = list(cache_checks.of_cache(config.load({})))
    assert found[0].state == BAD
    assert "there is no home directory and `NVCCACHE_DIR` is not set" in found[0].text

"""`nvccache doctor` on a cache directory: each part is tried, and nothing is left in it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from nvccache import config
from nvccache.cli import cache_checks
from nvccache.cli.output import BAD, GOOD, ODD
from nvccache.store import event_line, store
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


@needs_root
@pytest.mark.parametrize("part", ["tmp", "journal", "locks", f"journal/{event_line.LOG}", *store.BUCKETS])
def test_a_part_that_cannot_be_written_is_named_with_its_owner(root, part):
    """A cache shared by all users, in which one has created something with another umask."""
    open_to_all(root)
    (root / part).chmod(0o755 if (root / part).is_dir() else 0o644)
    with as_another_user():
        (bad,) = [finding for finding in findings(root) if finding.state == BAD]
    path = root / part.partition("/")[0]
    assert bad.text.startswith(f"nothing can be stored in `{path}`: Permission denied")
    assert bad.details[0].startswith(f"`{path}`: owner root (0), group root (0), mode ")
    assert "docs/how-to/shared-cache.md" in bad.details[1]


def test_parts_that_cannot_be_written_are_one_finding(root, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    (bad,) = [finding for finding in findings(root) if finding.state == BAD]
    assert bad.text.endswith(f", nor in {len(store.BUCKETS) + 3} other parts of the cache")
    assert "make room" in bad.details[-1]


@pytest.mark.parametrize("place", ["tmp", "journal", "locks", store.BLOB])
def test_a_link_in_place_of_a_directory_is_bad_and_not_followed(root, tmp_path, place):
    shutil.rmtree(root / place)
    (tmp_path / "elsewhere").mkdir()
    (root / place).symlink_to(tmp_path / "elsewhere")
    (bad,) = [finding for finding in findings(root) if finding.state == BAD]
    assert f"`{root / place}`: it is a link, or not a directory" in bad.text
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize(("free", "state"), [(28 << 10, BAD), (100 << 20, ODD)])
def test_a_disk_with_little_room_is_named_with_what_to_do(root, monkeypatch, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 0, free))
    (found,) = [finding for finding in findings(root) if "free on its file system" in finding.text]
    assert (found.state, found.details) == (state, (cache_checks._MAKE_ROOM,))


def test_those_who_are_trusted_are_named(root):
    for mode, word in ((0o777, "everyone"), (0o1777, "everyone"), (0o2775, "every member of")):
        root.chmod(mode)
        (trust,) = [finding for finding in findings(root) if finding.topic == "trust"]
        assert trust.state == ODD and trust.text.startswith(word)


@pytest.mark.parametrize("below", ["", "/cache"])
def test_a_file_that_the_setting_names_is_never_to_be_removed(tmp_path, below):
    (tmp_path / "notes.txt").write_text("precious")
    (bad,) = [finding for finding in findings(f"{tmp_path}/notes.txt{below}") if finding.state == BAD]
    assert "`rm" not in "".join(bad.details) and "NVCCACHE_DIR" in bad.details[-1]


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

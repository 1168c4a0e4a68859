"""What `nvccache doctor` finds wrong, and what fixes it; nothing that it tries stays in the cache."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from nvccache import config
from nvccache.cli import cache_checks, doctor
from nvccache.cli.output import BAD, GOOD, ODD
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import keys
from nvccache.remote import outages
from nvccache.store import event_line, store
from nvccache.store.event_line import Event
from nvccache.store.store import Store
from unprivileged import NOBODY


def bad(findings):
    return [finding for finding in findings if finding.state == BAD]


def tree(root):
    return sorted(str(path) for path in root.rglob("*"))


@pytest.fixture
def root():
    """A cache with files in each part, outside pytest's directories, which only their owner may enter."""
    outer = Path(tempfile.mkdtemp(prefix="nvccache-test-"))
    outer.chmod(0o755)
    path = outer / "a cache"
    cache = Store(str(path))
    for bucket in store.BUCKETS:
        cache.add_record(bucket, "ab" * 32, b"body")
    event_line.append(str(path), Event("miss"))
    yield path
    shutil.rmtree(outer)


def check(root, **variables):
    settings = config.load({"HOME": "/nowhere", "NVCCACHE_DIR": str(root), **variables})
    return list(cache_checks.check_cache(settings))


def test_each_part_of_a_sound_cache_is_tried_and_nothing_stays_in_it(root):
    before = tree(root)
    assert [finding.state for finding in check(root)] == [GOOD]
    assert [finding.state for finding in check(root, NVCCACHE_READONLY="1")] == [ODD, GOOD]
    assert tree(root) == before


def test_a_missing_cache_is_made_without_its_buckets(root):
    new = root.parent / "new"
    check(new, NVCCACHE_READONLY="1")
    assert not new.exists()
    assert [finding.state for finding in check(new)] == [GOOD]
    assert sorted(os.listdir(new)) == ["CACHEDIR.TAG"]


@pytest.mark.parametrize("part", ["tmp", "journal", "locks", store.BLOB])
def test_a_part_that_cannot_be_written_is_named_with_its_owner(root, part):
    """A cache shared by all users, in which one has created something with another umask."""
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    (root / part).chmod(0o555)
    with as_ordinary_user():
        (found,) = bad(check(root))
    owner = f"of user {os.getuid()}, group {os.getgid()}, mode 555"
    expected = f"nothing can be stored in `{root / part}` ({owner}): Permission denied"
    assert (found.text, "docs/how-to/shared-cache.md" in found.details[0]) == (expected, True)


@contextlib.contextmanager
def as_ordinary_user():
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize("place", ["journal", store.BLOB])
def test_a_link_in_place_of_a_part_is_bad_and_not_followed(root, tmp_path, place):
    shutil.rmtree(root / place)
    (tmp_path / "elsewhere").mkdir()
    (root / place).symlink_to(tmp_path / "elsewhere")
    (found,) = bad(check(root))
    assert "it is a link, or not a directory" in found.text
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_full_disk_has_its_own_advice(root, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    (found,) = bad(check(root))
    assert "No space left" in found.text and "make room" in found.details[0]


def test_a_cache_that_others_can_write_to_is_noted(root):
    root.chmod(0o2775)
    assert [finding.topic for finding in check(root)] == ["cache", "trust"]


def test_a_directory_of_others_and_none_at_all_are_bad(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("")
    before = tree(tmp_path)
    (found,) = check(tmp_path)
    assert found.state == BAD and "holds files but is not an nvccache cache" in found.text
    assert tree(tmp_path) == before
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    (found,) = cache_checks.check_cache(config.load({}))
    assert found.state == BAD and "there is no home directory" in found.text


@pytest.fixture
def filled(cache_dir):
    """The files of a cache with a blob as it is, a compressed one, and the record of an object."""
    cache = Store(cache_dir)
    for content in (b"x" * 5000, b"y" * 5000):
        cache.add_blob(keys.digest_bytes(content), content, compress=content[:1] == b"y")
    object_record.add(["/b/a.o"], ObjectRecord("it is the first", "miss"), cache)
    return [path for bucket in store.BUCKETS for path in Path(cache_dir, bucket).glob("*/*")]


def check_files(cache_dir):
    (found,) = cache_checks.check_files(config.load({"NVCCACHE_DIR": cache_dir}))
    return found


def test_undamaged_files_are_good_and_unused(cache_dir, filled):
    before = [path.stat().st_mtime_ns for path in filled]
    found = check_files(cache_dir)
    assert found.state == GOOD and found.text.startswith("3 files without damage, ")
    assert [path.stat().st_mtime_ns for path in filled] == before


def test_damaged_files_are_named_and_stay(cache_dir, filled):
    for path in filled:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    found = check_files(cache_dir)
    assert (found.state, found.text) == (BAD, "3 of 3 files damaged: they are made again when needed")
    assert sorted(found.details) == sorted(str(path.relative_to(cache_dir)) for path in filled)
    assert all(path.exists() for path in filled)


def test_a_file_where_it_is_not_looked_up_and_a_link_are_damaged(cache_dir, filled):
    path = next(path for path in filled if path.name == keys.digest_bytes(b"x" * 5000))
    os.link(path, path.parent / ("0" * 64))
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert len(check_files(cache_dir).details) == 2


@pytest.fixture
def programs(tmp_path, cache_dir):
    """Directories with an nvcc each: `shim` has nvccache's, `cuda` another, `empty` none."""
    for name in ("shim/nvccache", "cuda/nvcc", "empty/x"):
        program = tmp_path / name
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / "shim" / "nvcc").symlink_to("nvccache")
    return tmp_path


def check_path(programs, *names, **variables):
    environ = {**os.environ, "PATH": ":".join(str(programs / name) for name in names), **variables}
    (found,) = doctor.check_path(config.load(environ), environ, f"{programs}/cuda/nvcc")
    return found


def test_a_shim_must_be_first_on_path_and_find_a_compiler(programs):
    assert check_path(programs, "cuda").state == GOOD
    assert check_path(programs, "empty", "shim", "cuda").state == GOOD
    found = check_path(programs, "shim", NVCCACHE_NVCC="/nowhere/nvcc")
    assert found.state == BAD and "no nvcc for it to run" in found.text
    for names, first in ((("cuda", "shim"), "shim"), (("empty",), "cuda")):
        found = check_path(programs, *names)
        assert (found.state, found.mend) == (ODD, (f'export PATH={programs}/{first}:"$PATH"',))


@pytest.mark.parametrize(
    ("entries", "state", "mend"),
    [
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING={bin}/nvccache", GOOD, ""),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:UNINITIALIZED={bin}/time;{bin}/nvccache", GOOD, ""),
        ("", ODD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER="),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING=/gone/nvccache", BAD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER="),
        ("CMAKE_CUDA_COMPILER:FILEPATH={shim}/nvcc", GOOD, ""),
        ("CMAKE_CUDA_COMPILER:FILEPATH={shim}/nvccache", BAD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER="),
        (None, ODD, ""),
    ],
)
def test_a_build_directory(programs, entries, state, mend):
    cuda = programs / "cuda"
    for name in ("nvccache", "time"):
        (cuda / name).symlink_to("/bin/true")
    compiler = "CMAKE_CXX_COMPILER" if entries is None else "CMAKE_CUDA_COMPILER"
    entries = (entries or "").format(bin=cuda, shim=programs / "shim")
    text = f"# by CMake\n{compiler}:FILEPATH={cuda}/nvcc\n{entries}\n"
    (programs / "CMakeCache.txt").write_text(text)
    found = doctor.check_build(str(programs))
    assert (found.state, [line[: len(mend)] for line in found.mend]) == (state, [mend] if mend else [])
    assert doctor.check_build(str(programs / "nowhere")).state == BAD


def test_wrong_settings_are_bad(cache_dir):
    (wrong,) = doctor.check_settings(config.load({**os.environ, "NVCCACHE_REMOTE": "file://shared,rw"}))
    assert wrong.state == BAD and "it has no absolute path" in wrong.text
    assert wrong.details == ("to fix it: correct `NVCCACHE_REMOTE`",)


def test_notes_of_the_build_of_nvccache_are_shown(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("launcher: not built: no room\nobserver: not built: error: too odd\n")
    monkeypatch.setattr(doctor.observer, "LIBRARY", str(tmp_path / "observer.so"))
    found = list(doctor.check_installation())[-1]
    assert (found.state, found.details) == (ODD, ("observer: not built: error: too odd",))


def test_an_outage_of_the_executor_is_shown(cache_dir, own_pool, monkeypatch):
    checks = SimpleNamespace(check_executor=lambda settings: [])
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: checks)
    settings = config.load({**os.environ, "NVCCACHE_EXECUTOR": "grpc://h:1"})
    assert list(doctor.check_executor(settings)) == []
    outages.begin(outages.OF_EXECUTOR.format(doctor.endpoint.parse("grpc://h:1").identity), "full", "no room")
    (found,) = doctor.check_executor(settings)
    assert found.state == ODD and found.text.endswith(": no room")

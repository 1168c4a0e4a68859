"""A cache that others use as well, and one that is used for long."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

import unprivileged
from installations import launcher_of_tree
from nvccache.files import keys
from nvccache.store import event_line, event_totals, eviction, store
from nvccache.store.locks import Claims
from nvccache.store.store import RECORD, Store
from replays import stand_alone
from scenarios.never_worse.primed_cache import check_compiles, compile_cached
from scenarios.support.toolkits import SOURCE
from workspaces import OLD_ENOUGH, Workspace

pytestmark = pytest.mark.light_by_default
DAY = 24 * 3600
KEY, OTHER_KEY = keys.digest_bytes(b"one"), keys.digest_bytes(b"another")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.parametrize("mode", [0o1777, 0o2777])
def test_two_users_can_share_a_cache_directory(tmp_path: Path, mode: int) -> None:
    """With the umask that most have, 022."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent != Path("/tmp") and parent.owner() == "root" and len(parent.parts) > 2:
            parent.chmod(parent.stat().st_mode | 0o055)
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(mode)
    previous = os.umask(0o022)
    try:
        first = Store(str(root))
        first.add_record(RECORD, KEY, b"of the first")
        event_line.append(str(root), event_line.Event("miss"))
        claim = Claims(str(root)).take(KEY)
        assert claim and not first.fault_message
        os.seteuid(unprivileged.NOBODY)
        second = Store(str(root))
        assert second.find_record(RECORD, KEY) == b"of the first"
        second.add_record(RECORD, KEY, b"of the second")
        second.add_record(RECORD, OTHER_KEY, b"of the second")
        assert not second.fault_message
        event_line.append(str(root), event_line.Event("miss"))
        assert event_totals.read(str(root))["calls"]["miss"] == 2
        assert eviction.clear(str(root)).files == 2
        second.add_record(RECORD, KEY, b"of the second")
    finally:
        os.seteuid(0)
        os.umask(previous)
    assert Store(str(root)).find_record(RECORD, KEY) == b"of the second"


def test_the_default_cache_of_a_user_with_an_own_group_is_not_shared(
    workspace: Workspace, workers_base: Path
) -> None:
    """Umask 002, as on Ubuntu: the launcher answers the last call without Python.

    The first one is not recorded if another test changes a file of the toolkit's meanwhile.
    """
    home = workspace.directory.parent / "home"
    environ = {**workspace.environ, "HOME": str(home)}
    del environ["NVCCACHE_DIR"]
    workspace.write("a.cu", SOURCE)
    time.sleep(OLD_ENOUGH)
    ours = workspace.directory.parent / "nvccache"
    for program in (launcher_of_tree(), launcher_of_tree(), stand_alone(workers_base)):
        ours.unlink(missing_ok=True)
        ours.symlink_to(program)
        argv = [str(ours), workspace.nvcc, "-c", "a.cu", "-o", "a.o"]
        done = subprocess.run(argv, env=environ, cwd=workspace.directory, umask=0o002, check=False)
        assert done.returncode == 0
    assert (home / ".cache/nvccache").stat().st_mode & 0o777 == 0o700


def _make_old(cache: Path, age: float) -> None:
    for path in cache.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - age,) * 2)


def test_recently_used_files_survive_eviction_by_age(primed: tuple[Workspace, bytes]) -> None:
    """A week of direct hits, and then an edit: the stages that it leaves alone are still there."""
    workspace, expected = primed
    check_compiles(workspace, expected)
    _make_old(workspace.cache, DAY)
    assert compile_cached(workspace).status == 0
    eviction.prune(str(workspace.cache), older_than=DAY / 2)
    workspace.write("a.cu", "// A comment more.\n" + SOURCE)
    _, counters = workspace.since(lambda: compile_cached(workspace))
    assert set(counters.ran()) <= {"host_preprocess", "device_preprocess"}


def test_a_stage_hit_marks_its_blobs_as_used(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    _make_old(workspace.cache, DAY)
    workspace.forget_calls()
    check_compiles(workspace, expected)
    used = time.time() - DAY / 2
    blobs = [path for path in (workspace.cache / store.BLOB).rglob("*") if path.is_file()]
    assert blobs and all(path.stat().st_mtime > used for path in blobs)

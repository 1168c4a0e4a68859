"""Damage to what the cache holds: the compile is right, and the cache heals."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kept_records
from nvccache.store import sections, store
from nvccache.store.store import BLOB, BUCKETS, RECORD
from scenarios.never_worse.primed_cache import check_compiles, check_heals, check_hits, compile_cached
from scenarios.support.both_ways import object_by_plain
from scenarios.support.cases import OLD_ENOUGH
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def emptied(content: bytes) -> bytes:
    return b""


def flipped(content: bytes) -> bytes:
    damaged = bytearray(content)
    for place in (0, len(damaged) // 2, len(damaged) - 1):
        damaged[place] ^= 0x10
    return bytes(damaged)


def flipped_length(content: bytes) -> bytes:
    """Change the size that a compressed blob claims."""
    damaged = bytearray(content)
    damaged[4:9] = b"\xe0\xff\xff\xff\xff"
    return bytes(damaged)


DAMAGES = [truncated, emptied, flipped, flipped_length]


@pytest.mark.by_default(
    *(f"{bucket}-0" for bucket in BUCKETS), f"{BLOB}-2", smoke={f"{BLOB}-0": "corrupt cache"}
)
@pytest.mark.parametrize("turn", [0, 2])
@pytest.mark.parametrize("bucket", BUCKETS)
def test_damage_in_every_bucket(primed: tuple[Workspace, bytes], bucket: str, turn: int) -> None:
    """The object is still right, and the next compile hits again."""
    workspace, expected = primed
    paths = sorted(path for path in (workspace.cache / bucket).rglob("*") if path.is_file())
    assert paths
    for number, path in enumerate(paths):
        damage = DAMAGES[(number + turn) % len(DAMAGES)]
        path.write_bytes(damage(path.read_bytes()))
    check_heals(workspace, expected)


def test_compile_replaces_damaged_blobs(primed: tuple[Workspace, bytes]) -> None:
    """No record refers to them, so that nothing has noticed the damage."""
    workspace, expected = primed
    workspace.forget_calls()
    shutil.rmtree(workspace.cache / RECORD)
    for path in (workspace.cache / BLOB).rglob("*"):
        if path.is_file():
            path.write_bytes(truncated(path.read_bytes()))
    check_compiles(workspace, expected)
    check_hits(workspace, expected)


@pytest.mark.by_default("blob-v3", "record-v5", "replay-v14")
@pytest.mark.parametrize("bucket", [bucket for bucket in BUCKETS if bucket != "memo-v1"])
def test_files_that_change_places(workspace: Workspace, bucket: str) -> None:
    """Each is complete, but under another's name."""
    workspace.write("a.cu", SOURCE)
    other = workspace.write("b.cu", SOURCE.replace("kernel", "another"))
    expected = object_by_plain(workspace, "a.cu")
    check_compiles(workspace, expected)
    assert workspace.cached("-c", other, *HOST_OPTIONS).status == 0
    for suffix in ("", ".zst"):
        paths = sorted(path for path in (workspace.cache / bucket).rglob("*") if path.suffix == suffix)
        paths = [path for path in paths if path.is_file()]
        contents = [path.read_bytes() for path in paths]
        for path, content in zip(paths, [*contents[1:], *contents[:1]], strict=True):
            path.write_bytes(content)
    check_heals(workspace, expected)


@pytest.mark.by_default("journal", "locks")
@pytest.mark.parametrize("bucket", [*BUCKETS, "journal", "tmp", "locks"])
def test_parts_that_vanish_or_become_files(primed: tuple[Workspace, bytes], bucket: str) -> None:
    workspace, expected = primed
    shutil.rmtree(workspace.cache / bucket)
    check_compiles(workspace, expected)
    shutil.rmtree(workspace.cache / bucket, ignore_errors=True)
    (workspace.cache / bucket).write_text("a file")
    check_compiles(workspace, expected)
    workspace.forget_calls()
    check_compiles(workspace, expected)
    check_compiles(workspace, expected)


def test_all_blobs_lost_but_one(primed: tuple[Workspace, bytes]) -> None:
    """Making one intermediate again may need others that are lost, too."""
    workspace, expected = primed
    blobs = sorted((workspace.cache / BLOB).glob("*/*"))
    contents = {path: path.read_bytes() for path in blobs}
    assert len(blobs) >= 6
    for kept in blobs:
        for path in blobs:
            path.unlink(missing_ok=True)
        kept.write_bytes(contents[kept])
        check_heals(workspace, expected)


def test_all_blobs_lost_and_a_line_inserted(primed: tuple[Workspace, bytes]) -> None:
    """Stages found for other lines would be made again from the new lines, and then differ."""
    workspace, _ = primed
    for path in (workspace.cache / BLOB).glob("*/*"):
        path.unlink()
    workspace.write("a.cu", "/* a line more */\n\n" + SOURCE)
    expected = object_by_plain(workspace, "a.cu")
    assert compile_cached(workspace).status == 0
    assert (workspace.directory / "a.o").read_bytes() == expected
    assert workspace.counters().calls["fault"] == 0


def test_damage_to_what_is_only_counted(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    workspace.cached("-c", "a.cu", *HOST_OPTIONS)
    for path in [*workspace.cache.glob("journal/*"), workspace.cache / "journal" / "usage-v4"]:
        if path.is_file():
            path.write_bytes(b"\xff\x00 no number\n")
    workspace.write("a.cu", SOURCE.replace("STEP 1", "STEP 2"))
    assert compile_cached(workspace).status == 0
    workspace.write("a.cu", SOURCE)
    check_compiles(workspace, expected)
    assert all(word.isdigit() for word in (workspace.cache / "journal" / "usage-v4").read_bytes().split())


LONGEST = 60  # seconds; opening a FIFO without a writer never returns
MACHINE_OF_INPUT_RECORD = 15
# As a child, since it must not hang or eat up this process.
ASK = """\
import resource, sys
from nvccache.files import keys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    keys.digest_file(sys.argv[1])
except OSError:
    print("refused")
"""


@pytest.mark.parametrize("name", ["fifo", "/dev/zero", "directory", "missing"])
def test_nothing_but_a_regular_file_is_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    argv = [sys.executable, "-c", ASK, tmp_path / name]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=LONGEST)
    assert (done.returncode, done.stdout) == (0, b"refused\n"), done.stderr.decode()


def forge(recorded: Workspace, topic: str, subject: str, answer: str = "x") -> None:
    """Have every input record ask this of the machine, and no replay record be there, which asks nothing."""

    def change(parts: list[bytes]) -> None:
        parts[MACHINE_OF_INPUT_RECORD] = sections.join([topic, subject, answer])

    kept_records.change_inputs(recorded.cache, change)
    for path in recorded.cache.glob(f"{store.REPLAY}/*/*"):
        path.unlink()


@pytest.fixture
def recorded(primed: tuple[Workspace, bytes]) -> tuple[Workspace, bytes]:
    """The same with a replay record that holds: the source is rewritten for each test."""
    workspace, expected = primed
    time.sleep(OLD_ENOUGH)
    check_compiles(workspace, expected)
    return primed


def test_unanswered_facts_do_not_hold(recorded: tuple[Workspace, bytes]) -> None:
    """Not even where the record says that there is no answer."""
    workspace, expected = recorded
    forge(workspace, "nonsense", "x", "")
    result, counters = workspace.since(lambda: compile_cached(workspace))
    assert (result.status, counters.outcome) == (0, "miss")
    assert (workspace.directory / "a.o").read_bytes() == expected

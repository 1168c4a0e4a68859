"""Damage to what the cache holds: the compile is right, and the cache heals."""

from __future__ import annotations

import shutil

import pytest

import kept_records
from nvccache.store import sections, store
from nvccache.store.store import BLOB, BUCKETS, RECORD
from scenarios.never_worse.primed_cache import check_compiles, check_heals, check_hits, compile_cached
from scenarios.support.both_ways import object_by_plain
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


@pytest.mark.by_default(f"{BLOB}-0", f"{RECORD}-0", smoke={f"{BLOB}-0": "corrupt cache"})
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


@pytest.mark.by_default(BLOB)
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


@pytest.mark.by_default("journal")
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


@pytest.mark.by_default("3")
@pytest.mark.parametrize("each", [1, 3])
def test_all_blobs_lost_but_one(primed: tuple[Workspace, bytes], each: int) -> None:
    """Making one intermediate again may need others that are lost, too."""
    workspace, expected = primed
    blobs = sorted((workspace.cache / BLOB).glob("*/*"))
    contents = {path: path.read_bytes() for path in blobs}
    assert len(blobs) >= 6
    for kept in blobs[::each]:
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
    words = (workspace.cache / "journal" / "usage-v4").read_bytes().split()
    assert all(word.isdigit() or word == b"-1" for word in words)  # a slice may not be counted yet


MACHINE_OF_INPUT_RECORD = 15


def test_a_question_that_cannot_be_answered_does_not_hold(primed: tuple[Workspace, bytes]) -> None:
    """Not even where the record says that there is no answer."""
    workspace, expected = primed

    def ask(parts: list[bytes]) -> None:
        parts[MACHINE_OF_INPUT_RECORD] = sections.join(["nonsense", "x", ""])

    kept_records.change_inputs(workspace.cache, ask)
    shutil.rmtree(workspace.cache / store.REPLAY)  # which asks nothing
    result, counters = workspace.since(lambda: compile_cached(workspace))
    assert (result.status, counters.outcome) == (0, "miss")
    assert (workspace.directory / "a.o").read_bytes() == expected

"""Damage to what the cache holds: the compile is right, and the cache heals."""

from __future__ import annotations

import shutil

import pytest

import stored_records
from nvccache.store import sections, store
from nvccache.store.store import BLOB, BUCKETS, RECORD
from scenarios.never_worse.primed_cache import check_compiles, check_heals, compile_cached
from scenarios.support.both_ways import object_by_plain
from scenarios.support.toolkits import SOURCE
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


@pytest.mark.by_default(BLOB, RECORD, smoke={BLOB: "corrupt cache"})
@pytest.mark.parametrize("bucket", BUCKETS)
def test_damaged_files_in_any_bucket_are_ignored_and_replaced(
    primed: tuple[Workspace, bytes], bucket: str
) -> None:
    """The object is still right, and the next compile hits again."""
    workspace, expected = primed
    paths = sorted(path for path in (workspace.cache / bucket).rglob("*") if path.is_file())
    assert paths
    for number, path in enumerate(paths):
        path.write_bytes(DAMAGES[number % len(DAMAGES)](path.read_bytes()))
    check_heals(workspace, expected)


def test_files_in_place_of_cache_folders_break_no_compile(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    for part in (*BUCKETS, "journal", "tmp", "locks"):
        shutil.rmtree(workspace.cache / part, ignore_errors=True)
        (workspace.cache / part).write_text("a file")
    check_compiles(workspace, expected)


def test_after_losing_all_blobs_and_inserting_a_line_the_object_is_correct(
    primed: tuple[Workspace, bytes],
) -> None:
    """Stages found for other lines would be made again from the new lines, and then differ."""
    workspace, _ = primed
    for path in (workspace.cache / BLOB).glob("*/*"):
        path.unlink()
    workspace.write("a.cu", "/* a line more */\n\n" + SOURCE)
    expected = object_by_plain(workspace, "a.cu")
    assert compile_cached(workspace).status == 0
    assert (workspace.directory / "a.o").read_bytes() == expected
    assert workspace.counters().calls["fault"] == 0


MACHINE_OF_INPUT_RECORD = 13


def test_a_record_with_an_unknown_kind_of_input_is_a_miss(primed: tuple[Workspace, bytes]) -> None:
    """Not even where the record says that there is no answer."""
    workspace, expected = primed

    def ask(parts: list[bytes]) -> None:
        parts[MACHINE_OF_INPUT_RECORD] = sections.join(["nonsense", "x", ""])

    stored_records.change_inputs(workspace.cache, ask)
    shutil.rmtree(workspace.cache / store.REPLAY)  # which asks nothing
    result, counters = workspace.since(lambda: compile_cached(workspace))
    assert (result.status, counters.outcome) == (0, "miss")
    assert (workspace.directory / "a.o").read_bytes() == expected
